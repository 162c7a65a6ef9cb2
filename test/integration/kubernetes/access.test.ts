import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from 'evenkeel';
import { FakeClock } from 'evenkeel/testing';
import { describe, expect, it } from 'vitest';
import { HttpApiClient } from '../../../src/resolver/kubernetes/api/api-client.js';
import { explicitAccess } from '../../../src/resolver/kubernetes/api/explicit-access.js';
import { countedSlices } from '../../../src/resolver/kubernetes/endpoint-slices.js';
import { type ApiServer, createApiServer, createCertificate } from '../../servers/index.js';
import { sliceObject } from '../../support/fixtures/endpoint-cases.js';
import { until } from '../../support/until.js';
import { atEnd, cleanUpAfterEach, openApi, WatchedService, WatchingBalancer } from './harness.js';

cleanUpAfterEach();

const A = '10.0.0.1:80';
const AB = '10.0.0.1:80 10.0.0.2:80';

/** A service account's directory. */
async function account(
  files: Readonly<Record<string, string>>,
): Promise<{ path: string; write(name: string, text: string): Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), 'evenkeel-account-'));
  atEnd(() => rm(path, { recursive: true }));
  const write = (name: string, text: string): Promise<void> => writeFile(join(path, name), text);
  for (const [name, text] of Object.entries(files)) await write(name, text);
  return { path, write };
}

const env = (api: ApiServer): Record<string, string> => ({
  KUBERNETES_SERVICE_HOST: '127.0.0.1',
  KUBERNETES_SERVICE_PORT: String(api.port),
});

describe('in a pod', () => {
  it('needs only the environment and the mounted files, over TLS', async () => {
    const api = await openApi({ tls: true, tokens: { secret: 'all' } });
    api.slices.put(sliceObject('s1', 'aR bR'));
    const { path } = await account({ token: 'secret', 'ca.crt': api.ca as string, namespace: 'shop' });
    const service = new WatchedService(api, {
      port: 'http',
      apiServer: undefined as never,
      namespace: undefined as never,
      inCluster: { path, env: env(api) },
    });
    await service.sees(AB);
    expect(api.requests[0]).toMatchObject({ namespace: 'shop', headers: { authorization: 'Bearer secret' } });
  });

  it('401: the token file is read again at once, and the request is repeated once', async () => {
    const api = await openApi({ tls: true, tokens: { old: 'all' } });
    api.slices.put(sliceObject('s1', 'aR'));
    const { path, write } = await account({ token: 'old', 'ca.crt': api.ca as string, namespace: 'shop' });
    const service = new WatchedService(api, {
      port: 'http',
      apiServer: undefined as never,
      inCluster: { path, env: env(api) },
    });
    await service.sees(A);
    await service.watching(1);
    await service.elapse(10_000);
    await write('token', 'new');
    api.setTokens({ new: 'all' });
    api.disturb('end');
    await service.watching(3);
    api.slices.put(sliceObject('s1', 'aR bR'));
    await service.pass('in step again', () => service.addresses === AB);
    const watches = api.requests.filter(({ verb }) => verb === 'watch');
    expect(watches.map(({ status, headers }) => [status, headers.authorization])).toEqual([
      [200, 'Bearer old'],
      [401, 'Bearer old'],
      [200, 'Bearer new'],
    ]);
    expect(service.listener.errors).toEqual([]);
  });

  it('401 that stays: retried once, then backed off, and the set stays', async () => {
    const api = await openApi({ tokens: { old: 'all' } });
    api.slices.put(sliceObject('s1', 'aR'));
    const service = new WatchedService(api, { port: 'http', credentials: { token: 'old' } });
    await service.sees(A);
    await service.watching(1);
    await service.elapse(60_000);
    api.setTokens({});
    api.disturb('end');
    await until('told', () => service.listener.errors.length === 1);
    expect(api.counts.watches).toBe(3);
    expect(service.listener.errors[0]?.message).toContain('401');
    expect(service.addresses).toBe(A);
    await service.pass('tried again', () => api.counts.watches === 5);
    expect(service.listener.errors).toHaveLength(1);
  });

  it('a replaced certificate authority is read again; connections made with the old one are retired', async () => {
    const api = await openApi({ tls: true });
    api.slices.put(sliceObject('s1', 'aR'));
    const { path, write } = await account({ token: 'x', 'ca.crt': api.ca as string, namespace: 'shop' });
    const service = new WatchedService(api, {
      port: 'http',
      apiServer: undefined as never,
      inCluster: { path, env: env(api) },
    });
    await service.sees(A);
    await service.watching(1);
    await service.elapse(10_000);
    // The same port, another authority.
    await api.close();
    const next = await createApiServer({ tls: true, port: api.port });
    atEnd(() => next.close());
    next.slices.put(sliceObject('s1', 'aR bR'));
    next.compact();
    await service.pass('the new authority is not trusted', () =>
      service.listener.errors.some(({ message }) => /certificate|signature|UNABLE|SELF_SIGNED/i.test(message)),
    );
    await write('ca.crt', next.ca as string);
    await service.pass('in step again', () => service.addresses === AB);
  });

  it('W16: without permission ready() rejects with the reason, and permission that is given later is noticed', async () => {
    const api = await openApi({ tokens: { me: [{ namespace: 'other', verbs: ['*'], resources: ['*'] }] } });
    api.slices.put(sliceObject('s1', 'aR'));
    const watching = new WatchingBalancer(api, { credentials: { token: 'me' } });
    const ready = watching.balancer.ready().then(
      () => 'ready',
      (error: Error & { code?: string }) => `${error.code} ${error.message}`,
    );
    let outcome: string | undefined;
    void ready.then((text) => {
      outcome = text;
    });
    await until('told', async () => {
      await watching.clock.advanceAsync(100);
      return outcome !== undefined;
    });
    expect(outcome).toMatch(/^EVENKEEL_FORBIDDEN .*list endpointslices\.discovery\.k8s\.io in the namespace shop/);
    expect(watching.resolveFailures).toHaveLength(1);
    api.setTokens({ me: 'all' });
    await until('found', async () => {
      await watching.clock.advanceAsync(1_000);
      return watching.set === A;
    });
    await watching.balancer.ready();
  });
});

