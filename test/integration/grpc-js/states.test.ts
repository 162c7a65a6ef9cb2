import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { connectivityState, credentials, Metadata, status } from '@grpc/grpc-js';
import { ResolveError, roundRobin, staticEndpoints } from 'evenkeel';
import { serviceChannelOptions, serviceTarget } from 'evenkeel/grpc-js';
import { FakeResolver } from 'evenkeel/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { titleOf } from '../../support/title-of.js';
import { until } from '../../support/until.js';
import { connected, Echo, ordersClient, say } from './support/client.js';
import { type Pod, Pods } from './support/pods.js';

let pods: Pods;
const open: { close(): void }[] = [];

beforeEach(() => {
  pods = new Pods();
});
afterEach(async () => {
  for (const client of open.splice(0)) client.close();
  await until('every connection of the pods is closed', async () =>
    (await pods.stats()).every(({ open }) => open === 0),
  );
  await pods.stop();
});

function orders(options: Parameters<typeof ordersClient>[0]) {
  const made = ordersClient(options);
  open.push(made.client);
  return made;
}

function waitForReady(): Metadata {
  return new Metadata({ waitForReady: true });
}

describe('an empty Service', () => {
  it('fails calls at once, with the name of the Service and a code', async () => {
    const resolver = new FakeResolver();
    resolver.update();
    const { client, balancer } = orders({ resolver });
    const error = await say(client).catch((error) => error);
    expect(error).toMatchObject({
      code: status.UNAVAILABLE,
      details: 'orders.shop:50051: it has no endpoint (EVENKEEL_NO_ENDPOINTS)',
    });
    expect(error.metadata.get('evenkeel-code')).toEqual(['EVENKEEL_NO_ENDPOINTS']);
    expect(balancer.snapshot().state).toBe('empty');
    expect(client.getChannel().getConnectivityState(false)).toBe(connectivityState.TRANSIENT_FAILURE);
  });

  it('U5: makes calls that wait for ready wait until the first pod is there', async () => {
    const resolver = new FakeResolver();
    resolver.update();
    const { client } = orders({ resolver });
    const waiting = Promise.all([1, 2, 3].map(() => say(client, { metadata: waitForReady() })));
    await expect(say(client)).rejects.toMatchObject({ code: status.UNAVAILABLE });
    await pods.start(1);
    resolver.update(...pods.endpoints);
    expect((await waiting).map(({ pod }) => pod)).toEqual(['pod-0', 'pod-0', 'pod-0']);
  });

  it('with waitForEndpoints makes every call wait, for a limited time', async () => {
    const resolver = new FakeResolver();
    resolver.update();
    const { client, balancer } = orders({ resolver, waitForEndpoints: true, waitTimeoutMs: 100 });
    await expect(say(client)).rejects.toMatchObject({
      code: status.UNAVAILABLE,
      details: expect.stringMatching(/EVENKEEL_NO_ENDPOINTS/),
    });
    const patient = orders({ resolver, waitForEndpoints: true });
    const waiting = say(patient.client);
    await until('it waits', () => patient.balancer.snapshot().waiting === 1);
    await pods.start(1);
    resolver.update(...pods.endpoints);
    expect((await waiting).pod).toBe('pod-0');
    expect((await say(client, { metadata: waitForReady() })).pod).toBe('pod-0');
    expect(balancer.snapshot().state).toBe('ready');
  });

  it('fails calls once the last pod is gone, and serves them when it is back', async () => {
    await pods.start(1);
    const resolver = new FakeResolver();
    resolver.update(...pods.endpoints);
    const { client } = orders({ resolver });
    await say(client);
    resolver.update();
    await until('calls fail', () =>
      say(client).then(
        () => false,
        () => true,
      ),
    );
    resolver.update(...pods.endpoints);
    await until('calls succeed', () =>
      say(client).then(
        () => true,
        () => false,
      ),
    );
    expect((await pods.stats())[0]?.connections).toBe(1);
  });
});

