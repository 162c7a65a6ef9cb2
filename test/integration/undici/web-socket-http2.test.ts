import { once } from 'node:events';
import {
  createSecureServer,
  type Http2SecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import type { Observer } from 'evenkeel';
import { FakeClock } from 'evenkeel/testing';
import { createCertificate } from 'evenkeel/testing/servers';
import { createDispatcher, createServiceAgent, type ServiceDispatcher } from 'evenkeel/undici';
import * as undici from 'undici';
import { afterEach, describe, expect, it } from 'vitest';
import { WebSocketServer } from 'ws';
import { PING_MS } from '../../../src/adapter/undici/http2.js';
import { titleOf } from '../../support/title-of.js';
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
      // What else it hears is the closing frame.
      stream.once('data', () => stream.end(Buffer.from([0x88, 2, 0x03, 0xe8])));
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
  createServiceAgent: (port) => [
    service,
    keep(
      createServiceAgent({
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
        titleOf('is opened over HTTP/2 where it has', isFrom8(12), 'it needs undici 8.12'),
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

    const pod = async (
      enableConnectProtocol: boolean,
      observer: Observer = {},
      clock?: FakeClock,
    ): Promise<ServiceDispatcher> => {
      server = new TwoVersions(enableConnectProtocol);
      const resolver = `static:127.0.0.1:${await server.listen()}`;
      return keep(createDispatcher(service, { resolver, tls, allowH2: true, observer, clock }));
    };

    it('is a call on its pod until it is closed, and what was not understood says nothing of the pod', async () => {
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

    it('leaves a pod alone that speaks HTTP/2 only: the request fails, and all others go on', async () => {
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

    it('stays open when the HTTP/2 connection of its pod answers no PING', async () => {
      const clock = new FakeClock();
      const dispatcher = await pod(false, {}, clock);
      const socket = open([service, dispatcher]);
      expect(await first(socket)).toBe('1.1');
      expect(await ask([service, dispatcher])).toBe('2.0');
      expect(server.sessions.size).toBe(1);
      const gone = Promise.all([...server.sessions].map((session) => once(session, 'close')));
      // In no time, in which nothing can be answered.
      for (let look = 0; look < 5; look++) clock.advance(PING_MS);
      await gone;
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