describe('S11 with an API server', () => {
  const ports = [
    { name: 'http', port: 80, targetPort: 8080 },
    { name: 'metrics', port: 9090, targetPort: 9091 },
  ];

  it('a Service port number is looked up in the ports of the Service', async () => {
    const api = await openApi();
    const orders = api.service('shop', 'orders', { ports });
    orders.setPods([{ name: 'one', address: '10.0.0.1' }]);
    const service = new WatchedService(api, { port: 9090 });
    await service.sees('10.0.0.1:9091');
    expect(api.counts.gets).toBe(1);
    orders.putPod({ name: 'two', address: '10.0.0.2' });
    await service.pass('the next pod', () => service.addresses === '10.0.0.1:9091 10.0.0.2:9091');
    expect(api.counts.gets).toBe(1);
  });

  it('without permission for services: EVENKEEL_PORT_AMBIGUOUS with the names of the ports', async () => {
    const api = await openApi({
      tokens: { me: [{ namespace: 'shop', verbs: ['list', 'watch'], resources: ['endpointslices'] }] },
    });
    api.service('shop', 'orders', { ports }).setPods([{ name: 'one', address: '10.0.0.1' }]);
    const service = new WatchedService(api, { port: 80, credentials: { token: 'me' } });
    await until('told', () => service.listener.errors.length > 0);
    expect(service.listener.errors[0]).toMatchObject({ code: 'EVENKEEL_PORT_AMBIGUOUS', permanent: true });
    expect(service.listener.errors[0]?.message).toContain('"http", "metrics"');
    expect(service.listener.endpoints).toBeUndefined();
  });

  it('a rollout that changes the number of a named targetPort: old and new pods are used, each at its own', async () => {
    const api = await openApi();
    const orders = api.service('shop', 'orders', { ports: [{ name: 'http', port: 80, targetPort: 'web' }] });
    orders.setPods([
      { name: 'old', address: '10.0.0.1', ports: { web: 8080 } },
      { name: 'new', address: '10.0.0.2', ports: { web: 9090 } },
    ]);
    const service = new WatchedService(api, { port: 80 });
    await service.sees('10.0.0.1:8080 10.0.0.2:9090');
  });

  it('a port that no pod has: an empty set, and a warning that names the existing ports', async () => {
    const api = await openApi();
    api.service('shop', 'orders', { ports }).setPods([{ name: 'one', address: '10.0.0.1' }]);
    const service = new WatchedService(api, { port: 'htp' });
    await service.sees('');
    expect(service.warnings.map(({ message }) => message)).toEqual([
      'no EndpointSlice of shop/orders has a port named "htp"; there is "http", "metrics"',
    ]);
  });
});

