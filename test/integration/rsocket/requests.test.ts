import { staticEndpoints } from 'evenkeel';
import { FakeClock, FakeResolver } from 'evenkeel/testing';
import { describe, expect, it } from 'vitest';
import { createRSocket, type RSocketOptions } from '../../../examples/rsocket/adapter/index.js';
import { createCertificate } from '../../servers/index.js';
import { closedAfterEach } from '../../support/opened.js';
import { ask, Heard, kinds, payload, running, startRSocket, states } from '../../support/pods/rsocket-calls.js';
import { RSocketPod, type RSocketPodOptions } from '../../support/pods/rsocket-pods.js';
import { until } from '../../support/until.js';

const open = closedAfterEach();

const start = (count: number, options?: RSocketOptions, podOptions?: RSocketPodOptions) =>
  startRSocket(open, count, options, podOptions);

describe('requests of each type', () => {
  it('go to the pods in turn, over one connection to each', async () => {
    const { pods, rsocket, attempts } = await start(3);
    const heard: Heard[] = [];
    const hear = () => heard[heard.push(new Heard()) - 1] as Heard;
    for (let round = 0; round < 30; round++) {
      rsocket.requestResponse(payload('name'), hear());
      rsocket.fireAndForget(payload('note'), hear());
      rsocket.requestStream(payload('count:3'), 3, hear());
      rsocket.requestChannel(payload('hello'), 1, true, hear());
      rsocket.metadataPush(Buffer.from('config'), hear());
    }
    for (const one of heard) await one.ended();
    await until('all pushes came', () => pods.reduce((sum, { stats }) => sum + stats.pushed.length, 0) === 30);
    for (const { stats } of pods) {
      expect(stats.open).toBe(1);
      const { fireAndForget = 0, requestResponse = 0, requestStream = 0, requestChannel = 0 } = stats.requests;
      expect(fireAndForget + requestResponse + requestStream + requestChannel + stats.pushed.length).toBe(50);
    }
    expect(running(rsocket)).toBe(0);
    expect(attempts).toHaveLength(150);
    expect(new Set(attempts.map(({ outcome }) => outcome.kind))).toEqual(new Set(['success']));
  });

  it('get their answers whole and in order', async () => {
    const { rsocket, pod } = await start(1);
    expect(await ask(rsocket, 'name')).toBe(pod.name);
    expect(await ask(rsocket, 'nothing')).toBe('');
    const stream = new Heard();
    rsocket.requestStream(payload('count:500'), 0x7fffffff, stream);
    expect(await stream.ended()).toEqual(Array.from({ length: 500 }, (_, index) => `a ${index + 1}`));
    const channel = new Heard();
    const sends = rsocket.requestChannel(payload('1'), 10, false, channel);
    await until('the pod asks for more', () => channel.requested > 0);
    sends.onNext(payload('2'), false);
    sends.onNext(payload('3'), false);
    sends.onComplete();
    expect(await channel.ended()).toEqual(['a 1', 'a 2', 'a 3']);
    await until('its lease has ended', () => running(rsocket) === 0);
  });

  it('wait for a pod, and keep the demand that was signaled meanwhile', async () => {
    const resolver = new FakeResolver();
    const { rsocket, pod } = await start(1, { resolver });
    const stream = new Heard();
    const request = { data: Buffer.from('count:9') };
    const sends = rsocket.requestStream(request, 2, stream);
    sends.request(3);
    // The caller's object is the caller's.
    request.data = Buffer.from('count:1');
    const dropped = new Heard();
    rsocket.requestResponse(payload('name'), dropped).cancel();
    resolver.update(pod.endpoint);
    await until('five came', () => stream.data.length >= 5);
    expect(await ask(rsocket, 'name')).toBe('a');
    expect(stream.data).toHaveLength(5);
    expect(stream.completed).toBe(false);
    expect(pod.stats.data).toEqual(['count:9', 'name']);
    sends.request(4);
    await stream.ended();
    expect(dropped.error).toBeUndefined();
  });
});

