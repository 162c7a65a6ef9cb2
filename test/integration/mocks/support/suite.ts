import { staticEndpoints } from 'evenkeel';
import { FakeResolver } from 'evenkeel/testing';
import { createAppAgent } from 'evenkeel/undici';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createCertificate } from '../../../servers/index.js';
import { Pod } from '../../../support/pods/pods.js';
import { type Client, clients } from './client.js';

/** A library that mocks HTTP, as the tests of an app use it. */
export interface Mock {
  /** From here on it intercepts; what it has no answer for it lets through. */
  start(): void;
  /** Answers requests for a URL with status 202 and `mocked`. */
  answer(method: 'GET' | 'POST', url: string): void;
  stop(): void;
}

/** Why a library cannot be tried on this Node; undefined if it can. */
export function tooOld(needed: string): string | undefined {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const [neededMajor = 0, neededMinor = 0] = needed.split('.').map(Number);
  return major > neededMajor || (major === neededMajor && minor >= neededMinor) ? undefined : `it needs Node ${needed}`;
}

/** How a library goes about it. */
export interface MockTraits {
  /** Clients of ours it does not see, as it does not see them without us. */
  readonly blindTo?: readonly string[];
  /** It stands in front of sockets. */
  readonly atSockets?: boolean;
}

/** What holds behind a library that mocks HTTP, whatever our client. */
export function mocksHttp(load: () => Promise<Mock>, { blindTo = [], atSockets = false }: MockTraits = {}): void {
  const certificate = createCertificate({ hosts: ['orders.shop'] });
  const origin = 'http://orders.shop:8080';
  let mock: Mock;
  let pod: Pod;
  let securePod: Pod;
  let orders: Client;

  beforeAll(async () => {
    mock = await load();
    [pod, securePod] = await Promise.all([
      Pod.start({ name: 'pod' }),
      Pod.start({ name: 'secure', tls: { cert: certificate.cert, key: certificate.key } }),
    ]);
  });
  afterEach(async () => {
    mock.stop();
    await orders[Symbol.asyncDispose]();
  });
  afterAll(async () => {
    await Promise.all([pod[Symbol.asyncDispose](), securePod[Symbol.asyncDispose]()]);
  });
  const requests = async (): Promise<number> => (await pod.stats()).requests;

  for (const [name, create] of Object.entries(clients)) {
    if (blindTo.includes(name)) continue;
    describe(name, () => {
      const open = (): Client => create(origin, { resolver: staticEndpoints([pod.endpoint]) });

      it('is answered by the mock where no pod is known', async () => {
        orders = create(origin, { resolver: new FakeResolver() });
        mock.start();
        mock.answer('GET', `${origin}/v1/orders/42`);
        mock.answer('POST', `${origin}/v1/orders`);
        expect(await orders.ask('/v1/orders/42')).toEqual({ status: 202, body: 'mocked' });
        expect(await orders.ask('/v1/orders', 'an order')).toEqual({ status: 202, body: 'mocked' });
      });

      it('is answered by the mock, and not by the pod it has connections to, and later by the pod again', async () => {
        orders = open();
        expect((await orders.ask('/')).status).toBe(200);
        const before = await requests();
        mock.start();
        mock.answer('GET', `${origin}/v1/orders/42`);
        mock.answer('POST', `${origin}/v1/orders`);
        for (let turn = 0; turn < 3; turn++) {
          expect(await orders.ask('/v1/orders/42')).toEqual({ status: 202, body: 'mocked' });
          expect(await orders.ask('/v1/orders', 'an order')).toEqual({ status: 202, body: 'mocked' });
        }
        expect(await requests()).toBe(before);
        mock.stop();
        expect((await orders.ask('/v1/orders/42')).status).toBe(200);
        expect(await requests()).toBe(before + 1);
      });

      it('reaches the pod where the mock lets a request through', async () => {
        orders = open();
        mock.start();
        mock.answer('GET', `${origin}/v1/orders/42`);
        const { status, body } = await orders.ask('/v1/stock');
        expect(status).toBe(200);
        expect(JSON.parse(body)).toMatchObject({ pod: 'pod', host: 'orders.shop:8080' });
        expect((await orders.ask('/echo', 'x'.repeat(100_000))).body).toHaveLength(100_000);
        expect(await orders.ask('/v1/orders/42')).toEqual({ status: 202, body: 'mocked' });
      });

      // A whole app would ask DNS.
      if (name !== 'createAppAgent') {
        it('is answered by the mock under another spelling of the Service', async () => {
          const full = 'http://orders.shop.svc.cluster.local:8080';
          orders = open();
          mock.start();
          mock.answer('GET', `${full}/v1/orders/42`);
          expect(await orders.ask(`${full}/v1/orders/42`)).toEqual({ status: 202, body: 'mocked' });
        });
      }

      it('is answered by the mock over TLS', async () => {
        const secure = `https://orders.shop:${securePod.port}`;
        orders = create(secure, { resolver: staticEndpoints([securePod.endpoint]), ca: certificate.cert });
        mock.start();
        mock.answer('GET', `${secure}/v1/orders/42`);
        expect(await orders.ask('/v1/orders/42')).toEqual({ status: 202, body: 'mocked' });
        expect(JSON.parse((await orders.ask('/v1/stock')).body)).toMatchObject({ pod: 'secure' });
        expect(await orders.ask('/v1/orders/42')).toEqual({ status: 202, body: 'mocked' });
      });

      if (!atSockets) return;
      it('never sends what the mock lets through to another port over TLS', async () => {
        const secure = 'https://orders.shop';
        orders = create(secure, { resolver: staticEndpoints([securePod.endpoint]), ca: certificate.cert });
        mock.start();
        mock.answer('GET', `${secure}/v1/orders/42`);
        expect(await orders.ask('/v1/orders/42')).toEqual({ status: 202, body: 'mocked' });
        await expect(orders.ask('/v1/stock')).rejects.toThrow();
      });
    });
  }

  it('answers a whole app where no DNS knows its Services', async () => {
    const agent = createAppAgent({ discovery: { dns: { servers: ['127.0.0.1:9'], timeoutMs: 60_000 } } });
    orders = {
      ask: async (path) => {
        const response = await fetch(new URL(path, origin), { dispatcher: agent } as never);
        return { status: response.status, body: await response.text() };
      },
      [Symbol.asyncDispose]: () => agent.destroy(),
    };
    mock.start();
    mock.answer('GET', `${origin}/v1/orders/42`);
    expect(await orders.ask('/v1/orders/42')).toEqual({ status: 202, body: 'mocked' });
  });
}
