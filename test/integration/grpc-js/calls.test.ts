import { credentials, InterceptingCall, type Interceptor, Metadata, status } from '@grpc/grpc-js';
import { roundRobin, staticEndpoints } from 'evenkeel';
import { serviceChannelOptions, serviceTarget } from 'evenkeel/grpc-js';
import { createChannel, createClientFactory, Metadata as NiceMetadata } from 'nice-grpc';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { titleOf } from '../../support/title-of.js';
import { until } from '../../support/until.js';
import {
  all,
  connected,
  Echo,
  type EchoClient,
  type Numbered,
  ordersClient,
  say,
  type Words,
} from './support/client.js';
import { Pods } from './support/pods.js';
import { maxToMean } from './support/spread.js';

const pods = new Pods();
const open: { close(): void }[] = [];

beforeAll(() => pods.start(4));
afterAll(() => pods.stop());
afterEach(() => {
  for (const client of open.splice(0)) client.close();
});

const resolver = () => staticEndpoints(pods.endpoints);

async function orders(options: Parameters<typeof ordersClient>[0] = {}, ...rest: never[]) {
  const made = ordersClient({ resolver: resolver(), picker: roundRobin(), ...options }, ...rest);
  open.push(made.client);
  await connected(made.balancer, 4);
  return made.client;
}

describe('spread', () => {
  it('is even over unary calls', async () => {
    const client = await orders();
    const names: string[] = [];
    for (let round = 0; round < 25; round++) {
      const answers = await Promise.all(Array.from({ length: 20 }, () => say(client)));
      names.push(...answers.map(({ pod }) => pod));
    }
    expect(maxToMean(names, 4)).toBeLessThanOrEqual(1.01);
  });

  it('is even over streams of every kind', async () => {
    const client = await orders();
    const serverStreams = await Promise.all(
      Array.from({ length: 80 }, async () => (await all(client.count({ numbers: 3 })))[0]?.pod as string),
    );
    expect(maxToMean(serverStreams, 4)).toBeLessThanOrEqual(1.01);
    const clientStreams = await Promise.all(Array.from({ length: 80 }, async () => (await add(client, [1, 2])).pod));
    expect(maxToMean(clientStreams, 4)).toBeLessThanOrEqual(1.01);
    const bidi = await Promise.all(
      Array.from({ length: 80 }, async () => (await chat(client, ['hi']))[0]?.pod as string),
    );
    expect(maxToMean(bidi, 4)).toBeLessThanOrEqual(1.01);
  });
});

describe('calls', () => {
  it('carry their messages in every kind of stream', async () => {
    const client = await orders();
    expect((await say(client, { text: 'ahoy' })).text).toBe('ahoy');
    expect((await all(client.count({ numbers: 4 }))).map(({ value }) => value)).toEqual([1, 2, 3, 4]);
    expect((await add(client, [3, 4, 5])).value).toBe(12);
    expect((await chat(client, ['a', 'b', 'c'])).map(({ text }) => text)).toEqual(['a', 'b', 'c']);
  });

  it('carry metadata both ways, and what interceptors add', async () => {
    const add: Interceptor = (options, next) =>
      new InterceptingCall(next(options), {
        start: (metadata, listener, next) => {
          metadata.set('x-intercepted', 'yes');
          next(metadata, listener);
        },
      });
    const made = ordersClient({ resolver: resolver() }, undefined, { interceptors: [add] });
    open.push(made.client);
    const metadata = new Metadata();
    metadata.set('x-own', 'mine');
    const { received } = await say(made.client, { metadata });
    expect(JSON.parse(received)).toMatchObject({ 'x-own': 'mine', 'x-intercepted': 'yes' });
  });

  it('send the Service as :authority, whichever pod answers', async () => {
    const client = await orders();
    expect(client.getChannel().getTarget()).toBe(serviceTarget('orders.shop:50051'));
    const { authority } = await say(client);
    expect(authority).toBe('orders.shop:50051');
  });

  it('end at their deadline', async () => {
    const client = await orders();
    const call = say(client, { text: 'hang', deadline: Date.now() + 50 });
    await expect(call).rejects.toMatchObject({ code: status.DEADLINE_EXCEEDED });
  });

  it('end when they are cancelled, on the pod too', async () => {
    const client = await orders();
    const before = (await pods.stats()).reduce((sum, { running }) => sum + running, 0);
    const stream = client.watch({ text: 'events' });
    const ended = new Promise<{ code: number }>((resolve) => {
      stream.on('error', resolve as never);
      stream.on('data', () => {});
    });
    const running = async () => (await pods.stats()).reduce((sum, { running }) => sum + running, 0);
    await until('a pod has the call', async () => (await running()) === before + 1);
    stream.cancel();
    expect((await ended).code).toBe(status.CANCELLED);
    await until('the pod heard of it', async () => (await running()) === before);
  });

  it('are not sent when they are cancelled before they have a pod', async () => {
    const made = ordersClient({ resolver: resolver() });
    open.push(made.client);
    await connected(made.balancer, 4);
    await say(made.client);
    const { picks } = made.balancer.snapshot().counts;
    const ended = await Promise.all(
      [0, 1, 2, 3].map(async (microtasks) => {
        const stream = made.client.watch({ text: 'quiet' });
        stream.on('error', () => {});
        const status = new Promise<{ code: number }>((resolve) => stream.on('status', resolve));
        for (let passed = 0; passed < microtasks; passed++) await undefined;
        stream.cancel();
        return (await status).code;
      }),
    );
    expect(new Set(ended)).toEqual(new Set([status.CANCELLED]));
    // grpc-js asks for a pod all the same, before it does for the next call, and would leave the call to it.
    await say(made.client);
    const { counts, endpoints } = made.balancer.snapshot();
    expect(endpoints.map(({ inFlight }) => inFlight)).toEqual([0, 0, 0, 0]);
    expect(counts.picks).toBeLessThan(picks + 1 + 4);
  });

  it('keep the application codes of their servers', async () => {
    const client = await orders();
    await expect(say(client, { text: `fail ${status.NOT_FOUND}` })).rejects.toMatchObject({
      code: status.NOT_FOUND,
      details: expect.stringContaining('was told to fail'),
    });
  });
});