describe('back-pressure and cancellation', () => {
  it('no pod sends more than was requested', async () => {
    const { rsocket } = await start(1);
    const stream = new Heard();
    const sends = rsocket.requestStream(payload('tick'), 2, stream);
    await until('two came', () => stream.data.length === 2);
    await ask(rsocket, 'name');
    expect(stream.data).toHaveLength(2);
    sends.request(3);
    await until('three more came', () => stream.data.length === 5);
    sends.cancel();
    expect(running(rsocket)).toBe(0);
  });

  it('cancel reaches the pod, is not held against it, and ends the lease', async () => {
    const { rsocket, pod, attempts } = await start(1);
    const answer = new Heard();
    const call = rsocket.requestResponse(payload('hang'), answer);
    const channel = new Heard();
    const sends = rsocket.requestChannel(payload('1'), 1, false, channel);
    await until('the pod has both', () => pod.stats.held === 2);
    call.cancel();
    call.cancel();
    sends.cancel();
    await until('the pod has none', () => pod.stats.held === 0);
    expect(running(rsocket)).toBe(0);
    expect(kinds(attempts)).toEqual([
      ['cancelled', undefined, false],
      ['cancelled', undefined, false],
    ]);
    expect([answer.error, answer.completed, channel.error, channel.cancelled]).toEqual([
      undefined,
      false,
      undefined,
      true,
    ]);
  });

  it('an error that the caller sends ends its channel', async () => {
    const { rsocket, pod, attempts } = await start(1);
    const channel = new Heard();
    const sends = rsocket.requestChannel(payload('1'), 1, false, channel);
    await until('the pod asks for more', () => channel.requested > 0);
    sends.onError(new Error('no more orders'));
    await expect(channel.ended()).rejects.toThrow('no more orders');
    await until('the pod has none', () => pod.stats.held === 0);
    expect(kinds(attempts)).toEqual([['cancelled', undefined, false]]);
    expect(running(rsocket)).toBe(0);
  });
});

describe('an error', () => {
  it('from the application is passed to the caller, and not held against the pod', async () => {
    const { rsocket, attempts } = await start(1);
    await expect(ask(rsocket, 'error', { idempotent: true })).rejects.toThrow('no such order');
    await expect(ask(rsocket, 'own')).rejects.toMatchObject({ code: 0x301 });
    expect(kinds(attempts)).toEqual([
      ['success', undefined, false],
      ['success', undefined, false],
    ]);
  });

  it('that rejects a request before it began sends it to another pod', async () => {
    const { rsocket, pods, attempts } = await start(2);
    await expect(ask(rsocket, 'reject')).rejects.toThrow('busy');
    // To each of them once, and once more where none is left that has not been asked.
    expect(pods.every(({ stats }) => stats.data.length >= 1)).toBe(true);
    expect(kinds(attempts).at(0)).toEqual(['failure', 'overload', true]);
    expect(kinds(attempts).at(-1)).toEqual(['failure', 'overload', false]);
  });

  it('for a payload too large for a frame fails that request alone', async () => {
    const { rsocket, attempts } = await start(1);
    const heard = new Heard();
    rsocket.requestResponse({ data: Buffer.alloc(2 ** 24) }, heard);
    await expect(heard.ended()).rejects.toThrow();
    expect(await ask(rsocket, 'name')).toBe('a');
    expect(kinds(attempts)).toEqual([
      ['not-started', undefined, false],
      ['success', undefined, false],
    ]);
    expect(running(rsocket)).toBe(0);
  });
});

describe('leases granted by the server', () => {
  it('limit the requests to a pod, and the rest go to the others', async () => {
    const { rsocket, pods, pod, other } = await start(2, { lease: true }, { lease: true });
    const waiting = ask(rsocket, 'name');
    expect(rsocket.balancer.snapshot().endpoints.map(({ capacity }) => capacity)).toEqual([0, 0]);
    await pod.command('grant', { requestCount: 3 });
    expect(await waiting).toBe('a');
    await other.command('grant', { requestCount: 10 });
    await until('both take requests', () =>
      rsocket.balancer.snapshot().endpoints.every(({ capacity }) => capacity > 0),
    );
    const answers = await Promise.all(Array.from({ length: 12 }, () => ask(rsocket, 'name')));
    expect(answers.filter((name) => name === 'a')).toHaveLength(2);
    expect(answers.filter((name) => name === 'b')).toHaveLength(10);
    const last = ask(rsocket, 'name');
    expect(rsocket.balancer.snapshot()).toMatchObject({ waiting: 1 });
    await other.command('grant', { requestCount: 1 });
    expect(await last).toBe('b');
    expect(pods.map(({ stats }) => stats.requests.requestResponse)).toEqual([3, 11]);
  });

  it('count requests that start, not those that run: long streams use up no more', async () => {
    const { rsocket, pod } = await start(1, { lease: true }, { lease: true });
    await pod.command('grant', { requestCount: 2 });
    const stream = new Heard();
    rsocket.requestStream(payload('tick'), 1, stream);
    expect(await ask(rsocket, 'name')).toBe('a');
    const waiting = ask(rsocket, 'name');
    expect(rsocket.balancer.snapshot()).toMatchObject({ waiting: 1 });
    await pod.command('grant', { requestCount: 1 });
    expect(await waiting).toBe('a');
    await pod.command('release');
    await stream.ended();
  });

  it('expire', async () => {
    const clock = new FakeClock();
    const { rsocket, pod } = await start(1, { lease: true, clock }, { lease: true });
    await pod.command('grant', { requestCount: 5, ttl: 1_000 });
    const capacity = () => rsocket.balancer.snapshot().endpoints[0]?.capacity;
    await until('five are granted', () => capacity() === 5);
    clock.advance(1_000);
    expect(capacity()).toBe(0);
  });

  it('must be enabled on both sides: otherwise the connection fails with what the server says', async () => {
    const pod = await RSocketPod.start({ lease: true });
    const rsocket = createRSocket('orders.shop:7000', {
      resolver: staticEndpoints([pod.endpoint]),
      waitTimeoutMs: 60_000,
    });
    open.push(pod, { [Symbol.asyncDispose]: () => rsocket.close(new Error('over')) });
    const said = () => rsocket.balancer.snapshot().endpoints[0]?.lastError ?? '';
    await until('it is refused', () => said().includes('Lease has to be enabled'));
    expect(states(rsocket)).toEqual(['backoff']);
  });
});

