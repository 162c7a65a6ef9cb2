import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import tls from 'node:tls';
import { staticEndpoints } from 'evenkeel';
import { createAgent } from 'evenkeel/node-http';
import { createDispatcher, type DispatcherOptions, type ServiceDispatcher } from 'evenkeel/undici';
import * as undici from 'undici';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createCertificate } from '../../servers/index.js';
import { connected } from '../../support/fixtures/connected.js';
import { heard } from '../../support/fixtures/heard.js';
import { Pods } from '../../support/pods/pods.js';
import { until } from '../../support/until.js';

const origin = 'https://orders.shop:8443';
const authority = createCertificate({ commonName: 'evenkeel test authority', hosts: [] });
// The certificate names the Service. No pod's address is in it: it must be checked against the name, not the address.
const certificate = createCertificate({
  commonName: 'orders',
  hosts: ['orders.shop', 'orders.shop.svc.cluster.local'],
  issuer: authority,
});

let pods: Pods;
const opened: ServiceDispatcher[] = [];
const open = (target: string, options: DispatcherOptions): ServiceDispatcher => {
  const dispatcher = createDispatcher(target, { resolver: staticEndpoints(pods.endpoints), ...options });
  opened.push(dispatcher);
  return dispatcher;
};
/** How long a handshake takes is not what is tested. */
const refused = ({ balancer }: ServiceDispatcher): Promise<void> =>
  until('a pod was refused', () => balancer.snapshot().endpoints.some(({ lastError }) => lastError !== undefined));

beforeAll(async () => {
  pods = await Pods.start(2, { tls: certificate });
});
afterAll(async () => {
  await pods[Symbol.asyncDispose]();
});
afterEach(async () => {
  for (const dispatcher of opened.splice(0)) await dispatcher.close();
  await until('every connection of the pods is closed', async () => (await pods.total('open')) === 0);
});

async function listening(server: tls.Server): Promise<{ address: string; port: number } & AsyncDisposable> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { address, port } = server.address() as AddressInfo;
  return {
    address,
    port,
    async [Symbol.asyncDispose]() {
      server.close();
    },
  };
}

/** Whoever waits that long did not hear it in time. */
const patient = { waitTimeoutMs: 600_000 };

