import { once } from 'node:events';
import {
  createSecureServer,
  type Http2SecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import { type EndpointInit, inFlight, type Observer, shortestExpectedDelay } from 'evenkeel';
import { FakeResolver } from 'evenkeel/testing';
import { createAppAgent, createDispatcher, type ServiceDispatcher } from 'evenkeel/undici';
import * as undici from 'undici';
import { afterEach, describe, expect, it } from 'vitest';
import { WebSocketServer } from 'ws';
import { createCertificate } from '../../servers/index.js';
import { titleOf } from '../../support/title-of.js';
import { until } from '../../support/until.js';
import { carriesHttp2, isFrom8 } from './support/version.js';

const certificate = createCertificate({ hosts: ['orders.shop', 'localhost'] });
const tls = { ca: certificate.cert };

/** A server of both versions of HTTP, each of whose WebSockets says over which of them it was opened, and then what it hears. */
class TwoVersions {
  readonly server: Http2SecureServer;
  readonly sessions = new Set<ServerHttp2Session>();
  readonly sockets = new Set<Socket>();
  /** The version of each request, WebSockets included. */
  readonly versions: string[] = [];
  /** The codes with which WebSockets over HTTP/2 were closed. */
  readonly closes: number[] = [];

  constructor(enableConnectProtocol: boolean) {
    const webSockets = new WebSocketServer({ noServer: true });
    this.server = createSecureServer({ ...certificate, allowHTTP1: true, settings: { enableConnectProtocol } });
    this.server.on('secureConnection', (socket) => this.sockets.add(socket));
    this.server.on('session', (session) => this.sessions.add(session));
    this.server.on('request', (request, response) => {
      this.versions.push(request.httpVersion);
      response.end(request.httpVersion);
    });
    this.server.on('upgrade', (request, socket, head) => {
      this.versions.push('WebSocket 1.1');
      webSockets.handleUpgrade(request, socket, head, (webSocket) => {
        webSocket.on('message', (data) => webSocket.send(String(data)));
        webSocket.send('1.1');
      });
    });
    this.server.on('connect', (_request: Http2ServerRequest, { stream }: Http2ServerResponse) => {
      this.versions.push('WebSocket 2.0');
      stream.on('error', () => {});
      stream.respond({ ':status': 200 });
      stream.write(Buffer.from([0x81, 3, ...Buffer.from('2.0')]));
      // What else it hears is the closing frame: it is masked, and goes back as it is without the mask.
      stream.once('data', (frame: Buffer) => {
        const code = Buffer.from([
          (frame[6] as number) ^ (frame[2] as number),
          (frame[7] as number) ^ (frame[3] as number),
        ]);
        this.closes.push(code.readUInt16BE());
        stream.end(Buffer.concat([Buffer.from([0x88, 2]), code]));
      });
    });
  }

  async listen(): Promise<number> {
    this.server.listen(0, '127.0.0.1');
    await once(this.server, 'listening');
    return (this.server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    const closed = once(this.server, 'close');
    this.server.close();
    for (const session of this.sessions) session.destroy();
    for (const socket of this.sockets) socket.destroy();
    await closed;
  }
}

/** What a WebSocket hears first, or `closed`. */
const first = (socket: undici.WebSocket): Promise<string> =>
  new Promise((resolve) => {
    socket.addEventListener('message', ({ data }) => resolve(String(data)), { once: true });
    socket.addEventListener('close', ({ code }) => resolve(`closed ${code}`), { once: true });
  });

const closed = async (socket: undici.WebSocket): Promise<void> => {
  const told = new Promise((resolve) => socket.addEventListener('close', resolve, { once: true }));
  socket.close();
  await told;
};

let opened: undici.Dispatcher[] = [];
let server: TwoVersions;
afterEach(async () => {
  for (const dispatcher of opened) await dispatcher.destroy();
  opened = [];
  await server.close();
});
const keep = <T extends undici.Dispatcher>(dispatcher: T): T => {
  opened.push(dispatcher);
  return dispatcher;
};

const service = 'https://orders.shop:8443';
type Way = readonly [url: string, dispatcher: undici.Dispatcher];
const ways: Record<string, (port: number) => Way> = {
  'an Agent of undici': (port) => [
    `https://localhost:${port}`,
    keep(new undici.Agent({ connect: { ca: certificate.cert }, allowH2: true })),
  ],
  createDispatcher: (port) => [
    service,
    keep(createDispatcher(service, { resolver: `static:127.0.0.1:${port}`, tls, allowH2: true })),
  ],
  createAppAgent: (port) => [
    service,
    keep(
      createAppAgent({
        services: ['orders.shop'],
        options: () => ({ resolver: `static:127.0.0.1:${port}`, tls, allowH2: true }),
      }),
    ),
  ],
};

const open = ([url, dispatcher]: Way): undici.WebSocket =>
  new undici.WebSocket(url.replace('https:', 'wss:'), { dispatcher });

const ask = async ([origin, dispatcher]: Way, more: object = {}): Promise<string> => {
  const { body } = await dispatcher.request({ origin, path: '/', method: 'GET', ...more } as never);
  return body.text();
};

describe.runIf(carriesHttp2)(
  titleOf('with undici 8, a WebSocket to a pod that speaks HTTP/2', carriesHttp2, 'it needs undici 8.10'),
  () => {
    describe.each(Object.entries(ways))('by %s', (_name, make) => {
      it('is opened over HTTP/1.1 where HTTP/2 has no extended CONNECT, and requests stay on HTTP/2', async () => {
        server = new TwoVersions(false);
        const way = make(await server.listen());
        expect(await ask(way)).toBe('2.0');
        const one = open(way);
        expect(await first(one)).toBe('1.1');
        const other = open(way);
        expect(await first(other)).toBe('1.1');
        expect(await ask(way)).toBe('2.0');
        const heard = first(one);
        one.send('hello');
        expect(await heard).toBe('hello');
        await Promise.all([closed(one), closed(other)]);
        expect(await ask(way)).toBe('2.0');
        expect(server.versions).toEqual(['2.0', 'WebSocket 1.1', 'WebSocket 1.1', '2.0', '2.0']);
      });

      // Before, undici's own Agent does not open these either.
      it.runIf(isFrom8(12))(
        titleOf('is opened over HTTP/2 where that has it', isFrom8(12), 'it needs undici 8.12'),
        async () => {
          server = new TwoVersions(true);
          const way = make(await server.listen());
          const socket = open(way);
          expect(await first(socket)).toBe('2.0');
          expect(await ask(way)).toBe('2.0');
          await closed(socket);
          expect(server.versions).toEqual(['WebSocket 2.0', '2.0']);
        },
      );

      it('leaves requests with `allowH2: false` to HTTP/1.1', async () => {
        server = new TwoVersions(true);
        const way = make(await server.listen());
        expect(await Promise.all([ask(way), ask(way, { allowH2: false }), ask(way, { allowH2: true })])).toEqual([
          '2.0',
          '1.1',
          '2.0',
        ]);
      });
    });

    const pod = async (enableConnectProtocol: boolean, observer: Observer = {}): Promise<ServiceDispatcher> => {
      server = new TwoVersions(enableConnectProtocol);
      const resolver = `static:127.0.0.1:${await server.listen()}`;
      return keep(createDispatcher(service, { resolver, tls, allowH2: true, observer }));
    };

    it.runIf(isFrom8(12))(
      titleOf(
        'is closed with a close frame when its pod leaves, also over HTTP/2',
        isFrom8(12),
        'it needs undici 8.12',
      ),
      async () => {
        const resolver = new FakeResolver();
        const dispatcher = keep(
          createDispatcher(service, {
            resolver,
            tls,
            allowH2: true,
            picker: shortestExpectedDelay(),
            load: inFlight(),
            webSocket: { closeLeaving: true, leaveSpreadMs: 50 },
          }),
        );
        server = new TwoVersions(true);
        const other = new TwoVersions(true);
        const [leaving, staying] = await Promise.all(
          [server, other].map(async (one) => ({ address: '127.0.0.1', port: await one.listen() })),
        );
        resolver.update(leaving as EndpointInit, staying as EndpointInit);
        const way = [service, dispatcher] as const;
        await until('both are connected', () =>
          dispatcher.balancer.snapshot().endpoints.every(({ state }) => state === 'ready'),
        );
        const sockets: undici.WebSocket[] = [];
        for (let made = 0; made < 6; made++) {
          const socket = open(way);
          expect(await first(socket)).toBe('2.0');
          sockets.push(socket);
        }
        const codes: number[] = [];
        for (const socket of sockets) socket.addEventListener('close', ({ code }) => void codes.push(code));
        resolver.update(staying as EndpointInit);
        await until('three are closed', () => codes.length === 3);
        expect(codes).toEqual([4012, 4012, 4012]);
        expect(server.closes).toEqual([4012, 4012, 4012]);
        expect(await ask(way)).toBe('2.0');
        await until('their places are given back', () =>
          dispatcher.balancer.snapshot().endpoints.every(({ inFlight: running }) => running <= 3),
        );
        await dispatcher.close();
        expect(other.closes).toEqual([4012, 4012, 4012]);
        await other.close();
      },
    );

    it('is a call on its pod until it is closed, and a refused upgrade is not held against the pod', async () => {
      const outcomes: string[] = [];
      const dispatcher = await pod(false, { attemptEnded: ({ outcome }) => void outcomes.push(outcome.kind) });
      const socket = open([service, dispatcher]);
      expect(await first(socket)).toBe('1.1');
      expect(dispatcher.balancer.snapshot().endpoints[0]).toMatchObject({ state: 'ready', inFlight: 1 });
      await closed(socket);
      await dispatcher.close();
      expect(outcomes).toEqual(['cancelled', 'success']);
      expect(dispatcher.destroyed).toBe(true);
    });

    it('fails at a pod that speaks HTTP/2 only, which is not held against the pod', async () => {
      const only = createSecureServer(certificate, (request, response) => response.end(request.httpVersion));
      only.on('session', (session) => server.sessions.add(session));
      only.listen(0, '127.0.0.1');
      await once(only, 'listening');
      server = new TwoVersions(false);
      await server.listen();
      const seen: string[] = [];
      const { port } = only.address() as AddressInfo;
      const way = [
        service,
        keep(
          createDispatcher(service, {
            resolver: `static:127.0.0.1:${port}`,
            tls,
            allowH2: true,
            observer: {
              attemptEnded: ({ outcome }) => void seen.push(`${outcome.kind} ${outcome.cause ?? ''}`),
              subchannelChanged: ({ to }) => void seen.push(to),
            },
          }),
        ),
      ] as const;
      expect(await ask(way)).toBe('2.0');
      seen.length = 0;
      const running = ask(way);
      await expect(ask(way, { allowH2: false })).rejects.toThrow('does not speak HTTP/1.1');
      expect(await Promise.all([running, ask(way), ask(way)])).toEqual(['2.0', '2.0', '2.0']);
      expect(new Set(seen)).toEqual(new Set(['success ', 'not-started ']));
      only.close();
    });

    it('stays open when the HTTP/2 connection of its pod is lost', async () => {
      const dispatcher = await pod(false);
      const socket = open([service, dispatcher]);
      expect(await first(socket)).toBe('1.1');
      expect(await ask([service, dispatcher])).toBe('2.0');
      expect(server.sessions.size).toBe(1);
      for (const session of server.sessions) {
        session.destroy();
        server.sessions.delete(session);
      }
      const heard = first(socket);
      socket.send('still here');
      expect(await heard).toBe('still here');
      expect(await ask([service, dispatcher])).toBe('2.0');
      await closed(socket);
    });

    it('is cut when its dispatcher is destroyed', async () => {
      const dispatcher = await pod(false);
      const socket = open([service, dispatcher]);
      expect(await first(socket)).toBe('1.1');
      const told = first(socket);
      await dispatcher.destroy();
      expect(await told).toBe('closed 1006');
    });
  },
);