it('a setup that the server refuses is a failed connection, and no request goes there', async () => {
  const [good, bad] = await Promise.all([RSocketPod.start({ name: 'good' }), RSocketPod.start({ refuse: true })]);
  const rsocket = createRSocket('orders.shop:7000', {
    resolver: staticEndpoints([bad.endpoint, good.endpoint]),
    setup: { payload: payload('token') },
  });
  open.push(good, bad, { [Symbol.asyncDispose]: () => rsocket.close() });
  await until('one refused', () => (rsocket.balancer.snapshot().endpoints[0]?.lastError ?? '').includes('not welcome'));
  for (let round = 0; round < 20; round++) expect(await ask(rsocket, 'name')).toBe('good');
  expect(good.stats.setups).toEqual(['token']);
});

describe('over TLS', () => {
  const authority = createCertificate({ commonName: 'authority' });

  it('connects to pods with a certificate for the Service, whatever their address', async () => {
    const { cert, key } = createCertificate({ hosts: ['orders.shop'], issuer: authority });
    const { rsocket } = await startRSocket(open, 2, { tls: { ca: authority.cert } }, { tls: { cert, key } });
    for (let round = 0; round < 4; round++) await ask(rsocket, 'name');
  });

  it('sends nothing to a pod with a certificate for another Service', async () => {
    const { cert, key } = createCertificate({ hosts: ['stock.shop'], issuer: authority });
    const pod = await RSocketPod.start({ tls: { cert, key } });
    const rsocket = createRSocket('orders.shop:7000', {
      resolver: staticEndpoints([pod.endpoint]),
      tls: { ca: authority.cert },
      setup: { payload: payload('token') },
    });
    open.push(pod, { [Symbol.asyncDispose]: () => rsocket.close() });
    const said = () => rsocket.balancer.snapshot().endpoints[0]?.lastError ?? '';
    await until('it is refused', () => said().includes('orders.shop'));
    expect(pod.stats.setups).toEqual([]);
  });
});

describe('invalid options', () => {
  it.each([
    [{ resume: {} }, 'options has no option "resume"'],
    [{ setup: { keepAlive: 0 } }, 'setup.keepAlive must be a whole number above 0'],
    [{ setup: { keepAlive: 1_000, lifetime: 1_000 } }, 'setup.lifetime must be a whole number above 1000'],
    [{ setup: { keepalive: 1_000 } }, 'did you mean "keepAlive"'],
    [
      { fragmentation: { maxOutboundFragmentSize: 10 } },
      'maxOutboundFragmentSize must be a whole number of at least 64',
    ],
    [{ lease: {} }, 'lease must be true or false'],
    [{ tls: true }, 'tls must be an object'],
    [{ responder: 1 }, 'responder must be an object'],
    [{ waitTimeoutMs: '5s' }, 'waitTimeoutMs must be a number'],
    [null, 'options must be an object'],
  ])('%j', (options, message) => {
    expect(() => createRSocket('orders.shop:7000', options as never)).toThrow(message);
  });

  it('of a call, and an invalid target', async () => {
    const { rsocket } = await start(1);
    expect(() => createRSocket('http://[')).toThrow(expect.objectContaining({ code: 'EVENKEEL_OPTION' }));
    expect(() => createRSocket(7000 as never)).toThrow('target must be a target such as');
    expect(() => rsocket.requestStream(payload('count:1'), 0, new Heard())).toThrow('initialRequestN must be a whole');
    expect(() => rsocket.requestResponse(payload('name'), new Heard(), { retries: 3 } as never)).toThrow('retries');
    expect(() => rsocket.requestResponse(payload('name'), new Heard(), { key: 7 } as never)).toThrow('key must be');
    expect(() => rsocket.requestResponse(payload('name'), undefined as never)).toThrow('receiver must be an object');
  });
});