describe('a resolver that fails', () => {
  it('fails calls with its message while there is no first set; calls that wait for ready wait', async () => {
    const resolver = new FakeResolver();
    const { client, balancer } = orders({ resolver });
    const ready = balancer.ready();
    await until('it watches', () => resolver.watchers === 1);
    const queued = say(client);
    const waiting = say(client, { metadata: waitForReady() });
    await until('both wait', () => balancer.snapshot().waiting === 2);
    resolver.fail(new ResolveError('endpointslices shop/orders: list is forbidden', { code: 'EVENKEEL_FORBIDDEN' }));
    await expect(queued).rejects.toMatchObject({
      code: status.UNAVAILABLE,
      details: 'orders.shop:50051: endpointslices shop/orders: list is forbidden (EVENKEEL_FORBIDDEN)',
    });
    await expect(say(client)).rejects.toMatchObject({ code: status.UNAVAILABLE });
    await pods.start(1);
    resolver.update(...pods.endpoints);
    expect((await waiting).pod).toBe('pod-0');
    await ready;
  });

  it('W15: changes nothing once there is a set', async () => {
    await pods.start(1);
    const resolver = new FakeResolver();
    resolver.update(...pods.endpoints);
    const { client, balancer } = orders({ resolver });
    await say(client);
    resolver.fail(new ResolveError('the API server is away'));
    expect((await say(client)).pod).toBe('pod-0');
    expect(balancer.snapshot()).toMatchObject({ state: 'ready', resolveError: 'the API server is away' });
  });

  it('and never answers is waited for for a limited time', async () => {
    const { client } = orders({ resolver: new FakeResolver(), waitTimeoutMs: 100 });
    await expect(say(client)).rejects.toMatchObject({
      code: status.UNAVAILABLE,
      details: 'orders.shop:50051: no answer within 100 ms (EVENKEEL_NOT_READY)',
    });
  });
});

