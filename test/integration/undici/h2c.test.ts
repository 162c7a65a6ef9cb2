import {
  createServer as createHttp2Server,
  type Http2Server,
  type ServerHttp2Session,
  type ServerOptions,
} from 'node:http2';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { type Resolver, roundRobin, staticEndpoints } from 'evenkeel';
import {
  createAppAgent,
  createDispatcher,
  createFetch,
  type DispatcherOptions,
  type ServiceDispatcher,
} from 'evenkeel/undici';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { connected } from '../../support/fixtures/connected.js';
import { Pod, Pods } from '../../support/pods/pods.js';
import { RefusingHttp2Pod } from '../../support/pods/refusing-http2-pod.js';
import { titleOf } from '../../support/title-of.js';
import { until } from '../../support/until.js';
import { Cluster } from './support/cluster.js';
import { carriesHttp2 } from './support/version.js';

const origin = 'http://orders.shop:8080';

it.runIf(!carriesHttp2)(
  titleOf('useH2c is refused with an undici that cannot', !carriesHttp2, 'it needs an undici before 8.10'),
  () => {
    const refused = expect.objectContaining({ code: 'EVENKEEL_OPTION', message: expect.stringContaining('useH2c') });
    expect(() => createFetch(origin, { useH2c: true })).toThrow(refused);
  },
);

it('a request over HTTP/1.1 to a pod that only speaks HTTP/2 fails, and says why', async () => {
  await using pods = await Pods.start(1, { http2: 'only' });
  const orders = createDispatcher(origin, { resolver: staticEndpoints(pods.endpoints) });
  await expect(orders.request({ path: '/', method: 'GET' })).rejects.toThrow(
    `${pods.at(0).host}:${pods.at(0).port} speaks HTTP/2 only; useH2c`,
  );
  await orders.destroy();
});

