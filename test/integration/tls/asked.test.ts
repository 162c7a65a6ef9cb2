import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createSecureServer, type Http2SecureServer } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ConnectionOptions, TLSSocket } from 'node:tls';
import { type Balancer, type Endpoint, staticEndpoints } from 'evenkeel';
import { createHttp2Client } from 'evenkeel/http2';
import { createAgent } from 'evenkeel/node-http';
import { FakeClock } from 'evenkeel/testing';
import { createDispatcher } from 'evenkeel/undici';
import { request } from 'undici';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { connected } from '../../support/fixtures/connected.js';
import { until } from '../../support/until.js';
import { bodyOf } from '../http2/support/orders.js';
import { send } from '../node-http/support/request.js';
import { carriesHttp2 } from '../undici/support/version.js';

const authority = createCertificate({ commonName: 'authority' });
const serving = createCertificate({ commonName: 'orders', hosts: ['orders.shop'], issuer: authority });
const origin = 'https://orders.shop:8443';

const client = (commonName: string): ConnectionOptions => {
  const { cert, key } = createCertificate({ commonName, issuer: authority });
  return { ca: authority.cert, cert, key };
};

type Ask = (endpoint: Endpoint) => ConnectionOptions | Promise<ConnectionOptions>;
interface Client {
  readonly balancer: Balancer<never>;
  /** The name in the certificate the pod was shown. */
  ask(): Promise<string>;
  close(): Promise<void>;
}
interface Limits {
  readonly connectTimeoutMs?: number;
  readonly clock?: FakeClock;
  readonly credentialsRefreshMs?: number;
  readonly connections?: number;
}

let server: Http2SecureServer;
let sockets: Set<TLSSocket>;
let orders: Client;
/** The clients' certificates of the requests that wait at the server, in their order, and when all are answered. */
let answerable: (names: readonly string[]) => boolean;
let arrived: string[];
/** Requests that wait for each other before they are answered. */
const together =
  (count: number): typeof answerable =>
  ({ length }) =>
    length >= count;

