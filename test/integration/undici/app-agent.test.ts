import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { FakeClock } from 'evenkeel/testing';
import { type AppAgent, type AppAgentOptions, createAppAgent } from 'evenkeel/undici';
import * as undici from 'undici';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createCertificate, type ServiceController } from '../../servers/index.js';
import { DiscoveryWorld } from '../../support/fixtures/discovery-world.js';
import { Pod, Pods } from '../../support/pods/pods.js';
import { titleOf } from '../../support/title-of.js';
import { until } from '../../support/until.js';
import { agentShowsHeaders, reachesGlobalFetch } from './support/global-fetch.js';
import { undici8 } from './support/undici8.js';
import { carriesHttp2 } from './support/version.js';

type Undici = typeof undici;
// undici 8 needs APIs that Node 20 does not have: there it fails to load.

/** The Services of the cluster, each with pods of its own. */
const serviceNames = ['orders', 'stock'] as const;
type ServiceName = (typeof serviceNames)[number];

let world: DiscoveryWorld;
let pods: Record<ServiceName, Pods>;
let outside: Pod;
let outsideOrigin: string;
let agent: AppAgent;
let controllers: Map<ServiceName, ServiceController>;

beforeAll(async () => {
  const [orders, stock, other] = await Promise.all([Pods.start(3), Pods.start(2), Pod.start({ name: 'outside' })]);
  pods = { orders, stock };
  outside = other;
  outsideOrigin = `http://127.0.0.1:${outside.port}`;
});
afterAll(async () => {
  for (const name of serviceNames) await pods[name][Symbol.asyncDispose]();
  await outside.kill();
});
beforeEach(async () => {
  world = await DiscoveryWorld.create();
  controllers = new Map();
  for (const name of serviceNames) exist(name);
});
afterEach(async () => {
  await agent.destroy();
  await world[Symbol.asyncDispose]();
});

/** The Service as the API server and DNS know it. */
function exist(name: ServiceName, members: Pods = pods[name]): void {
  world.dns.kubernetes.set({
    namespace: 'shop',
    name,
    clusterIPs: ['127.0.0.1'],
    ports: [{ name: 'http', port: 8080 }],
  });
  const ports = [{ name: 'http', port: 8080, targetPort: 'http' }];
  const controller = controllers.get(name) ?? world.api.service('shop', name, { ports });
  controllers.set(name, controller);
  controller.setPods(members.all.map((pod) => ({ name: pod.name, address: '127.0.0.1', ports: { http: pod.port } })));
}

function open(options: AppAgentOptions = {}): AppAgent {
  const discovery = world.options({ allowAddresses: ['loopback'] });
  const balancing = { waitTimeoutMs: 60_000, ...options.options };
  agent = createAppAgent({ discovery, ...options, options: balancing });
  return agent;
}

interface Answer {
  readonly pod: string;
  readonly host: string;
  readonly url: string;
}
type Get = (url: string, headers?: Record<string, string>) => Promise<Answer>;
const requestOf =
  (library: Undici): Get =>
  async (url, headers = {}) => {
    const { body } = await library.request(url, { dispatcher: agent, headers } as never);
    return (await body.json()) as Answer;
  };
const fetchOf =
  (library: Undici): Get =>
  async (url, headers = {}) =>
    (await (await library.fetch(url, { dispatcher: agent, headers } as never)).json()) as Answer;
const clients: Record<string, Get | undefined> = {
  'undici.request': requestOf(undici),
  'undici.fetch': fetchOf(undici),
  'global fetch': async (url, headers = {}) =>
    (await (await fetch(url, { dispatcher: agent, headers } as never)).json()) as Answer,
  'undici 8 request': undici8 && requestOf(undici8),
  'undici 8 fetch': undici8 && fetchOf(undici8),
};
const get = requestOf(undici);

const requests = (name: ServiceName): Promise<number> => pods[name].total('requests');
const authorized = async (): Promise<number[]> => [
  ...(await Promise.all(serviceNames.map((name) => pods[name].total('authorized')))),
  (await outside.stats()).authorized,
];
/** What was added since `before`. */
const since = (before: readonly number[], now: readonly number[]): number[] =>
  now.map((count, index) => count - (before[index] as number));