/** An HTTP/2 server in the clear, in this process. */
const ownServer = async (options: ServerOptions = {}): Promise<Http2Server & AsyncDisposable> => {
  const server = createHttp2Server(options);
  const sessions = new Set<ServerHttp2Session>();
  server.on('session', (session) => {
    sessions.add(session);
    session.on('error', () => {});
    session.on('close', () => sessions.delete(session));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return Object.assign(server, {
    async [Symbol.asyncDispose](): Promise<void> {
      await orders.destroy();
      for (const session of sessions) session.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  });
};
const addressOf = (server: Http2Server): { address: string; port: number } => ({
  address: '127.0.0.1',
  port: (server.address() as AddressInfo).port,
});
let orders: ServiceDispatcher;

describe.runIf(carriesHttp2)(titleOf('with undici 8, HTTP/2 without TLS', carriesHttp2, 'it needs undici 8.10'), () => {
  let only: Pods;
  let both: Pods;
  let http1: Pods;

  const open = async (pods: readonly Pod[], options: DispatcherOptions = {}): Promise<void> => {
    orders = createDispatcher(origin, {
      resolver: staticEndpoints(pods.map(({ endpoint }) => endpoint)),
      useH2c: true,
      picker: roundRobin(),
      ...options,
    });
    await connected(orders.balancer, pods.length);
  };
  const get = async (): Promise<{ pod: string; headers: Record<string, string> }> => {
    const { body } = await orders.request({ path: '/', method: 'GET' });
    return (await body.json()) as { pod: string; headers: Record<string, string> };
  };
  /** A request over HTTP/2 has its host in a pseudo-header. */
  const spoken = async (): Promise<string> =>
    (await get()).headers[':authority'] === undefined ? 'HTTP/1.1' : 'HTTP/2';
  const capacities = (): number[] => orders.balancer.snapshot().endpoints.map(({ capacity }) => capacity);

  beforeAll(async () => {
    only = await Pods.start(2, { http2: 'only' });
    both = await Pods.start(1, { http2: true });
    http1 = await Pods.start(1);
  });
  afterAll(async () => {
    for (const pods of [only, both, http1]) await pods[Symbol.asyncDispose]();
  });
  afterEach(() => orders?.destroy());

  it('carries many requests on one connection per pod, with the name of the Service', async () => {
    await open(only.all);
    const before = await only.total('connections');
    const answers = await Promise.all(Array.from({ length: 40 }, () => get()));
    expect(new Set(answers.map(({ headers }) => headers[':authority']))).toEqual(new Set(['orders.shop:8080']));
    expect(new Set(answers.map(({ pod }) => pod))).toEqual(new Set(['pod-0', 'pod-1']));
    expect(await only.total('connections')).toBe(before);
    expect(capacities()).toEqual([100, 100]);
  });

  it('is used with the pods that speak it, and HTTP/1.1 with the others', async () => {
    await open([...only.all, ...both.all, ...http1.all]);
    // A snapshot has no Infinity.
    expect(capacities().sort()).toEqual([-1, 100, 100, 100]);
    const answers = await Promise.all(Array.from({ length: 8 }, () => spoken()));
    expect(answers.filter((version) => version === 'HTTP/1.1')).toHaveLength(2);
  });

  it('is not used unless asked for', async () => {
    await open(both.all, { useH2c: undefined });
    expect(await spoken()).toBe('HTTP/1.1');
    await orders.destroy();
    await open(both.all, { useH2c: false });
    expect(await spoken()).toBe('HTTP/1.1');
  });

  it('passes on trailers, bodies and large headers', async () => {
    await open(both.all);
    const body = 'x'.repeat(300_000);
    const echoed = await orders.request({ path: '/echo', method: 'POST', body });
    expect(await echoed.body.text()).toBe(body);
    expect(echoed.trailers).toEqual({ 'x-length': '300000' });
    const large = 'v'.repeat(12_000);
    const { body: told } = await orders.request({ path: '/', method: 'GET', headers: { 'x-large': large } });
    expect(((await told.json()) as { headers: Record<string, string> }).headers['x-large']).toBe(large);
  });

  it('works with the global fetch', async () => {
    const fetchOrders = createFetch(origin, { resolver: staticEndpoints(only.endpoints), useH2c: true });
    const response = await fetchOrders('/', { method: 'POST', body: 'a body' });
    expect(await response.json()).toMatchObject({ length: 6, headers: { ':authority': 'orders.shop:8080' } });
    await fetchOrders.close();
  });

  it('carries upgrades over HTTP/1.1', async () => {
    await open(both.all);
    expect(await spoken()).toBe('HTTP/2');
    const { socket, headers } = await orders.upgrade({ path: '/', protocol: 'echo' });
    expect(headers.upgrade).toBe('echo');
    const answer = new Promise((resolve) => socket.once('data', (chunk: Buffer) => resolve(String(chunk))));
    socket.write('hello');
    expect(await answer).toBe('hello');
    socket.destroy();
    expect(await spoken()).toBe('HTTP/2');
  });

  it('fails an upgrade at a pod that only speaks HTTP/2, and nothing else', async () => {
    await open(only.all.slice(0, 1));
    const requests = Array.from({ length: 5 }, () => spoken());
    await expect(orders.upgrade({ path: '/', protocol: 'echo' })).rejects.toThrow();
    expect(await Promise.all(requests)).toEqual(new Array(5).fill('HTTP/2'));
    expect(await spoken()).toBe('HTTP/2');
  });

  it('ends one stream at an abort, and no other', async () => {
    await open(both.all);
    const requests = await both.total('requests');
    const abort = new AbortController();
    const hanging = orders.request({ path: '/hang', method: 'GET', signal: abort.signal });
    const dripping = orders.request({ path: '/drip/3/20', method: 'GET' });
    await until('the pod has both', async () => (await both.total('requests')) === requests + 2);
    abort.abort();
    await expect(hanging).rejects.toMatchObject({ name: 'AbortError' });
    expect(await (await dripping).body.text()).toBe('1\n2\n3\n');
    expect(orders.balancer.snapshot().endpoints[0]?.inFlight).toBe(0);
  });

  it('answers 1,500 requests at once', async () => {
    // On a busy machine the last of them wait for longer than the default.
    await open(only.all, { waitTimeoutMs: 60_000 });
    const before = await only.total('connections');
    const answers = await Promise.all(Array.from({ length: 1_500 }, () => spoken()));
    expect(answers.every((version) => version === 'HTTP/2')).toBe(true);
    expect(await only.total('connections')).toBe(before);
  });

  it('fails no running request at a GOAWAY', async () => {
    await open(only.all);
    for (const pod of only.all) await pod.behave({ delayMs: 200 });
    const requests = await only.total('requests');
    const running = Array.from({ length: 10 }, async (_, index) => {
      const { statusCode, body } = await orders.request({ path: '/', method: index % 2 === 0 ? 'GET' : 'POST' });
      await body.dump();
      return statusCode;
    });
    await until('the pods have them', async () => (await only.total('requests')) === requests + 10);
    await Promise.all(only.all.map((pod) => pod.goaway()));
    expect(await Promise.all(running)).toEqual(new Array(10).fill(200));
    for (const pod of only.all) await pod.behave({ delayMs: 0 });
    expect(await spoken()).toBe('HTTP/2');
  });

  it.each(['goaway', 'reset'] as const)(
    'sends a POST that a pod refuses by %s to another one, once',
    async (refusal) => {
      await using refusing = await RefusingHttp2Pod.start(undefined, refusal);
      const before = await only.total('requests');
      orders = createDispatcher(origin, {
        resolver: staticEndpoints([refusing.endpoint, ...only.endpoints]),
        useH2c: true,
        picker: roundRobin(),
      });
      await connected(orders.balancer, 3);
      const answers = await Promise.all(
        [1, 2, 3].map(async () => {
          const { body } = await orders.request({ path: '/', method: 'POST', body: 'once' });
          return ((await body.json()) as { length: number }).length;
        }),
      );
      expect(answers).toEqual([4, 4, 4]);
      expect((await only.total('requests')) - before).toBe(3);
      expect(refusing.requests).toBeGreaterThan(0);
    },
  );

  it('sends a pod that accepts one request at a time one at a time', async () => {
    await using server = await ownServer({ settings: { maxConcurrentStreams: 1 } });
    let running = 0;
    let most = 0;
    server.on('stream', (stream) => {
      most = Math.max(most, ++running);
      setImmediate(() => {
        running--;
        stream.respond({ ':status': 200 });
        stream.end('ok');
      });
    });
    orders = createDispatcher(origin, { resolver: staticEndpoints([addressOf(server)]), useH2c: true });
    const texts = Array.from({ length: 30 }, async () =>
      (await orders.request({ path: '/', method: 'GET' })).body.text(),
    );
    expect(await Promise.all(texts)).toEqual(new Array(30).fill('ok'));
    expect(most).toBe(1);
  });

  it('sends a request once to a pod that begins its first connections with GOAWAY', async () => {
    await using server = await ownServer();
    let sessions = 0;
    const requests: string[] = [];
    // The first is the probe.
    server.on('session', (session) => {
      if (++sessions <= 3) session.goaway(0, 0);
    });
    server.on('stream', (stream, headers) => {
      requests.push(String(headers[':method']));
      stream.respond({ ':status': 200 });
      stream.end('ok');
    });
    orders = createDispatcher(origin, { resolver: staticEndpoints([addressOf(server)]), useH2c: true });
    const { body } = await orders.request({ path: '/', method: 'POST', body: 'once' });
    expect(await body.text()).toBe('ok');
    expect(requests).toEqual(['POST']);
  });

  it('fails one request whose header is too large for the pod, and no other', async () => {
    await open(only.all.slice(0, 1));
    const running = orders.request({ path: '/drip/3/20', method: 'GET' });
    const large = orders.request({ path: '/', method: 'GET', headers: { 'x-large': 'v'.repeat(200_000) } });
    const [status] = await Promise.allSettled([large.then(({ statusCode }) => statusCode)]);
    if (status.status === 'fulfilled') expect(status.value).toBe(431);
    expect(await (await running).body.text()).toBe('1\n2\n3\n');
    expect(await spoken()).toBe('HTTP/2');
  });

  it('switches to HTTP/1.1 when a pod is replaced in place by one that only speaks that', async () => {
    const pods = await Pods.start(1, { http2: 'only' });
    await open(pods.all);
    expect(await spoken()).toBe('HTTP/2');
    const { port } = pods.at(0);
    await pods.at(0).kill();
    const next = await Pod.start({ port });
    await connected(orders.balancer, 1);
    expect(await spoken()).toBe('HTTP/1.1');
    await next.kill();
  });
});

describe.runIf(carriesHttp2)(
  titleOf('with undici 8, a pod that does not speak HTTP/2 without TLS', carriesHttp2, 'it needs undici 8.10'),
  () => {
    let server: Server;
    let received: string[];
    let orders: ServiceDispatcher;
    const answer = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';

    /** What each connection receives first is its preface or its request. */
    const start = async (preface: (socket: Socket) => void, limits: DispatcherOptions = {}): Promise<void> => {
      received = [];
      server = createServer((socket) => {
        socket.on('error', () => {});
        socket.on('data', (chunk) => {
          const text = chunk.toString('latin1');
          received.push(text.slice(0, text.indexOf('\r\n')));
          if (text.startsWith('PRI ')) preface(socket);
          else socket.write(answer);
        });
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const { port } = server.address() as AddressInfo;
      orders = createDispatcher(origin, {
        resolver: staticEndpoints([{ address: '127.0.0.1', port }]),
        useH2c: true,
        ...limits,
      });
    };
    afterEach(async () => {
      await orders.destroy();
      server.close();
    });

    it.each([
      ['answers the preface with 400', (socket: Socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')],
      ['answers it with a status and stays', (socket: Socket) => socket.write('HTTP/1.1 505 No\r\n\r\n')],
      ['closes at the preface', (socket: Socket) => socket.end()],
      ['resets at the preface', (socket: Socket) => socket.resetAndDestroy()],
    ])('and %s gets the request once, over HTTP/1.1', async (_, preface) => {
      await start(preface);
      const { body } = await orders.request({ path: '/once', method: 'POST', body: 'x' });
      expect(await body.text()).toBe('ok');
      expect(received).toEqual(['PRI * HTTP/2.0', 'POST /once HTTP/1.1']);
    });

    it('and is silent is not connected to, within its time', async () => {
      await start(() => {}, { pool: { connectTimeoutMs: 300 }, waitTimeoutMs: 1_000 });
      await expect(orders.request({ path: '/', method: 'GET' })).rejects.toMatchObject({ code: 'EVENKEEL_NOT_READY' });
      expect(received.every((line) => line === 'PRI * HTTP/2.0')).toBe(true);
      await until(
        'no connection is left',
        () => new Promise((resolve) => server.getConnections((_e, n) => resolve(n === 0))),
      );
    });
  },
);

describe.runIf(carriesHttp2)(
  titleOf('with undici 8, a port whose appProtocol is kubernetes.io/h2c', carriesHttp2, 'it needs undici 8.10'),
  () => {
    it('gets HTTP/2 without an option; from the agents of a whole app only with one', async () => {
      await using cluster = await Cluster.start(1, { http2: true, appProtocol: 'kubernetes.io/h2c' });
      const resolver = (): Resolver => cluster.resolver();
      const clients = [
        createDispatcher(origin, { resolver: resolver() }),
        createDispatcher(origin, { resolver: resolver(), useH2c: false }),
        createAppAgent({ services: ['orders.shop'], options: () => ({ resolver: resolver() }) }),
        createAppAgent({ services: ['orders.shop'], options: () => ({ resolver: resolver(), useH2c: true }) }),
      ];
      const spoken = clients.map(async (client) => {
        const { body } = await client.request({ origin, path: '/', method: 'GET' });
        const { headers } = (await body.json()) as { headers: Record<string, string> };
        await client.close();
        return headers[':authority'] === undefined ? 'HTTP/1.1' : 'HTTP/2';
      });
      expect(await Promise.all(spoken)).toEqual(['HTTP/2', 'HTTP/1.1', 'HTTP/1.1', 'HTTP/2']);
    });

    it('is used by agents that give all Services the same options, each only where it applies', () => {
      for (const options of [{ useH2c: true }, { useH2c: true, allowH2: true }]) {
        expect(() => createAppAgent({ options }).destroy()).not.toThrow();
      }
    });
  },
);