describe('addresses in a slice', () => {
  it('that no pod has are refused unless allowed, and reported once', async () => {
    const api = await openApi();
    const slice = sliceObject('s1', 'aR');
    const unsafe = ['127.0.0.1', '127.0.0.2', '169.254.169.254', '224.0.0.1', '0.0.0.0'].map((address) => ({
      addresses: [address],
    }));
    api.slices.put({ ...slice, endpoints: [...unsafe, ...(slice.endpoints ?? [])] });
    const clock = new FakeClock();
    const strict = new WatchedService(api, { port: 'http' }, clock);
    const loose = new WatchedService(api, { port: 'http', allowAddresses: ['loopback'] }, clock);
    await strict.sees(A);
    await loose.sees(`${A} 127.0.0.1:80 127.0.0.2:80`);
    expect(strict.warnings).toHaveLength(1);
    expect(strict.warnings[0]?.message).toMatch(/127\.0\.0\.1 \(loopback\).*allowAddresses/);
    api.slices.put({ ...slice, endpoints: unsafe });
    await strict.pass('the change', () => strict.addresses === '', 300);
    expect(strict.warnings).toHaveLength(1);
  });

  it('that are more than allowed are reported, and the last set stays', async () => {
    const api = await openApi();
    api.slices.put(sliceObject('s1', 'aR bR'));
    const service = new WatchedService(api, { port: 'http', maxEndpoints: 2 });
    await service.sees(AB);
    api.slices.put(sliceObject('s1', 'aR bR cR'));
    await service.pass('told', () => service.listener.errors.length === 1);
    expect(service.listener.errors[0]?.message).toContain('3 endpoints, more than maxEndpoints (2)');
    expect(service.addresses).toBe(AB);
    await service.elapse(60_000);
    // Nothing but fewer endpoints makes it good again.
    expect(service.listener.events.at(-1)).toMatch(/^fail/);
    api.slices.put(sliceObject('s1', 'aR'));
    await service.pass('fewer again', () => service.addresses === A, 300);
    expect(service.listener.events.at(-1)).toBe(A);
  });

  it('the number of slices tells an absent Service from an empty one', async () => {
    const api = await openApi();
    const counts: number[] = [];
    const service = new WatchedService(api, {
      port: 'http',
      make: (options) => countedSlices(options, (count) => counts.push(count)),
    });
    await service.sees('');
    expect(counts).toEqual([0]);
    const orders = api.service('shop', 'orders', { ports: [{ name: 'http', port: 80 }] });
    await service.pass('the placeholder', () => counts.length === 2);
    orders.delete();
    await service.pass('gone', () => counts.length === 3);
    expect(counts).toEqual([0, 1, 0]);
  });
});