describe('pods that cannot be reached', () => {
  it('fail calls with the reason once each has failed, until one accepts connections', async () => {
    const [pod] = (await pods.start(1)) as [Pod];
    const { port } = pod;
    pod.kill();
    await pod.exited;
    pods.all.length = 0;
    const { client } = orders({ resolver: staticEndpoints([{ address: '127.0.0.1', port }]) });
    await expect(say(client)).rejects.toMatchObject({
      code: status.UNAVAILABLE,
      details: expect.stringMatching(
        /^orders\.shop:50051: no endpoint can be reached \(1 \w+; .*ECONNREFUSED.*EVENKEEL_NOT_READY/,
      ),
    });
    const waiting = say(client, { metadata: waitForReady() });
    await pods.start(1, { port });
    expect((await waiting).pod).toBe('pod-0');
  });
});

describe('limits', () => {
  it('make a call wait for one of the allowed streams, first come first served', async () => {
    await pods.start(2);
    const { client, balancer } = orders({
      resolver: staticEndpoints(pods.endpoints),
      maxConcurrentStreams: 2,
      picker: roundRobin(),
      waitTimeoutMs: 600_000,
    });
    await connected(balancer, 2);
    const streams = [1, 2, 3, 4].map(() => client.chat());
    const first = streams.map((stream) => new Promise((resolve) => stream.once('data', resolve)));
    for (const stream of streams) stream.write({ text: 'hello' });
    await Promise.all(first);
    const waiting = [say(client, { text: 'a' }), say(client, { text: 'b' })];
    await until('they wait', () => balancer.snapshot().waiting === 2);
    expect(balancer.snapshot().endpoints.map(({ inFlight, capacity }) => [inFlight, capacity])).toEqual([
      [2, 2],
      [2, 2],
    ]);
    streams[0]?.end();
    streams[0]?.resume();
    expect((await Promise.all(waiting)).map(({ text }) => text)).toEqual(['a', 'b']);
    for (const stream of streams) stream.cancel();
    for (const stream of streams) stream.on('error', () => {});
  });

  it('turn calls away when too many wait, and when none could start for too long', async () => {
    await pods.start(1);
    const { client, balancer } = orders({
      resolver: staticEndpoints(pods.endpoints),
      maxConcurrentStreams: 1,
      maxWaiting: 2,
      waitTimeoutMs: 1_000,
    });
    await connected(balancer, 1);
    const stream = client.watch({ text: 'busy' });
    stream.on('error', () => {});
    await until('the pod is busy', () => balancer.snapshot().endpoints[0]?.inFlight === 1);
    const waiting = [say(client), say(client)];
    await until('two wait', () => balancer.snapshot().waiting === 2);
    await expect(say(client)).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      details: expect.stringMatching(/EVENKEEL_QUEUE_FULL/),
    });
    for (const call of waiting) {
      await expect(call).rejects.toMatchObject({
        code: status.UNAVAILABLE,
        details: expect.stringMatching(/1 at capacity.*EVENKEEL_NOT_READY/),
      });
    }
    stream.cancel();
    await until('calls succeed', () =>
      say(client).then(
        () => true,
        () => false,
      ),
    );
  });

  it('serve 1,000 calls that waited once each, but none that was cancelled or whose deadline has passed', async () => {
    const [pod] = (await pods.start(1)) as [Pod];
    const { client, balancer } = orders({
      resolver: staticEndpoints(pods.endpoints),
      maxConcurrentStreams: 2,
      waitTimeoutMs: 600_000,
    });
    await connected(balancer, 1);
    const streams = [client.watch({ text: 'busy' }), client.watch({ text: 'busy' })];
    for (const stream of streams) stream.on('error', () => {});
    await until('the pod is busy', () => balancer.snapshot().endpoints[0]?.inFlight === 2);
    const texts = Array.from({ length: 1_000 }, (_, index) => `call ${index}`);
    const cancelled = texts.slice(0, 300).map((text) => {
      const call = client.say({ text }, new Metadata(), {}, () => {});
      return { cancel: () => call.cancel() };
    });
    const answers = texts.slice(300, 700).map((text) => say(client, { text, metadata: waitForReady() }));
    await until('they wait', () => balancer.snapshot().waiting === 700);
    const late = texts.slice(700).map((text) => say(client, { text, deadline: Date.now() + 200 }));
    for (const call of cancelled) call.cancel();
    const ends = await Promise.allSettled(late);
    expect(ends.every((end) => end.status === 'rejected' && end.reason.code === status.DEADLINE_EXCEEDED)).toBe(true);
    await until('the others wait', () => balancer.snapshot().waiting === 400);
    for (const stream of streams) stream.cancel();
    expect((await Promise.all(answers)).map(({ text }) => text)).toEqual(texts.slice(300, 700));
    expect((await pod.stats()).unary).toBe(400);
    expect(balancer.snapshot()).toMatchObject({ waiting: 0, endpoints: [{ inFlight: 0 }] });
    // A channel that closes ends the calls that wait.
    const held = [client.watch({ text: 'busy' }), client.watch({ text: 'busy' })];
    for (const stream of held) stream.on('error', () => {});
    const waiting = Promise.allSettled([say(client), say(client, { metadata: waitForReady() })]);
    await until('they wait', () => balancer.snapshot().waiting === 2);
    client.close();
    expect((await waiting).map((end) => end.status)).toEqual(['rejected', 'rejected']);
    expect((await pod.stats()).unary).toBe(400);
    for (const stream of held) stream.cancel();
  });

  it('give a pod several connections that are used evenly', async () => {
    await pods.start(2);
    const { client, balancer } = orders({
      resolver: staticEndpoints(pods.endpoints),
      connections: 3,
      maxConcurrentStreams: 2,
    });
    await connected(balancer, 2);
    await until('all are open', () => balancer.snapshot().endpoints.every(({ capacity }) => capacity === 6));
    expect((await pods.stats()).map(({ open }) => open)).toEqual([3, 3]);
    const streams = Array.from({ length: 12 }, () => client.watch({ text: 'busy' }));
    for (const stream of streams) stream.on('error', () => {});
    await until('all are taken', () => balancer.snapshot().endpoints.every(({ inFlight }) => inFlight === 6));
    for (const stream of streams) stream.cancel();
  });
});