describe('a wrong configuration fails at once, without waiting', () => {
  it.each([
    ['an authority nobody knows', origin, {}, /no endpoint can be connected to .*unable to verify/],
    ['a certificate of another Service', 'https://billing.shop:8443', { ca: authority.cert }, /billing\.shop/],
  ])('%s', async (_what, target, tls, message) => {
    const orders = open(target, { tls, ...patient });
    for (let request = 0; request < 2; request++) {
      const error = await orders.request({ path: '/', method: 'GET' }).catch((caught: unknown) => caught);
      expect(error).toMatchObject({ code: 'EVENKEEL_CONNECT', message: expect.stringMatching(message) });
    }
    const agent = createAgent(target, { resolver: staticEndpoints(pods.endpoints), tls, ...patient });
    const failed = once(https.get(target, { agent }), 'error');
    expect(await failed).toMatchObject([{ code: 'EVENKEEL_CONNECT', message: expect.stringMatching(message) }]);
    await agent.close();
  });

  it('pods that speak HTTP/2 only', async () => {
    await using only = await listening(tls.createServer({ ...certificate, ALPNProtocols: ['h2'] }));
    const resolver = staticEndpoints([only]);
    const settings = { resolver, tls: { ca: authority.cert }, ...patient };
    const message = expect.stringMatching(/no endpoint can be connected to .*does not speak HTTP\/1\.1/);
    await expect(open(origin, settings).request({ path: '/', method: 'GET' })).rejects.toMatchObject({ message });
    const agent = createAgent(origin, settings);
    expect(await once(https.get(origin, { agent }), 'error')).toMatchObject([{ message }]);
    await agent.close();
  });

  it('https to pods that speak plain HTTP', { timeout: 20_000 }, async () => {
    await using plain = await Pods.start(2);
    const resolver = staticEndpoints(plain.endpoints);
    const orders = open(origin, { resolver, ...patient });
    const message = expect.stringMatching(/does not speak TLS, most likely plain HTTP; use http:\/\//);
    await expect(orders.request({ path: '/', method: 'GET' })).rejects.toMatchObject({ message });
    const agent = createAgent(origin, { resolver, ...patient });
    expect(await once(https.get(origin, { agent }), 'error')).toMatchObject([{ message }]);
    await agent.close();
    await orders.close();
  });
});

describe('http to pods that speak TLS', () => {
  const plain = 'http://orders.shop:8080';
  const hint = expect.stringMatching(
    /(other side closed|socket hang up) \(127\.\S+ closed it without a byte; if it speaks TLS, use https:\/\/\)$/,
  );

  it.each(['GET', 'POST'])('undici, %s: the error names the likely cause', async (method) => {
    const orders = open(plain, {});
    const failed = orders.request({ path: '/', method, body: method === 'POST' ? 'x' : null });
    await expect(failed).rejects.toMatchObject({ code: 'UND_ERR_SOCKET', message: hint });
  });

  it('node:http: the error names the likely cause', async () => {
    const agent = createAgent(plain, { resolver: staticEndpoints(pods.endpoints) });
    const failed = once(http.get(plain, { agent }), 'error');
    expect(await failed).toMatchObject([{ code: 'ECONNRESET', message: hint }]);
    await agent.close();
  });
});

describe('over TLS', () => {
  it('sends and checks the name of the Service while it dials the pods', async () => {
    const orders = open(origin, { tls: { ca: authority.cert } });
    const { body } = await undici.request(`${origin}/`, { dispatcher: orders });
    expect(await body.json()).toMatchObject({ host: 'orders.shop:8443' });
    const response = await fetch('https://orders.shop.svc.cluster.local:8443/', {
      dispatcher: orders,
    } as unknown as RequestInit);
    expect(response.status).toBe(200);
    // The requests need only one of the pods; the other one's handshake may still be under way.
    await until('both pods were asked for a name', async () =>
      (await pods.stats()).every(({ servernames }) => Object.keys(servernames).length > 0),
    );
    for (const { servernames } of await pods.stats()) expect(Object.keys(servernames)).toEqual(['orders.shop']);
  });

  it('removes the trailing dot of an absolute name for TLS', async () => {
    const orders = open('https://orders.shop.svc.cluster.local.:8443', { tls: { ca: authority.cert } });
    expect((await orders.request({ path: '/', method: 'GET' })).statusCode).toBe(200);
  });

  it('keeps its connections when callers set Host headers of their own', async () => {
    const orders = open(origin, { tls: { ca: authority.cert }, connections: 1 });
    const before = await pods.total('connections');
    for (const host of ['a.example.com', undefined, 'b.example.com', undefined, 'a.example.com', undefined]) {
      const { body } = await orders.request({ path: '/', method: 'GET', headers: host === undefined ? {} : { host } });
      await body.dump();
    }
    expect((await pods.total('connections')) - before).toBe(2);
  });

  it('refuses a pod whose certificate is from an unknown authority', async () => {
    const orders = open(origin, { waitTimeoutMs: 300 });
    await refused(orders);
    const error = await orders.request({ path: '/', method: 'GET' }).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: 'EVENKEEL_CONNECT', message: expect.stringContaining('verify') });
  });

  it('refuses a pod whose certificate is for another Service', async () => {
    const billing = open('https://billing.shop:8443', { tls: { ca: authority.cert }, waitTimeoutMs: 300 });
    await refused(billing);
    const error = await billing.request({ path: '/', method: 'GET' }).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: 'EVENKEEL_CONNECT', message: expect.stringContaining('billing.shop') });
    expect(await pods.total('requests')).toBe(await pods.total('requests'));
  });

  it('checks the name in the servername option where the certificate does not have the Service’s', async () => {
    const billing = open('https://billing.shop:8443', { tls: { ca: authority.cert, servername: 'orders.shop' } });
    const { body } = await billing.request({ path: '/', method: 'GET' });
    expect(await body.json()).toMatchObject({ host: 'billing.shop:8443' });
  });

  it('a setting that is present but undefined changes nothing', async () => {
    const unset = { checkServerIdentity: undefined, servername: undefined } as unknown as tls.ConnectionOptions;
    const orders = open(origin, { tls: { ca: authority.cert, ...unset } });
    expect((await orders.request({ path: '/', method: 'GET' })).statusCode).toBe(200);
  });

  it('checks an address in the target against the certificate, and not the address of the pod', async () => {
    const orders = open('https://127.0.0.1:8443', { tls: { ca: authority.cert }, waitTimeoutMs: 300 });
    await refused(orders);
    const error = await orders.request({ path: '/', method: 'GET' }).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ message: expect.stringContaining('127.0.0.1') });

    await using addressed = await Pods.start(1, {
      tls: createCertificate({ commonName: 'by address', hosts: ['10.9.8.7'], issuer: authority }),
    });
    const byAddress = open('https://10.9.8.7:8443', {
      tls: { ca: authority.cert },
      resolver: staticEndpoints(addressed.endpoints),
    });
    expect((await byAddress.request({ path: '/', method: 'GET' })).statusCode).toBe(200);
    await byAddress.close();
  });

  it('sends requests elsewhere that never reached a refused pod', async () => {
    const orders = open(origin, { tls: { ca: authority.cert } });
    await using extra = await Pods.start(1, { tls: certificate });
    const both = open(origin, {
      tls: { ca: authority.cert },
      resolver: staticEndpoints([...extra.endpoints, ...pods.endpoints]),
    });
    await connected(both.balancer, 3);
    await extra.at(0).kill();
    await heard(extra.at(0));
    for (let request = 0; request < 9; request++) {
      const { body } = await both.request({ path: '/', method: 'POST', body: 'x' });
      await body.dump();
    }
    await orders.close();
  });

  it('upgrades connections', async () => {
    const orders = open(origin, { tls: { ca: authority.cert } });
    const { socket } = await orders.upgrade({ path: '/', protocol: 'echo' });
    socket.write('across');
    expect(String((await once(socket, 'data'))[0])).toBe('across');
    socket.destroy();
  });
});