describe('TLS and call credentials', () => {
  const secure = new Pods();
  const certificate = createCertificate({ commonName: 'orders', hosts: ['orders.shop'] });
  beforeAll(() => secure.start(2, { tls: { key: certificate.key, cert: certificate.cert } }));
  afterAll(() => secure.stop());

  it('checks the name of the Service in the certificates of all pods', async () => {
    const ssl = credentials.createSsl(Buffer.from(certificate.cert));
    const { client, balancer } = ordersClient(
      { resolver: staticEndpoints(secure.endpoints), picker: roundRobin() },
      ssl,
    );
    open.push(client);
    await connected(balancer, 2);
    const answers = await Promise.all(Array.from({ length: 4 }, () => say(client)));
    expect(new Set(answers.map(({ pod }) => pod)).size).toBe(2);
  });

  it('refuses pods whose certificate is for another name', async () => {
    const ssl = credentials.createSsl(Buffer.from(certificate.cert));
    const client = new Echo(
      serviceTarget('billing.shop:50051'),
      ssl,
      serviceChannelOptions({ resolver: staticEndpoints(secure.endpoints) }),
    );
    open.push(client);
    await expect(say(client)).rejects.toMatchObject({
      code: status.UNAVAILABLE,
      details: expect.stringMatching(
        /^billing\.shop:50051: no endpoint can be reached .*altnames.*EVENKEEL_NOT_READY/s,
      ),
    });
  });

  it('gets metadata from call credentials for each call, of channel and call, however slow they are', async () => {
    const token = (name: string) =>
      credentials.createFromMetadataGenerator((_, callback) => {
        const metadata = new Metadata();
        metadata.set(name, 'token');
        setImmediate(() => callback(null, metadata));
      });
    const ssl = credentials.combineChannelCredentials(
      credentials.createSsl(Buffer.from(certificate.cert)),
      token('x-channel'),
    );
    const { client, balancer } = ordersClient({ resolver: staticEndpoints(secure.endpoints) }, ssl);
    open.push(client);
    const { received } = await say(client, { credentials: token('x-call') });
    expect(JSON.parse(received)).toMatchObject({ 'x-channel': 'token', 'x-call': 'token' });
    expect(balancer.snapshot().endpoints.every(({ inFlight }) => inFlight === 0)).toBe(true);
  });

  it('gives the endpoint back when the credentials of its call fail', async () => {
    const broken = credentials.createFromMetadataGenerator((_, callback) => callback(new Error('no token today')));
    const ssl = credentials.createSsl(Buffer.from(certificate.cert));
    const { client, balancer } = ordersClient({ resolver: staticEndpoints(secure.endpoints) }, ssl);
    open.push(client);
    await connected(balancer, 2);
    await expect(say(client, { credentials: broken })).rejects.toMatchObject({
      details: expect.stringContaining('no token'),
    });
    await until('nothing is in flight', () => balancer.snapshot().endpoints.every(({ inFlight }) => inFlight === 0));
    expect(balancer.snapshot().endpoints.map(({ failed }) => failed)).toEqual([0, 0]);
  });
});

describe('nice-grpc', () => {
  // It brings the installed grpc-js along; with another version in its place there would be two copies.
  const peers = JSON.parse(process.env.EVENKEEL_PEERS ?? '{}');

  it.skipIf('@grpc/grpc-js' in peers)(
    titleOf(
      'works with a channel that it creates itself',
      !('@grpc/grpc-js' in peers),
      'it brings the installed grpc-js along',
    ),
    async () => {
      const channel = createChannel(
        serviceTarget('orders.shop:50051'),
        credentials.createInsecure(),
        serviceChannelOptions({ resolver: resolver() }),
      );
      open.push(channel);
      const client = createClientFactory().create(Echo.service as never, channel) as unknown as {
        Say(words: { text: string }, options?: object): Promise<Words>;
        Count(range: { numbers: number }): AsyncIterable<Numbered>;
      };
      const answer = await client.Say({ text: 'nice' }, { metadata: NiceMetadata({ 'x-nice': 'yes' }) });
      expect(answer.text).toBe('nice');
      expect(JSON.parse(answer.received)).toMatchObject({ 'x-nice': 'yes' });
      const values: number[] = [];
      for await (const { value } of client.Count({ numbers: 3 })) values.push(value);
      expect(values).toEqual([1, 2, 3]);
    },
  );
});

function add(client: EchoClient, values: readonly number[]): Promise<Numbered> {
  return new Promise((resolve, reject) => {
    const stream = client.add((error, sum) => (error === null ? resolve(sum as Numbered) : reject(error)));
    for (const value of values) stream.write({ value });
    stream.end();
  });
}

async function chat(client: EchoClient, words: readonly string[]): Promise<Words[]> {
  const stream = client.chat();
  for (const text of words) stream.write({ text });
  stream.end();
  return all(stream as never);
}
