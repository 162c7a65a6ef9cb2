import { PassThrough, Readable } from 'node:stream';
import type { ObserverEvents } from 'evenkeel';
import { FakeResolver } from 'evenkeel/testing';
import { createDispatcher, type DispatcherOptions, type ServiceDispatcher } from 'evenkeel/undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { connected } from '../../support/fixtures/connected.js';
import { HangingEndpoint } from '../../support/pods/hanging-endpoint.js';
import { Pod, type PodOptions } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';
import { carriesHttp2 } from './support/version.js';

const certificate = createCertificate({ hosts: ['orders.shop'] });
const tls = { tls: certificate };

/** A request is on its way to a pod, whose connection is opening, when the pod leaves the Service. */
describe('a pod that leaves while a connection to it opens', () => {
  let leaving: Pod;
  let staying: Pod;
  let resolver: FakeResolver;
  let orders: ServiceDispatcher;
  let attempts: ObserverEvents['attemptEnded'][];

  const start = async (pod: PodOptions, options: DispatcherOptions = {}): Promise<void> => {
    leaving = await Pod.start({ ...pod, name: 'leaving' });
    staying = await Pod.start({ ...pod, name: 'staying' });
    resolver.update(leaving.endpoint);
    orders = createDispatcher(pod.tls ? 'https://orders.shop:8443' : 'http://orders.shop:8080', {
      resolver,
      ...(pod.tls && { tls: { ca: pod.tls.cert } }),
      pool: { connectTimeoutMs: 60_000 },
      observer: { attemptEnded: (event) => attempts.push(event) },
      ...options,
    });
    await connected(orders.balancer, 1);
  };
  const inFlight = (): number => orders.balancer.snapshot().endpoints.reduce((sum, { inFlight: n }) => sum + n, 0);
  const podOf = async (answer: ReturnType<ServiceDispatcher['request']>): Promise<unknown> => {
    const { headers, body } = await answer;
    await body.dump();
    return headers['x-pod'];
  };
  /** The next connection to the pod is not finished before it is thawed. Until then it got one request. */
  const holdConnections = async (): Promise<void> => {
    // Nobody reads a connection over HTTP/2 before its first request, and so nobody would hear of its end.
    await podOf(orders.request({ path: '/', method: 'GET' }));
    attempts = [];
    await leaving.end();
    await until('it has no connection', async () => (await leaving.stats()).open === 0);
    leaving.freeze();
  };
  const leave = async (): Promise<void> => {
    resolver.update(staying.endpoint);
    await until('it has left', () => orders.balancer.snapshot().endpoints.some(({ state }) => state === 'draining'));
    await connected(orders.balancer, 1);
  };
  const told = (): unknown[] => attempts.map(({ outcome, retrying }) => [outcome.kind, retrying]);

  beforeEach(() => {
    resolver = new FakeResolver();
    attempts = [];
  });
  afterEach(async () => {
    await orders.destroy();
    await Promise.all([leaving[Symbol.asyncDispose](), staying[Symbol.asyncDispose]()]);
  });

  describe.each([
    ['HTTP/1.1', tls, {}],
    ...(carriesHttp2 ? [['HTTP/2', { ...tls, http2: true }, { allowH2: true }] as const] : []),
  ] as const)('%s', (_protocol, pod, options) => {
    it.each([
      ['text', () => 'once'],
      ['a stream', () => Readable.from([Buffer.from('once')])],
      [
        'what is made as it is sent',
        async function* () {
          yield Buffer.from('once');
        },
      ],
    ])('sends its waiting POST with %s to another pod, even without retries', async (_what, body) => {
      await start(pod, { ...options, retry: { maxAttempts: 1 } });
      await holdConnections();
      const answer = podOf(orders.request({ path: '/', method: 'POST', body: body() as never }));
      await until('it is on its way', () => inFlight() === 1);
      await leave();
      expect(await answer).toBe('staying');
      leaving.thaw();
      expect((await leaving.stats()).requests).toBe(1);
      expect(told()).toEqual([
        ['not-started', true],
        ['success', false],
      ]);
    });

    it('sends a waiting fetch, of Node and of undici, to another pod', async () => {
      await start(pod, options);
      await holdConnections();
      const answers = [globalThis.fetch, (await import('undici')).fetch].map(async (fetch) => {
        const response = await (fetch as typeof globalThis.fetch)('https://orders.shop:8443/', {
          method: 'POST',
          body: 'once',
          dispatcher: orders,
        } as never);
        return response.headers.get('x-pod');
      });
      await until('they are on their way', () => inFlight() === 2);
      await leave();
      expect(await Promise.all(answers)).toEqual(['staying', 'staying']);
      leaving.thaw();
      expect((await leaving.stats()).requests).toBe(1);
    });

    it('sends a waiting request that may be retried for its status to another pod', async () => {
      await start(pod, { ...options, retry: { statuses: [503] } });
      await holdConnections();
      const answer = podOf(orders.request({ path: '/', method: 'GET' }));
      await until('it is on its way', () => inFlight() === 1);
      await leave();
      expect(await answer).toBe('staying');
      leaving.thaw();
      expect((await leaving.stats()).requests).toBe(1);
    });

    it('gets requests again once it is back', async () => {
      await start(pod, options);
      await holdConnections();
      const answer = podOf(orders.request({ path: '/', method: 'POST', body: 'once' }));
      await until('it is on its way', () => inFlight() === 1);
      await leave();
      expect(await answer).toBe('staying');
      resolver.update(leaving.endpoint);
      // Until the set is applied the other one is picked, and may have sent the request by then.
      await until('the other has left', () =>
        orders.balancer
          .snapshot()
          .endpoints.every(({ state, key }) => key.includes(String(leaving.port)) === (state !== 'draining')),
      );
      const later = podOf(orders.request({ path: '/', method: 'POST', body: 'later' }));
      leaving.thaw();
      expect(await later).toBe('leaving');
    });

    it.each([
      ['dispatcher', () => orders],
      ['balancer', () => orders.balancer],
    ])('keeps a waiting request when the %s is closed', async (_what, closing) => {
      await start(pod, options);
      await holdConnections();
      const answer = podOf(orders.request({ path: '/', method: 'POST', body: 'once' }));
      await until('it is on its way', () => inFlight() === 1);
      const closed = closing().close();
      leaving.thaw();
      expect(await answer).toBe('leaving');
      await closed;
    });
  });

  it.each([
    [
      'is terminating',
      (pod: Pod) => [{ ...pod.endpoint, conditions: { ready: false, serving: true, terminating: true } }],
    ],
    ['is not ready', (pod: Pod) => [{ ...pod.endpoint, conditions: { ready: false, serving: false } }]],
    ['is not listed any more', () => []],
  ])(
    'without TLS, while another of its connections is in use: the pod %s, and all that wait go to another',
    async (_how, listed) => {
      await start({ backlog: 1 });
      const first = orders.request({ path: '/hang', method: 'GET' }).catch(() => {});
      await until('the pod has the first request', async () => (await leaving.stats()).requests === 1);
      await using _hanging = await HangingEndpoint.seize(leaving);
      const answers = ['POST', 'GET', 'PATCH'].map((method) =>
        podOf(orders.request({ path: '/', method: method as 'POST', body: 'once' })),
      );
      await until('the others are on their way', () => inFlight() === 4);
      resolver.update(staying.endpoint, ...listed(leaving));
      expect(await Promise.all(answers)).toEqual(['staying', 'staying', 'staying']);
      expect(orders.balancer.snapshot().counts.retries).toMatchObject({ 'not-started': 3 });
      leaving.thaw();
      expect((await leaving.stats()).requests).toBe(1);
      await orders.destroy();
      await first;
    },
  );

  it('loses waiting requests even if another of its connections has just become free', async () => {
    await start(tls);
    const upload = new PassThrough();
    upload.write('begun');
    const first = podOf(orders.request({ path: '/echo', method: 'POST', body: upload }));
    await until('the pod has the first request', async () => (await leaving.stats()).requests === 1);
    await leaving.hold();
    const second = podOf(orders.request({ path: '/', method: 'POST', body: 'once' }));
    await until('the second waits for a connection', async () => (await leaving.stats()).held === 1);
    upload.end();
    expect(await first).toBe('leaving');
    await leave();
    expect(await second).toBe('staying');
    expect((await leaving.stats()).requests).toBe(1);
  });
});