describe('the dispatcher of a whole app', () => {
  it.runIf(reachesGlobalFetch)(
    titleOf(
      'with setGlobalDispatcher: fetch reaches every pod of every Service, and hosts outside',
      reachesGlobalFetch,
      'undici and Node differ in what a dispatcher is',
    ),
    async () => {
      const former = undici.getGlobalDispatcher();
      undici.setGlobalDispatcher(open());
      try {
        for (const [service, count] of [
          ['orders', 3],
          ['stock', 2],
        ] as const) {
          const seen = new Set<string>();
          for (let request = 0; request < 60; request++) {
            const answer = (await (await fetch(`http://${service}.shop:8080/`)).json()) as Answer;
            expect(answer.host).toBe(`${service}.shop:8080`);
            seen.add(answer.pod);
          }
          expect(seen.size).toBe(count);
        }
        expect(await (await fetch(`${outsideOrigin}/x`)).json()).toMatchObject({ pod: 'outside', url: '/x' });
        expect(await (await undici.request(`${outsideOrigin}/y`)).body.json()).toMatchObject({ pod: 'outside' });
      } finally {
        undici.setGlobalDispatcher(former);
      }
      expect(agent.snapshot()).toMatchObject({
        services: [
          { origin: 'http://orders.shop:8080', balancer: { state: 'ready', endpoints: [{}, {}, {}] } },
          { origin: 'http://stock.shop:8080', balancer: { state: 'ready', endpoints: [{}, {}] } },
        ],
      });
      // One question about each, whatever was sent.
      expect(world.dns.count('orders.shop.svc.cluster.local', 'A')).toBe(1);
    },
  );

  describe.each(
    Object.entries(clients).map(
      ([name, client]) => [titleOf(name, client !== undefined, 'it needs Node 22'), client] as const,
    ),
  )('%s', (_name, client) => {
    const send = client as Get;
    const test = it.skipIf(client === undefined);

    test('each request goes to a pod of its own Service', async () => {
      open();
      const before = await Promise.all(serviceNames.map(requests));
      for (let request = 0; request < 10; request++) {
        expect(await send('http://orders.shop:8080/')).toMatchObject({ host: 'orders.shop:8080' });
        expect(await send('http://stock.shop.svc.cluster.local:8080/')).toMatchObject({
          host: 'stock.shop.svc.cluster.local:8080',
        });
      }
      expect(since(before, await Promise.all(serviceNames.map(requests)))).toEqual([10, 10]);
    });

    test('credentials reach their own Service and no other', async () => {
      open();
      const before = await authorized();
      const headers = { authorization: 'only for orders' };
      for (const url of ['http://orders.shop:8080/', 'http://orders.shop.svc:8080/']) await send(url, headers);
      await send('http://stock.shop:8080/');
      await send(`${outsideOrigin}/`);
      expect(since(before, await authorized())).toEqual([2, 0, 0]);
    });
  });

  const composed = (): undici.Dispatcher => agent.compose(undici.interceptors.redirect({ maxRedirections: 3 }));
  const redirected: Record<string, Get> = {
    'undici.fetch': fetchOf(undici),
    'global fetch': clients['global fetch'] as Get,
    'undici.request with the redirect interceptor': async (url, headers = {}) => {
      const { body } = await undici.request(url, { dispatcher: composed(), headers });
      return (await body.json()) as Answer;
    },
  };
  it.each(Object.entries(redirected))(
    '%s follows a redirect to another Service or outside, without the credentials',
    async (name, send) => {
      open();
      const before = await authorized();
      const headers = { authorization: 'only for orders' };
      const to = (url: string): string => `http://orders.shop:8080/redirect?to=${url}`;
      expect(await send(to('http://stock.shop:8080/there'), headers)).toMatchObject({
        host: 'stock.shop:8080',
        url: '/there',
      });
      expect(await send(to(`${outsideOrigin}/away`), headers)).toMatchObject({ pod: 'outside', url: '/away' });
      expect(await send(to('http://orders.shop:8080/home'), headers)).toMatchObject({ url: '/home' });
      // Two redirects away, one home and its target.
      expect(since(before, await authorized())).toEqual([4, 0, 0]);
      // From outside, which undici's own Agent answers, back in.
      if (name === 'global fetch' && !agentShowsHeaders) return;
      const back = `${outsideOrigin}/redirect?to=http://stock.shop:8080/back`;
      expect(await send(back, headers)).toMatchObject({ host: 'stock.shop:8080', url: '/back' });
      expect(since(before, await authorized())).toEqual([4, 0, 1]);
    },
  );

  it('over TLS the certificate is checked for the name of the Service', async () => {
    const authority = createCertificate({ commonName: 'evenkeel test authority', hosts: [] });
    const certificate = createCertificate({ commonName: 'orders', hosts: ['orders.shop'], issuer: authority });
    await using secure = await Pods.start(1, { tls: certificate });
    for (const name of serviceNames) exist(name, secure);
    open({ options: { tls: { ca: authority.cert } } });
    expect(await get('https://orders.shop:8080/')).toMatchObject({ host: 'orders.shop:8080' });
    // The same pod as another Service's, as after an address was given to a new pod.
    const refused = (name: string): unknown =>
      expect.objectContaining({ code: 'EVENKEEL_CONNECT', message: expect.stringContaining(name) });
    await expect(get('https://stock.shop:8080/')).rejects.toEqual(refused('stock.shop'));
    // Each spelling is checked as it was written.
    await expect(get('https://orders.shop.svc:8080/')).rejects.toEqual(refused('orders.shop.svc'));
    expect(await secure.total('requests')).toBe(1);
  });
});