describe('going idle', () => {
  it('closes connections and watch, and opens them again at the next call', async () => {
    await pods.start(2);
    const resolver = new FakeResolver();
    resolver.update(...pods.endpoints);
    const { client, balancer } = orders({ resolver, 'grpc.client_idle_timeout_ms': 1_000 });
    await say(client);
    await connected(balancer, 2);
    expect(balancer.snapshot().state).toBe('ready');
    await until('it is idle', () => balancer.snapshot().state === 'idle');
    expect(resolver.watchers).toBe(0);
    expect(client.getChannel().getConnectivityState(false)).toBe(connectivityState.IDLE);
    expect((await say(client)).text).toBe('hello');
    expect(resolver.watchers).toBe(1);
    await balancer.ready();
    expect(balancer.snapshot().endpoints.length).toBe(2);
  });

  it('is the initial state: nothing is looked up before the first call, or ready()', async () => {
    const resolver = new FakeResolver();
    await pods.start(1);
    resolver.update(...pods.endpoints);
    const { client, balancer } = orders({ resolver });
    expect(balancer.snapshot()).toMatchObject({ state: 'idle', endpoints: [] });
    expect(resolver.watchers).toBe(0);
    await balancer.ready();
    await connected(balancer, 1);
    expect(resolver.watchers).toBe(1);
    await new Promise<void>((resolve, reject) =>
      client.waitForReady(Date.now() + 5_000, (error) => (error ? reject(error) : resolve())),
    );
  });
});

describe('closing', () => {
  it('lets running calls finish, fails those that wait, and releases everything', async () => {
    await pods.start(2);
    const resolver = new FakeResolver();
    resolver.update(...pods.endpoints);
    const { client, balancer } = orders({ resolver });
    await connected(balancer, 2);
    const stream = client.chat();
    const received: string[] = [];
    stream.on('data', ({ text }) => received.push(text));
    const ended = new Promise((resolve) => stream.on('status', resolve));
    stream.write({ text: 'one' });
    await until('the stream is up', () => received.length === 1);
    client.close();
    expect(balancer.snapshot()).toMatchObject({ state: 'closed', endpoints: [] });
    expect(resolver.watchers).toBe(0);
    await expect(balancer.ready()).rejects.toMatchObject({ code: 'EVENKEEL_CLOSED' });
    // Of a closed channel, too, grpc-js asks for endpoints when somebody waits for it.
    await new Promise<void>((resolve) => client.waitForReady(Date.now() + 100, () => resolve()));
    expect([resolver.watchers, balancer.snapshot().state]).toEqual([0, 'closed']);
    await expect(say(client)).rejects.toMatchObject({ details: expect.stringMatching(/EVENKEEL_CLOSED/) });
    await until(
      'only the connection in use is left',
      async () => (await pods.stats()).reduce((sum, { open }) => sum + open, 0) === 1,
    );
    stream.write({ text: 'two' });
    stream.end();
    expect(await ended).toMatchObject({ code: status.OK });
    expect(received).toEqual(['one', 'two']);
  });

  it('the balancer turns calls away, also those that wait for ready', async () => {
    await pods.start(1);
    const resolver = new FakeResolver();
    resolver.update(...pods.endpoints);
    const { client, balancer } = orders({ resolver });
    await say(client);
    const other = new FakeResolver();
    const starting = orders({ resolver: other });
    const waiting = say(starting.client, { metadata: waitForReady() });
    await until('it waits', () => starting.balancer.snapshot().waiting === 1);
    const turnedAway = expect(waiting).rejects.toMatchObject({
      code: status.UNAVAILABLE,
      details: expect.stringMatching(/EVENKEEL_CLOSED/),
    });
    for (const made of [balancer, starting.balancer]) await made.close();
    await turnedAway;
    await expect(say(client, { metadata: waitForReady() })).rejects.toMatchObject({
      details: expect.stringMatching(/EVENKEEL_CLOSED/),
    });
    expect(balancer.snapshot().state).toBe('closed');
    expect(resolver.watchers + other.watchers).toBe(0);
  });

  it('one of two clients that share a channel ends it for both; separate clients share connections', async () => {
    await pods.start(2);
    const resolver = staticEndpoints(pods.endpoints);
    const first = orders({ resolver });
    const sharing = new Echo('unused', credentials.createInsecure(), { channelOverride: first.client.getChannel() });
    const second = orders({ resolver });
    await connected(first.balancer, 2);
    await connected(second.balancer, 2);
    for (const client of [first.client, sharing, second.client]) await say(client);
    expect((await pods.stats()).map(({ connections }) => connections)).toEqual([1, 1]);
    first.client.close();
    await expect(say(sharing).catch((error) => Promise.reject(error))).rejects.toThrow();
    expect((await say(second.client)).text).toBe('hello');
    expect((await pods.stats()).map(({ open }) => open)).toEqual([1, 1]);
  });

  it('clients with grpc.use_local_subchannel_pool share no connections', async () => {
    await pods.start(1);
    const resolver = staticEndpoints(pods.endpoints);
    for (let client = 0; client < 2; client++) {
      const made = orders({ resolver, 'grpc.use_local_subchannel_pool': 1 });
      await connected(made.balancer, 1);
    }
    expect((await pods.stats())[0]?.connections).toBe(2);
  });
});

