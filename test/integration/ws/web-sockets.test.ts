import { fork } from 'node:child_process';
import { once } from 'node:events';
import { type ClientRequest, createServer, get } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { type Resolver, staticEndpoints } from 'evenkeel';
import { FakeResolver } from 'evenkeel/testing';
import { type ConnectionLeaving, createWebSockets, type ServiceWebSockets, type WebSocketsOptions } from 'evenkeel/ws';
import { describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { createCertificate } from '../../servers/index.js';
import { closedAfterEach } from '../../support/opened.js';
import { refusingEndpoint } from '../../support/pods/hanging-endpoint.js';
import { WsPod, type WsPodOptions } from '../../support/pods/ws-pods.js';
import { buildPackage, outputOf } from '../../support/programs/programs.js';
import { until } from '../../support/until.js';

const open = closedAfterEach();

const url = 'ws://chat.shop:8080';

async function startPods(count: number, options?: WsPodOptions): Promise<WsPod[]> {
  const pods = await WsPod.startAll(count, options);
  open.push(...pods);
  return pods;
}

function webSockets(options: WebSocketsOptions, to = url): ServiceWebSockets {
  const made = createWebSockets(to, options);
  open.push({ [Symbol.asyncDispose]: () => made.close({ signal: AbortSignal.abort() }) });
  return made;
}

interface Greeting {
  readonly name: string;
  readonly host: string;
  readonly tenant?: string;
  readonly url: string;
  readonly protocol: string;
  readonly extensions: string;
}

async function greeting(socket: WebSocket): Promise<Greeting> {
  const [data] = await once(socket, 'message');
  return JSON.parse(String(data));
}

const inFlight = ({ balancer }: ServiceWebSockets): number[] =>
  balancer.snapshot().endpoints.map((one) => one.inFlight);
const total = (counts: readonly number[]): number => counts.reduce((sum, count) => sum + count, 0);

describe('opening', () => {
  it('spreads WebSockets evenly, with the Host of the Service and the other settings of the caller', async () => {
    const pods = await startPods(3);
    const chat = webSockets({ resolver: staticEndpoints(pods.map(({ endpoint }) => endpoint)) });
    const sockets = Array.from(
      { length: 12 },
      () => new chat.WebSocket(`${url}/rooms/7?since=3`, ['v2.chat', 'v1.chat'], { headers: { 'x-tenant': 'acme' } }),
    );
    const greetings = await Promise.all(sockets.map(greeting));
    await until('all have four', () => pods.every(({ stats }) => stats.open === 4));
    expect(inFlight(chat)).toEqual([4, 4, 4]);
    const { name: _any, ...rest } = greetings[0] as Greeting;
    expect(rest).toEqual({
      host: 'chat.shop:8080',
      tenant: 'acme',
      url: '/rooms/7?since=3',
      protocol: 'v2.chat',
      extensions: 'permessage-deflate',
    });
    const [socket] = sockets as [WebSocket];
    expect(socket).toBeInstanceOf(WebSocket);
    expect([socket.protocol, socket.extensions]).toEqual(['v2.chat', 'permessage-deflate']);
    const text = 'a long text that is compressed '.repeat(1000);
    socket.send(text);
    expect(String((await once(socket, 'message'))[0])).toBe(text);
    for (const one of sockets) one.close();
    await until('they are given back', () => total(inFlight(chat)) === 0);
  });

  it('with wss: checks the certificate for the Service', async () => {
    const authority = createCertificate({ commonName: 'authority' });
    const { cert, key } = createCertificate({ hosts: ['chat.shop'], issuer: authority });
    const [pod] = (await startPods(1, { tls: { cert, key } })) as [WsPod];
    const resolver = staticEndpoints([pod.endpoint]);
    const chat = webSockets({ resolver, tls: { ca: authority.cert } }, 'wss://chat.shop');
    const socket = new chat.WebSocket('wss://chat.shop/rooms');
    expect(await greeting(socket)).toMatchObject({ host: 'chat.shop', url: '/rooms' });
    socket.close(1000);
    await once(socket, 'close');
    const stranger = webSockets({ resolver }, 'wss://chat.shop');
    const [error] = await once(new stranger.WebSocket('wss://chat.shop'), 'error');
    expect(error).toMatchObject({ code: 'EVENKEEL_CONNECT' });
  });

  it('uses another pod when one refuses', async () => {
    const [pod] = (await startPods(1)) as [WsPod];
    const chat = webSockets({ resolver: staticEndpoints([await refusingEndpoint(), pod.endpoint]) });
    const sockets = Array.from({ length: 4 }, () => new chat.WebSocket(url));
    await Promise.all(sockets.map(greeting));
    await until('it has all', () => pod.stats.open === 4);
  });

  it('uses the second address of a pod when the first refuses', async () => {
    const [pod] = (await startPods(1)) as [WsPod];
    const { address, port } = pod.endpoint;
    const states: string[] = [];
    const observer = { subchannelChanged: ({ to }: { to: string }): void => void states.push(to) };
    const resolver = staticEndpoints([{ address: '127.0.0.99', otherAddress: address, port }]);
    const chat = webSockets({ resolver, observer });
    await greeting(new chat.WebSocket(url));
    expect(inFlight(chat)).toEqual([1]);
    expect(states).toEqual(['connecting', 'ready']);
  });

  it('leaves other servers alone', async () => {
    const [pod, other] = (await startPods(2)) as [WsPod, WsPod];
    const chat = webSockets({ resolver: staticEndpoints([pod.endpoint]) });
    const at = `ws://127.0.0.1:${other.endpoint.port}`;
    expect(await greeting(new chat.WebSocket(at))).toMatchObject({ name: 'b' });
    expect(await greeting(new WebSocket(at, { agent: chat.agent }))).toMatchObject({ name: 'b' });
    // Short and full names are one Service.
    const full = new chat.WebSocket('ws://chat.shop.svc.cluster.local:8080');
    expect(await greeting(full)).toMatchObject({ name: 'a', host: 'chat.shop.svc.cluster.local:8080' });
    expect(total(inFlight(chat))).toBe(1);
  });

  it.each([
    ['wss://chat.shop:8080', 'ws'],
    ['ws://chat.shop:8080', 'wss'],
  ])('follows a redirect from %s to %s outside the pods', async (from, scheme) => {
    const certificate = createCertificate({ hosts: ['chat.shop', '127.0.0.1'] });
    const secured = { tls: { cert: certificate.cert, key: certificate.key } };
    const [other] = (await startPods(1, scheme === 'wss' ? secured : {})) as [WsPod];
    const away = `${scheme}://127.0.0.1:${other.endpoint.port}/elsewhere`;
    const pod = from.startsWith('wss') ? createSecureServer(certificate) : createServer();
    pod.on('upgrade', (_request, socket) => socket.end(`HTTP/1.1 302 Found\r\nLocation: ${away}\r\n\r\n`));
    pod.listen(0, '127.0.0.1');
    await once(pod, 'listening');
    open.push({ [Symbol.asyncDispose]: async () => void pod.close() });
    const { port } = pod.address() as AddressInfo;
    const resolver = staticEndpoints([{ address: '127.0.0.1', port }]);
    const chat = webSockets({ resolver, ...(from.startsWith('wss') && { tls: { ca: certificate.cert } }) }, from);
    const socket = new chat.WebSocket(from, { followRedirects: true, ca: certificate.cert });
    expect(await greeting(socket)).toMatchObject({ url: '/elsewhere', host: `127.0.0.1:${other.endpoint.port}` });
    expect(total(inFlight(chat))).toBe(0);
  });

  it('refuses options that do not fit', () => {
    const resolver = staticEndpoints([{ address: '127.0.0.1', port: 9 }]);
    const wrong: [string, object][] = [
      ['http://chat.shop', {}],
      ['ws://chat.shop/rooms', {}],
      ['chat.shop:8080', {}],
      [url, { leaveCode: 200 }],
      [url, { leaveCode: 1006 }],
      [url, { tls: {} }],
      [url, { leaveSpread: 1 }],
    ];
    for (const [to, options] of wrong) {
      expect(() => createWebSockets(to, { resolver, ...options }), `${to} ${Object.keys(options)}`).toThrow(
        expect.objectContaining({ code: 'EVENKEEL_OPTION' }),
      );
    }
  });

  it('frees its place when the handshake is refused or aborted', async () => {
    const [pod] = (await startPods(1)) as [WsPod];
    const chat = webSockets({ resolver: staticEndpoints([pod.endpoint]) });
    const socket = new chat.WebSocket(url);
    socket.terminate();
    await once(socket, 'error');
    await until('it is given back', () => total(inFlight(chat)) === 0 && pod.stats.sockets === 0);
  });
});

describe('while no pod can take it', () => {
  /** Knows nothing, for ever. */
  const silent: Resolver = { name: 'silent', watch: () => ({ refresh() {}, close() {} }) };
  const waiting = ({ balancer }: ServiceWebSockets): number => balancer.snapshot().waiting;
  const failed = async (socket: WebSocket): Promise<string> => ((await once(socket, 'error')) as [Error])[0].message;

  it('a WebSocket waits no longer than its handshakeTimeout', async () => {
    const chat = webSockets({ resolver: silent, waitTimeoutMs: 60_000 });
    const socket = new chat.WebSocket(url, { handshakeTimeout: 50 });
    expect(await failed(socket)).toBe('Opening handshake has timed out');
    expect(waiting(chat)).toBe(0);
  });

  it.each(['close', 'terminate'] as const)('%s ends the wait', async (act) => {
    const chat = webSockets({ resolver: silent, waitTimeoutMs: 60_000 });
    const socket = new chat.WebSocket(url);
    await until('it waits', () => waiting(chat) === 1);
    const error = failed(socket);
    socket[act]();
    expect(await error).toBe('WebSocket was closed before the connection was established');
    expect(waiting(chat)).toBe(0);
  });

  it.each<[string, (request: ClientRequest, caller: AbortController) => void, unknown]>([
    ['destroy()', (request) => request.destroy(), { code: 'ECONNRESET', message: 'socket hang up' }],
    ['destroy(error)', (request) => request.destroy(new Error('enough')), { message: 'enough' }],
    ['its signal', (_request, caller) => caller.abort(), { name: 'AbortError' }],
  ])('%s of a request through the agent ends the wait too', async (_how, giveUp, error) => {
    const chat = webSockets({ resolver: silent, waitTimeoutMs: 60_000 });
    const caller = new AbortController();
    const request = get('http://chat.shop:8080/poll', { agent: chat.agent, signal: caller.signal });
    await until('it waits', () => waiting(chat) === 1);
    const ended = [once(request, 'error'), once(request, 'close').catch(() => {})];
    giveUp(request, caller);
    expect(waiting(chat)).toBe(0);
    expect((await Promise.all(ended))[0]).toEqual([expect.objectContaining(error)]);
  });
});

describe('a pod that refuses every WebSocket', () => {
  it.each(['status', 'hang-up'] as const)(
    'by %s gets no more after a few, although it has the fewest',
    async (refuses) => {
      const [good, other] = (await startPods(2)) as [WsPod, WsPod];
      const [bad] = (await startPods(1, { refuses })) as [WsPod];
      const ejected: number[] = [];
      const chat = webSockets({
        resolver: staticEndpoints([bad, good, other].map(({ endpoint }) => endpoint)),
        observer: { ejected: ({ endpoint }) => void ejected.push(endpoint.port as number) },
      });
      let isOver = false;
      const keep = (): void => {
        new chat.WebSocket(url)
          .on('error', () => {})
          .on('close', () => {
            if (!isOver) setTimeout(keep, 10);
          });
      };
      for (let made = 0; made < 9; made++) keep();
      await until('all are open', () => good.stats.open + other.stats.open === 9);
      isOver = true;
      expect(new Set(ejected)).toEqual(new Set([bad.endpoint.port]));
    },
  );
});

describe('a pod that leaves', () => {
  async function world(options: WebSocketsOptions) {
    const pods = (await startPods(2)) as [WsPod, WsPod];
    const resolver = new FakeResolver();
    const chat = webSockets({ resolver, ...options });
    resolver.update(...pods.map(({ endpoint }) => endpoint));
    await chat.balancer.ready();
    return { chat, resolver, pods };
  }
  const opened = async (chat: ServiceWebSockets, count: number): Promise<WebSocket[]> => {
    const sockets = Array.from({ length: count }, () => new chat.WebSocket(url));
    await Promise.all(sockets.map((socket) => once(socket, 'open')));
    return sockets;
  };

  it('notifies its WebSockets, with the time until which they may stay', async () => {
    const { chat, resolver, pods } = await world({ leaveSpreadMs: 100 });
    const sockets = await opened(chat, 6);
    const told: ConnectionLeaving[] = [];
    for (const socket of sockets) {
      socket.on(
        'leaving' as 'open',
        ((leaving: ConnectionLeaving) => {
          told.push(leaving);
          socket.close(1000, 'moving');
        }) as () => void,
      );
    }
    resolver.update(pods[1].endpoint);
    await until('they left', () => pods[0].stats.closes[1000] === 3);
    expect(told).toHaveLength(3);
    expect(told[0]).toMatchObject({ reason: 'endpoint', endpoint: { port: pods[0].endpoint.port } });
    expect(told[0]?.untilMs).toBeGreaterThan(performance.now());
    await until('the others stay', () => pods[1].stats.open === 3);
  });

  it.each([
    ['at their turn', { closeLeaving: true, leaveSpreadMs: 100 }, 1012],
    ['when the time is over, if they have not left', { pool: { drainTimeoutMs: 400 } }, 1012],
    ['with the code given', { closeLeaving: true, leaveSpreadMs: 0, leaveCode: 4012 }, 4012],
  ])('closes its WebSockets %s', async (_when, options, code) => {
    const { chat, resolver, pods } = await world(options);
    const sockets = await opened(chat, 6);
    const closes: number[] = [];
    for (const socket of sockets) socket.on('close', (closed) => closes.push(closed));
    resolver.update(pods[1].endpoint);
    await until('they are closed', () => pods[0].stats.closes[code] === 3 && closes.length === 3);
    expect(closes).toEqual([code, code, code]);
    await until('the others stay', () => pods[1].stats.open === 3);
  });

  it('closes the WebSockets of a library that is given an agent, which sees the code', async () => {
    const told: Socket[] = [];
    const { chat, resolver, pods } = await world({
      leaveSpreadMs: 100,
      pool: { drainTimeoutMs: 1_000 },
      onLeaving: (_leaving, socket) => void told.push(socket as Socket),
    });
    const sockets = Array.from({ length: 4 }, () => new WebSocket(url, { agent: chat.agent }));
    await Promise.all(sockets.map((socket) => once(socket, 'open')));
    await until('both have two', () => pods.every(({ stats }) => stats.open === 2));
    const closes: [number, string][] = [];
    for (const socket of sockets) socket.on('close', (code, reason) => closes.push([code, String(reason)]));
    resolver.update(pods[1].endpoint);
    await until('they are closed', () => pods[0].stats.closes[1012] === 2 && closes.length === 2);
    expect(closes).toEqual([
      [1012, 'Service Restart'],
      [1012, 'Service Restart'],
    ]);
    expect(told).toHaveLength(2);
  });

  it('and exits without closing gives code 1006, as always', async () => {
    const { chat, pods } = await world({});
    const [socket] = (await opened(chat, 1)) as [WebSocket];
    const closed = once(socket, 'close');
    await Promise.all(pods.map((pod) => pod.command('cut')));
    expect((await closed)[0]).toBe(1006);
    await until('it is given back', () => total(inFlight(chat)) === 0);
  });

  it('is balanced again after a scale-out if asked to', async () => {
    const { chat, resolver, pods } = await world({ rebalance: { ratioPerMinute: 60 } });
    const codes = new Set<number>();
    let isOver = false;
    const keep = (): void => {
      new chat.WebSocket(url)
        .on('error', () => {})
        .on('close', (code) => {
          if (isOver) return;
          codes.add(code);
          keep();
        });
    };
    for (let made = 0; made < 12; made++) keep();
    await until('they are open', () => pods.every(({ stats }) => stats.open === 6));
    const more = (await startPods(2)) as [WsPod, WsPod];
    resolver.update(...[...pods, ...more].map(({ endpoint }) => endpoint));
    await until('they are even', () => [...pods, ...more].every(({ stats }) => stats.open >= 2 && stats.open <= 4));
    isOver = true;
    expect([...codes]).toEqual([1012]);
  });
});

describe('close', () => {
  it('lets WebSockets finish, and cuts when its signal aborts', async () => {
    const [pod] = (await startPods(1)) as [WsPod];
    const chat = webSockets({ resolver: staticEndpoints([pod.endpoint]) });
    const reasons: string[] = [];
    const sockets = [new chat.WebSocket(url), new chat.WebSocket(url)] as const;
    await Promise.all(sockets.map((socket) => once(socket, 'open')));
    sockets[0].on(
      'leaving' as 'open',
      ((leaving: ConnectionLeaving) => {
        reasons.push(leaving.reason);
        sockets[0].close(1000);
      }) as () => void,
    );
    const limit = new AbortController();
    const closing = chat.close({ signal: limit.signal });
    await once(sockets[0], 'close');
    expect(reasons).toEqual(['close']);
    const [error] = await once(new chat.WebSocket(url), 'error');
    expect(error).toMatchObject({ code: 'EVENKEEL_CLOSED' });
    const cut = once(sockets[1], 'close');
    limit.abort();
    expect((await cut)[0]).toBe(1006);
    await closing;
  });
});

it('an open WebSocket uses little more heap than one of ws', async () => {
  await buildPackage();
  const bench = fileURLToPath(new URL('../../bench/web-sockets.bench.mjs', import.meta.url));
  const server = fork(bench, ['serve'], { execArgv: [] });
  const [port] = (await once(server, 'message')) as [number];
  const bytesOf = async (kind: string): Promise<number> =>
    JSON.parse(await outputOf(['--expose-gc', bench, 'measure', kind, String(port), '1000'])).bytes;
  const ws = await bytesOf('ws');
  const ours = await bytesOf('evenkeel/ws');
  server.disconnect();
  // About 1,000 bytes: a lease, a place, and three listeners. An agent, a signal or an error for each would be more.
  expect(ours - ws).toBeLessThan(2_500);
});