it('a proxy for hosts outside is not used for Services', async () => {
  const tunnels: (string | undefined)[] = [];
  const proxy = createServer().on('connect', (request, client) => {
    tunnels.push(request.url);
    const upstream = connect(outside.port, '127.0.0.1', () => client.write('HTTP/1.1 200 OK\r\n\r\n'));
    upstream.on('error', () => client.destroy());
    client.on('error', () => upstream.destroy());
    upstream.pipe(client).pipe(upstream);
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const { port } = proxy.address() as AddressInfo;
  const fallbackDispatcher = new undici.ProxyAgent({ uri: `http://127.0.0.1:${port}`, proxyTunnel: true });
  open({ fallbackDispatcher });
  expect(await get('http://api.example.com/x')).toMatchObject({ pod: 'outside', host: 'api.example.com', url: '/x' });
  expect(await get('http://orders.shop:8080/')).toMatchObject({ host: 'orders.shop:8080' });
  expect(tunnels).toEqual(['api.example.com:80']);
  await fallbackDispatcher.destroy();
  await new Promise((resolve) => proxy.close(resolve));
});

it.runIf(carriesHttp2)(
  titleOf(
    'HTTP/2: all requests to a pod use one connection; Services without TLS are unaffected',
    carriesHttp2,
    'it needs undici 8.10',
  ),
  async () => {
    const certificate = createCertificate({ hosts: ['orders.shop'] });
    await using secure = await Pods.start(1, { tls: certificate, http2: true });
    exist('orders', secure);
    open({ options: { tls: { ca: certificate.cert }, allowH2: true } });
    const answers = Array.from({ length: 20 }, () => get('https://orders.shop:8080/'));
    for (const answer of await Promise.all(answers)) expect(answer).toMatchObject({ host: 'orders.shop:8080' });
    expect(await secure.total('connections')).toBe(1);
    expect(await get('http://stock.shop:8080/')).toMatchObject({ host: 'stock.shop:8080' });
  },
);

describe('DNS', () => {
  it('a Service that vanishes and returns: refused at once with a code, then served again', async () => {
    open();
    await get('http://orders.shop:8080/');
    world.dns.kubernetes.delete('shop', 'orders');
    controllers.get('orders')?.setPods([]);
    const balancer = agent.balancers.get('http://orders.shop:8080');
    await until('it is empty', () => balancer?.snapshot().state === 'empty');
    await expect(get('http://orders.shop:8080/')).rejects.toMatchObject({ code: 'EVENKEEL_NO_ENDPOINTS' });
    exist('orders');
    await until('it is back', () => balancer?.snapshot().state === 'ready');
    expect(await get('http://orders.shop:8080/')).toMatchObject({ host: 'orders.shop:8080' });
  });

  it('a Service created after its name was first used is noticed within half a minute', async () => {
    const clock = new FakeClock(0);
    const fallbackDispatcher = new undici.Pool(outsideOrigin);
    open({ clock, fallbackDispatcher });
    world.dns.kubernetes.delete('shop', 'orders');
    expect(await get('http://orders.shop:8080/')).toMatchObject({ pod: 'outside' });
    expect(agent.snapshot()).toMatchObject({ services: [], hosts: [{ service: false }] });
    exist('orders');
    clock.advance(30_000);
    await until('it is noticed', async () => {
      await get('http://orders.shop:8080/');
      return agent.balancers.size === 1;
    });
    expect(await get('http://orders.shop:8080/')).toMatchObject({ pod: expect.stringMatching(/^pod-/) });
    await fallbackDispatcher.close();
  });

  it.each([
    ['is silent', { kind: 'silent' }],
    ['says SERVFAIL', { kind: 'rcode', rcode: 'SERVFAIL' }],
    ['says REFUSED', { kind: 'rcode', rcode: 'REFUSED' }],
    ['talks nonsense', { kind: 'garbage' }],
  ] as const)('that %s fails no request, and is queried again after a pause', async (_what, fault) => {
    const clock = new FakeClock(0);
    // Stands for the plain Agent, whose host would be found by whatever the machine has.
    const fallbackDispatcher = new undici.Pool(outsideOrigin);
    open({ clock, fallbackDispatcher });
    world.dns.fault(fault);
    const answers = [get('http://orders.shop:8080/'), get('http://orders.shop:8080/x')];
    await until('it is left alone', () => {
      clock.advance(200);
      return agent.snapshot().hosts[0]?.service === false;
    });
    expect(await Promise.all(answers)).toMatchObject([{ pod: 'outside' }, { pod: 'outside' }]);
    expect(agent.snapshot().hosts[0]?.trouble).toEqual(expect.any(String));
    const asked = world.dns.count('orders.shop.svc.cluster.local', 'A');
    expect(await get('http://orders.shop:8080/')).toMatchObject({ pod: 'outside' });
    expect(world.dns.count('orders.shop.svc.cluster.local', 'A')).toBe(asked);
    world.dns.clearFaults();
    clock.advance(5_000);
    await until('it is balanced', async () => (await get('http://orders.shop:8080/')).pod !== 'outside');
    await fallbackDispatcher.close();
  });

  it('that fails once a Service is known changes nothing', async () => {
    open();
    await get('http://orders.shop:8080/');
    world.dns.fault({ kind: 'silent' });
    for (const spelling of ['orders.shop', 'orders.shop.svc', 'orders.shop.svc.cluster.local']) {
      expect(await get(`http://${spelling}:8080/`)).toMatchObject({ host: `${spelling}:8080` });
    }
  });

  it('is asked only to look a Service up; hosts outside cost one query or none', async () => {
    const fallbackDispatcher = new undici.Pool(outsideOrigin);
    open({ fallbackDispatcher });
    for (let request = 0; request < 5; request++) {
      for (const host of ['github.com', 'api.example.com', '10.0.0.1', 'localhost']) {
        expect(await get(`http://${host}/`)).toMatchObject({ pod: 'outside' });
      }
    }
    expect(world.dns.queries.map(({ name, type }) => `${type} ${name}`)).toEqual(['A github.com.svc.cluster.local']);
    await fallbackDispatcher.close();
  });
});

describe('the first request to a Service, which waits for DNS', () => {
  /** Whatever passes through the agent while its verdict is pending is relayed to the end. */
  const first = async (work: () => Promise<void>): Promise<void> => {
    open();
    world.dns.fault({ kind: 'slow', delayMs: 30 });
    const running = work();
    await until('it waits', () => agent.snapshot().pending === 1);
    await running;
    expect(agent.snapshot().pending).toBe(0);
  };
  const origin = 'http://orders.shop:8080';

  it.each(Object.entries(clients).filter(([, send]) => send !== undefined))(
    'gets its response (%s)',
    async (_name, send) => {
      await first(async () => {
        expect(await (send as Get)(`${origin}/a?b=1`)).toMatchObject({ host: 'orders.shop:8080', url: '/a?b=1' });
      });
    },
  );

  it('has repeated headers, by fetch', () =>
    first(async () => {
      const response = await fetch(`${origin}/cookies`, { dispatcher: agent } as unknown as RequestInit);
      expect(response.headers.getSetCookie()).toEqual(['a=1', 'b=2']);
    }));

  it('has informational responses and trailers', () =>
    first(async () => {
      const informed: number[] = [];
      const onInfo = ({ statusCode }: { statusCode: number }): void => void informed.push(statusCode);
      const hints = await undici.request(`${origin}/hints`, { dispatcher: agent, onInfo } as never);
      await hints.body.dump();
      expect(informed).toEqual([103]);
      const echo = await undici.request(`${origin}/echo`, { dispatcher: agent, method: 'POST', body: 'four' });
      expect(await echo.body.text()).toBe('four');
      expect(echo.trailers).toEqual({ 'x-length': '4' });
    }));

  it.each([
    ['undici.request', () => undici.request(`${origin}/echo`, { dispatcher: agent, method: 'POST', body: 'a body' })],
    ['global fetch', () => fetch(`${origin}/echo`, { dispatcher: agent, method: 'POST', body: 'a body' } as never)],
    [
      'global fetch with a Content-Length',
      () =>
        fetch(`${origin}/echo`, {
          dispatcher: agent,
          method: 'POST',
          body: 'a body',
          headers: { 'content-length': '6' },
        } as never),
    ],
  ])('sends a body, by %s', (_client, send) =>
    first(async () => {
      const answer = await send();
      const body = answer instanceof Response ? await answer.text() : await answer.body.text();
      expect(body).toBe('a body');
    }),
  );

  it('gets a large body that is paused and read later', () =>
    first(async () => {
      const { body } = await undici.request(`${origin}/bytes/5000000`, { dispatcher: agent });
      const [endpoint] = agent
        .snapshot()
        .services.flatMap(({ balancer }) => balancer.endpoints.filter(({ inFlight }) => inFlight === 1));
      expect(endpoint).toBeDefined();
      expect((await body.arrayBuffer()).byteLength).toBe(5_000_000);
    }));

  it('can be aborted in the middle of the response', () =>
    first(async () => {
      const controller = new AbortController();
      const { signal } = controller;
      const { body } = await undici.request(`${origin}/hang-body`, { dispatcher: agent, signal });
      controller.abort();
      await expect(body.text()).rejects.toMatchObject({ name: 'AbortError' });
      await until('the pod has it no more', () =>
        agent.snapshot().services.every(({ balancer }) => balancer.endpoints.every(({ inFlight }) => inFlight === 0)),
      );
    }));

  it('can be an upgrade', () =>
    first(async () => {
      const { socket } = await agent.upgrade({ origin, path: '/', protocol: 'echo' } as { path: string });
      socket.write('across');
      expect(String((await once(socket, 'data'))[0])).toBe('across');
      socket.destroy();
    }));

  it('can be a WebSocket, and the next one as well', async () => {
    const greeting = async (): Promise<void> => {
      const socket = new undici.WebSocket('ws://orders.shop:8080/', { dispatcher: agent });
      const [{ data }] = (await once(socket, 'message')) as [{ data: string }];
      expect(data).toMatch(/^pod-/);
      socket.close();
      await once(socket, 'close');
    };
    await first(greeting);
    await greeting();
  });
});