describe('the HTTP client for the API server', () => {
  const other = createCertificate({ commonName: 'other', hosts: [] });

  it('uses mutual TLS with its own certificate authority', async () => {
    const api = await openApi({ tls: true });
    api.slices.put(sliceObject('s1', 'aR'));
    const client = createCertificate({ commonName: 'me', hosts: [] });
    const service = new WatchedService(api, {
      port: 'http',
      credentials: { ca: api.ca as string, cert: client.cert, key: client.key },
    });
    await service.sees(A);
    const untrusting = new WatchedService(api, { port: 'http' });
    await until('refused', () => untrusting.listener.errors.length === 1);
    expect(untrusting.listener.errors[0]?.message).toMatch(/certificate|UNABLE/i);
  });

  it('repeats the request when a kept connection was already closed by the server, and the caller does not notice', async () => {
    const answered: number[] = [];
    let connections = 0;
    const server = createServer((socket) => {
      connections += 1;
      const id = connections;
      // The first connection takes one request and resets at the next, as if it had been closed in between.
      socket.on('data', () => {
        if (id === 1 && answered.includes(1)) {
          socket.resetAndDestroy();
          return;
        }
        answered.push(id);
        socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}');
      });
      socket.on('error', () => {});
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    atEnd(() => new Promise<void>((resolve) => server.close(() => resolve())));
    const clock = new FakeClock();
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const client = new HttpApiClient(explicitAccess(url).open(clock), clock, false);
    atEnd(() => client.close());
    const { signal } = new AbortController();
    for (let round = 0; round < 2; round++) {
      const reply = await client.get({ path: '/x', query: {}, signal });
      await reply.read(() => {});
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(answered).toEqual([1, 2]);
  });

  it.each([
    ['a binary token', { token: '\u0001\u0002\u0003' }],
    ['a token of several lines', { token: 'one\ntwo' }],
    ['a certificate whose key is not there yet', { 'tls.key': other.key }],
    ['a certificate that is cut short', { 'tls.crt': other.cert.slice(0, 300) }],
    ['an authority that is cut short', { 'ca.crt': other.cert.slice(0, 300) }],
    ['an authority that is binary', { 'ca.crt': '\u0001\u0002\u0003' }],
  ])('reads credentials again at once that it read half-way through their replacement: %s', async (_what, halfway) => {
    const api = await openApi({ tls: true });
    const mine = createCertificate({ commonName: 'me', hosts: [] });
    const whole = { token: 'secret', 'ca.crt': api.ca as string, 'tls.crt': mine.cert, 'tls.key': mine.key };
    const { path, write } = await account({ ...whole, ...halfway });
    const fileOf = (name: keyof typeof whole): string => join(path, name);
    const session = explicitAccess(api.url, {
      tokenFile: fileOf('token'),
      caFile: fileOf('ca.crt'),
      certFile: fileOf('tls.crt'),
      keyFile: fileOf('tls.key'),
    }).open(systemClock);
    const client = new HttpApiClient(session, systemClock, false);
    atEnd(() => client.close());
    const { signal } = new AbortController();
    const ask = () => client.get({ path: '/version', query: {}, signal });
    await expect(ask()).rejects.toThrow();
    for (const [name, text] of Object.entries(whole)) await write(name, text);
    const reply = await ask();
    expect(reply.status).toBe(200);
    reply.discard();
  });

  it('stops reading and closes the connection when onData throws', async () => {
    const api = await openApi();
    const clock = new FakeClock();
    const client = new HttpApiClient(explicitAccess(api.url).open(clock), clock, false);
    atEnd(() => client.close());
    const { signal } = new AbortController();
    const reply = await client.get({ path: '/version', query: {}, signal });
    await expect(
      reply.read(() => {
        throw new Error('enough');
      }),
    ).rejects.toThrow('enough');
    await until('the connection is gone', () => api.counts.openConnections === 0);
  });

  it('does not wait for a token function after its request has ended', async () => {
    const api = await openApi();
    const clock = new FakeClock();
    const access = explicitAccess(api.url, { token: () => new Promise<string>(() => {}) });
    const client = new HttpApiClient(access.open(clock), clock, false);
    const controller = new AbortController();
    const reply = client.get({ path: '/version', query: {}, signal: controller.signal });
    controller.abort(new Error('too long'));
    await expect(reply).rejects.toThrow('too long');
  });
});

describe('options', () => {
  it.each([
    [{ service: '' }],
    [{ service: 'Orders' }],
    [{ service: 'a/b' }],
    [{ service: 'orders', namespace: 'shop,x=y' }],
    [{ service: 'orders', port: 0 }],
    [{ service: 'orders', port: 'a b' }],
    [{ service: 'orders', port: 'http', podPort: 80 }],
    [{ service: 'orders', family: 'IPv5' }],
    [{ service: 'orders', apiServer: 'https://api' }],
    [{ service: 'orders', credentials: { token: 'x' } }],
    [{ service: 'orders', namespace: 'shop', apiServer: 'https://api', kubeConfig: {} }],
    [{ service: 'orders', allowAddresses: ['private'] }],
    [{ service: 'orders', portt: 80 }],
  ])('with %j are refused', async (options) => {
    const { endpointSlices } = await import('evenkeel/kubernetes');
    expect(() => endpointSlices(options as never)).toThrow(expect.objectContaining({ code: 'EVENKEEL_OPTION' }));
  });

  it('accept a number in a string', async () => {
    const api = await openApi();
    api
      .service('shop', 'orders', { ports: [{ name: 'http', port: 80, targetPort: 8080 }] })
      .setPods([{ name: 'a', address: '10.0.0.1' }]);
    const service = new WatchedService(api, { port: '80' });
    await service.sees('10.0.0.1:8080');
  });

  it('outside a pod fail at once and for good, with the reason', async () => {
    const service = new WatchedService(await openApi(), { apiServer: undefined as never, inCluster: { env: {} } });
    await until('told', () => service.listener.errors.length === 1);
    expect(service.listener.errors[0]).toMatchObject({
      permanent: true,
      message: expect.stringContaining('not in a pod'),
    });
  });
});