beforeEach(async () => {
  sockets = new Set();
  answerable = together(1);
  arrived = [];
  const waiting: (() => void)[] = [];
  const { cert, key } = serving;
  const settings = { cert, key, ca: authority.cert, requestCert: true, rejectUnauthorized: true, allowHTTP1: true };
  server = createSecureServer(settings, (incoming, response) => {
    const socket = (incoming.stream?.session?.socket ?? incoming.socket) as TLSSocket;
    const name = socket.getPeerCertificate().subject?.CN;
    arrived.push(String(name));
    waiting.push(() => response.end(String(name)));
    if (!answerable(arrived)) return;
    arrived = [];
    for (const answer of waiting.splice(0)) answer();
  });
  // Idle connections stay, and no header says how long.
  Object.assign(server, { keepAliveTimeout: 0 });
  server.on('secureConnection', (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket)).on('error', () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterEach(async () => {
  await orders.close();
  await new Promise((resolve) => server.close(resolve));
});

const options = (tls: Ask, { connectTimeoutMs = 2_000, ...more }: Limits) => ({
  ...more,
  resolver: staticEndpoints([{ address: '127.0.0.1', port: (server.address() as { port: number }).port }]),
  tls,
  waitTimeoutMs: 1_000,
  pool: { connectTimeoutMs },
});
/** Idle connections of HTTP/1.1 stay open. */
const keepAliveTimeoutMs = 3_600_000;
const byUndici =
  (more: { readonly allowH2?: boolean }) =>
  (tls: Ask, limits: Limits = {}): Client => {
    const dispatcher = createDispatcher(origin, { ...options(tls, limits), keepAliveTimeoutMs, ...more });
    return {
      balancer: dispatcher.balancer as never,
      ask: async () => (await request(`${origin}/`, { dispatcher })).body.text(),
      close: () => dispatcher.close(),
    };
  };
const clients: Readonly<Record<string, (tls: Ask, limits?: Limits) => Client>> = {
  undici: byUndici({}),
  ...(carriesHttp2 && { 'undici and HTTP/2': byUndici({ allowH2: true }) }),
  'node:http': (tls, limits = {}) => {
    const agent = createAgent(origin, { ...options(tls, limits), keepAliveTimeoutMs });
    return {
      balancer: agent.balancer as never,
      ask: async () => (await send(agent, `${origin}/`)).body,
      close: () => agent.close(),
    };
  },
  'node:http2': (tls, limits = {}) => {
    const http2 = createHttp2Client(origin, options(tls, limits));
    return {
      balancer: http2.balancer as never,
      ask: () => bodyOf(http2.request()),
      close: () => http2.close(),
    };
  },
};
/** What has just answered may not be free for the next request yet. */
const idle = (): Promise<void> =>
  until('its connection is idle', () => orders.balancer.snapshot().endpoints[0]?.inFlight === 0);
/** Ends all connections as a pod does whose keep-alive time is over. A client may open another at once. */
const hangUp = async (): Promise<void> => {
  const open = [...sockets];
  for (const socket of open) socket.end();
  await until('all of them have ended', () => !open.some((socket) => sockets.has(socket)));
};

for (const [name, open] of Object.entries(clients)) {
  describe(`a function that returns TLS settings, over ${name}`, () => {
    for (const how of ['sync', 'async'] as const) {
      const answer = (settings: () => ConnectionOptions): Ask =>
        how === 'sync' ? settings : async () => Promise.resolve().then(settings);

      it(`${how}: every new connection shows the certificate that is current then`, async () => {
        let current = client('first');
        const asked: Endpoint[] = [];
        const settings = answer(() => current);
        orders = open((endpoint) => {
          asked.push(endpoint);
          return settings(endpoint);
        });
        expect(await orders.ask()).toBe('first');
        await idle();
        current = client('second');
        expect(await orders.ask()).toBe('first');
        await hangUp();
        expect(await orders.ask()).toBe('second');
        expect(asked.map(({ address }) => address)).toContain('127.0.0.1');
      });

      it(`${how}: several connections at once carry their requests, and all are closed at the end`, async () => {
        orders = open(answer(() => client('first')));
        await connected(orders.balancer, 1);
        answerable = together(8);
        const names = await Promise.all(Array.from({ length: 8 }, () => orders.ask()));
        expect(names).toEqual(Array.from({ length: 8 }, () => 'first'));
        await orders.close();
        await until('all connections have ended', () => sockets.size === 0);
      });

      it(`${how}: an error that it throws is reported, and calls succeed once it answers again`, async () => {
        let fails = true;
        const failing = answer(() => {
          if (fails) throw new Error('no token');
          return client('first');
        });
        orders = open(failing);
        await expect(orders.ask()).rejects.toMatchObject({
          code: 'EVENKEEL_NOT_READY',
          message: expect.stringContaining('the function given as "tls" failed: no token'),
        });
        fails = false;
        expect(await orders.ask()).toBe('first');
      });

      it(`${how}: a pod keeps its open connections while no new one can be opened for that reason`, async () => {
        let fails = false;
        const failing = answer(() => {
          if (fails) throw new Error('no token');
          return client('first');
        });
        orders = open(failing);
        expect(await orders.ask()).toBe('first');
        await until('its connection is idle', () => orders.balancer.snapshot().endpoints[0]?.inFlight === 0);
        fails = true;
        const names = await Promise.allSettled([orders.ask(), orders.ask()]);
        expect(names.filter(({ status }) => status === 'fulfilled')).not.toEqual([]);
        expect(orders.balancer.snapshot().endpoints).toMatchObject([{ state: 'ready', failed: 0 }]);
        expect(await orders.ask()).toBe('first');
      });
    }

    const shown = (): string[] => [...sockets].map((socket) => String(socket.getPeerCertificate().subject?.CN));
    /** Long enough that a function was asked again, a fifth more than on average. */
    const REFRESH_MS = 72_000;

    it('a renewed certificate: the next connection is opened with it first, and running requests finish on the old one', async () => {
      let current = client('first');
      const clock = new FakeClock();
      // Read anew each time, as from a file.
      orders = open(async () => structuredClone(current), { clock });
      await connected(orders.balancer, 1);
      answerable = (names) => names.includes('second');
      const asked = [orders.ask()];
      await until('it runs', () => orders.balancer.snapshot().endpoints[0]?.inFlight === 1);
      clock.advance(10 * REFRESH_MS);
      await new Promise((resolve) => setImmediate(resolve));
      expect(shown()).toEqual(['first']);
      current = client('second');
      clock.advance(REFRESH_MS);
      await until('there is another connection', () => {
        clock.advance(1);
        return shown().includes('second');
      });
      expect(shown().toSorted()).toEqual(['first', 'second']);
      // The server has taken the new connection before the client knows: until then the old one carries requests.
      while (asked.length === arrived.length) {
        asked.push(orders.ask());
        await until('it has arrived', () => arrived.length === asked.length || arrived.length === 0);
      }
      const names = await Promise.all(asked);
      expect(names).toEqual([...Array.from({ length: names.length - 1 }, () => 'first'), 'second']);
      await until('the old one is closed', () => shown().every((name) => name === 'second'));
      answerable = together(1);
      expect(await orders.ask()).toBe('second');
    });

    it('a renewed certificate in the same object: the next connection shows it', async () => {
      const settings = client('first');
      orders = open(() => settings);
      expect(await orders.ask()).toBe('first');
      await idle();
      Object.assign(settings, client('second'));
      await hangUp();
      expect(await orders.ask()).toBe('second');
    });

    it('a renewed certificate in the same object: connections opened with the old one are replaced', async () => {
      const settings = client('first');
      const clock = new FakeClock();
      orders = open(() => settings, { clock });
      expect(await orders.ask()).toBe('first');
      await idle();
      Object.assign(settings, client('second'));
      clock.advance(REFRESH_MS);
      await until('the new one has taken its place', () => {
        clock.advance(1);
        const names = shown();
        return names.length > 0 && names.every((name) => name === 'second');
      });
      expect(await orders.ask()).toBe('second');
    });

    it('a renewed certificate that the pod refuses: the old connections stay in use until one is accepted', async () => {
      let current = client('first');
      const clock = new FakeClock();
      orders = open(() => current, { clock });
      expect(await orders.ask()).toBe('first');
      const stranger = createCertificate({ commonName: 'stranger' });
      current = { ca: authority.cert, cert: stranger.cert, key: stranger.key };
      clock.advance(REFRESH_MS);
      for (let second = 0; second < 20; second++) {
        clock.advance(1_000);
        await idle();
        expect(await orders.ask()).toBe('first');
      }
      current = client('third');
      clock.advance(REFRESH_MS);
      await until('the old one is closed', () => {
        clock.advance(1_000);
        return shown().length > 0 && shown().every((name) => name === 'third');
      });
      expect(await orders.ask()).toBe('third');
    });

    it('a renewed certificate authority: old connections stay in use until the pod shows a certificate of the new one', async () => {
      const next = createCertificate({ commonName: 'next authority' });
      const renewed = createCertificate({ commonName: 'orders', hosts: ['orders.shop'], issuer: next });
      const serve = ({ cert, key }: Pick<typeof serving, 'cert' | 'key'>): void =>
        server.setSecureContext({ cert, key, ca: authority.cert });
      const folder = await mkdtemp(join(tmpdir(), 'evenkeel-authority-'));
      const file = join(folder, 'ca.crt');
      await writeFile(file, authority.cert);
      const { cert, key } = client('first');
      const clock = new FakeClock();
      orders = open(async () => ({ cert, key, ca: await readFile(file) }), { clock });
      expect(await orders.ask()).toBe('first');
      const [old] = sockets;

      await writeFile(file, next.cert);
      clock.advance(REFRESH_MS);
      let refused = 0;
      server.on('tlsClientError', () => refused++);
      await until('a new connection was tried and not made', async () => {
        clock.advance(1_000);
        await idle();
        expect(await orders.ask()).toBe('first');
        return refused > 0;
      });
      expect([...sockets]).toContain(old);

      serve(renewed);
      await until('the old connection is replaced', async () => {
        clock.advance(1_000);
        return sockets.size === 1 && !sockets.has(old as TLSSocket);
      });
      expect(await orders.ask()).toBe('first');

      serve(serving);
      await idle();
      await hangUp();
      await expect(orders.ask()).rejects.toThrow('self-signed certificate in certificate chain');
      await rm(folder, { recursive: true });
    });

    it('a function that returns another certificate each time: connections are replaced, no more often than it is called', async () => {
      let asked = 0;
      const clock = new FakeClock();
      orders = open(() => client(String(asked++)), { clock });
      expect(await orders.ask()).toBe('0');
      for (let round = 1; round <= 3; round++) {
        for (let request = 0; request < 10; request++) {
          clock.advance(1_000);
          await idle();
          await orders.ask();
        }
        expect(sockets.size).toBe(1);
        const before = shown()[0];
        clock.advance(REFRESH_MS);
        await until('it is replaced', () => {
          clock.advance(1);
          return sockets.size === 1 && shown()[0] !== before;
        });
      }
    });

    it('with credentialsRefreshMs: Infinity connections keep the certificate they were opened with', async () => {
      let current = client('first');
      const clock = new FakeClock();
      orders = open(() => current, { clock, credentialsRefreshMs: Number.POSITIVE_INFINITY });
      expect(await orders.ask()).toBe('first');
      current = client('second');
      clock.advance(REFRESH_MS);
      await idle();
      expect(await orders.ask()).toBe('first');
      expect(sockets.size).toBe(1);
    });

    it('settings that Node cannot use fail with an error that names them', async () => {
      orders = open(() => ({ ca: authority.cert, cert: 'no certificate', key: 'no key' }));
      const returned = 'the function given as "tls" returned what cannot be used';
      await expect(orders.ask()).rejects.toThrow(returned);
    });

    it('settings that the transport decides are refused by name', async () => {
      orders = open(() => ({ host: '127.0.0.1' }));
      await expect(orders.ask()).rejects.toThrow('tls.host must be left out');
    });

    it('a function that does not answer fails with an error that says so', async () => {
      let isCalled = false;
      const clock = new FakeClock();
      const silent = (): Promise<never> => {
        isCalled = true;
        return new Promise(() => {});
      };
      orders = open(silent, { clock, connectTimeoutMs: 1_000 });
      const asked = expect(orders.ask()).rejects.toThrow('the function given as "tls" took more than 900 ms');
      await until('it is called', () => isCalled);
      clock.advance(900);
      await new Promise((resolve) => setImmediate(resolve));
      clock.advance(100);
      await asked;
    });
  });
}