it('a proxy in the environment is not used: pods are reached directly', async () => {
  process.env.grpc_proxy = 'http://127.0.0.1:9';
  try {
    await pods.start(1);
    const { client } = orders({ resolver: staticEndpoints(pods.endpoints) });
    expect((await say(client)).pod).toBe('pod-0');
  } finally {
    delete process.env.grpc_proxy;
  }
});

it('onBalancer is called once per channel, each time with a balancer of its own', async () => {
  const balancers: object[] = [];
  const options = serviceChannelOptions({
    resolver: staticEndpoints([{ address: '127.0.0.1', port: 1 }]),
    onBalancer: (made) => balancers.push(made),
  });
  for (let channel = 0; channel < 2; channel++) {
    open.push(new Echo(serviceTarget('orders.shop:50051'), credentials.createInsecure(), options));
  }
  expect(new Set(balancers).size).toBe(2);
});

const run = promisify(execFile);
/** The package as others get it. */
const build = () => run(process.execPath, [fileURLToPath(new URL('../../../scripts/build.mjs', import.meta.url))]);

describe('a process', () => {
  const otherVersion = '@grpc/grpc-js' in JSON.parse(process.env.EVENKEEL_PEERS ?? '{}');

  // The package as it is built has the installed grpc-js for its peer.
  it.skipIf(otherVersion)(
    titleOf(
      'with an idle channel ends by itself',
      !otherVersion,
      'the package as it is built has the installed grpc-js',
    ),
    async () => {
      await build();
      await pods.start(2);
      const program = fileURLToPath(new URL('support/one-call.mjs', import.meta.url));
      const { stdout } = await run(process.execPath, [program, JSON.stringify(pods.endpoints)], { timeout: 240_000 });
      expect(JSON.parse(stdout)).toEqual({ text: 'hello', state: 'ready', alive: [] });
    },
  );
});

describe('two installed copies of grpc-js', () => {
  let folder: string;
  afterEach(() => rm(folder, { recursive: true, force: true }));

  it('are reported when the client is created', async () => {
    folder = await mkdtemp(join(tmpdir(), 'evenkeel-grpc-'));
    const modules = fileURLToPath(new URL('../../../node_modules', import.meta.url));
    await cp(join(modules, '@grpc/grpc-js'), join(folder, 'grpc-js'), { recursive: true });
    await symlink(modules, join(folder, 'node_modules'), 'junction');
    await writeFile(join(folder, 'package.json'), '{}');
    const copy = createRequire(import.meta.url)(join(folder, 'grpc-js')) as typeof import('@grpc/grpc-js');
    const make = () =>
      new copy.Client(
        serviceTarget('orders.shop:50051'),
        copy.credentials.createInsecure(),
        serviceChannelOptions() as never,
      );
    expect(make).toThrow(
      expect.objectContaining({
        code: 'EVENKEEL_OPTION',
        message: expect.stringMatching(/another copy of @grpc\/grpc-js.*npm dedupe/),
      }),
    );
  });
});
