import { afterEach, describe, expect, it } from 'vitest';
import { FakeClock } from '../../../src/testing/fake-clock.js';
import { until } from '../../support/until.js';
import { get } from './api-server-client.js';
import { closeAll, ofOrders, server, slice, watch } from './api-server-fixture.js';

afterEach(closeAll);

describe('list', () => {
  it('returns items without kind, and the version of the whole store', async () => {
    const api = await server();
    api.slices.put(slice('s1', ['10.0.0.1']));
    api.services.put({ metadata: { name: 'other', namespace: 'elsewhere' }, spec: {} });
    const { json } = await get(api.url, ofOrders);
    expect(json.kind).toBe('EndpointSliceList');
    expect(json.apiVersion).toBe('discovery.k8s.io/v1');
    expect(json.items).toHaveLength(1);
    expect(json.items[0]).not.toHaveProperty('kind');
    expect(json.items[0]).not.toHaveProperty('apiVersion');
    const item = json.items[0]?.metadata as Record<string, string>;
    expect(Number(json.metadata.resourceVersion)).toBeGreaterThan(Number(item.resourceVersion));
  });

  it('selects by label, and answers an unknown Service with an empty list', async () => {
    const api = await server();
    api.slices.put(slice('s1', ['10.0.0.1']));
    api.slices.put(slice('s2', ['10.0.0.2'], 'carts'));
    const names = async (selector: string): Promise<unknown[]> => {
      const { json } = await get(api.url, `labelSelector=${encodeURIComponent(selector)}`);
      return json.items.map((item) => (item.metadata as Record<string, string>).name);
    };
    expect(await names('kubernetes.io/service-name=orders')).toEqual(['s1']);
    expect(await names('kubernetes.io/service-name!=orders')).toEqual(['s2']);
    expect(await names('kubernetes.io/service-name in (orders, carts)')).toEqual(['s1', 's2']);
    expect(await names('kubernetes.io/service-name notin (orders)')).toEqual(['s2']);
    expect(await names('kubernetes.io/service-name,!missing')).toEqual(['s1', 's2']);
    expect(await names('kubernetes.io/service-name=nothing')).toEqual([]);
    expect((await get(api.url, 'labelSelector=a%20b%20c')).status).toBe(400);
  });

  it('has one version on all pages; an expired token is 410 with a token for the inconsistent rest', async () => {
    const api = await server();
    for (const name of ['s1', 's2', 's3']) api.slices.put(slice(name, ['10.0.0.1']));
    const first = await get(api.url, 'limit=2');
    expect(first.json.items).toHaveLength(2);
    expect(first.json.metadata).toHaveProperty('remainingItemCount', 1);
    expect((await get(api.url, `limit=2&${ofOrders}`)).json.metadata).not.toHaveProperty('remainingItemCount');
    api.slices.put(slice('s4', ['10.0.0.4']));
    const token = encodeURIComponent(first.json.metadata.continue as string);
    const second = await get(api.url, `limit=2&continue=${token}`);
    expect(second.json.items).toHaveLength(1);
    expect(second.json.metadata.resourceVersion).toBe(first.json.metadata.resourceVersion);
    expect(second.json.metadata.continue).toBeUndefined();

    api.expireContinueTokens();
    const gone = await get(api.url, `limit=2&continue=${token}`);
    expect(gone.status).toBe(410);
    expect(gone.json.reason).toBe('Expired');
    const rest = await get(api.url, `limit=2&continue=${encodeURIComponent(gone.json.metadata.continue as string)}`);
    expect(rest.json.items).toHaveLength(2);
    expect((await get(api.url, 'continue=nonsense')).status).toBe(400);
  });

  it('ignores a limit for resourceVersion=0, unless configured to page there too', async () => {
    const api = await server();
    const paging = await server({ pagesFromCache: true });
    for (const each of [api, paging]) for (const name of ['s1', 's2']) each.slices.put(slice(name, ['10.0.0.1']));
    expect((await get(api.url, 'limit=1&resourceVersion=0')).json.items).toHaveLength(2);
    expect((await get(paging.url, 'limit=1&resourceVersion=0')).json.items).toHaveLength(1);
  });

  it('reads the past with Exact, and is 410 once that is compacted', async () => {
    const api = await server();
    const version = api.slices.put(slice('s1', ['10.0.0.1']));
    api.slices.put(slice('s1', ['10.0.0.2']));
    api.slices.put(slice('s2', ['10.0.0.3']));
    const past = await get(api.url, `resourceVersion=${version}&resourceVersionMatch=Exact`);
    expect(past.json.items).toHaveLength(1);
    expect(JSON.stringify(past.json.items)).toContain('10.0.0.1');
    expect(past.json.metadata.resourceVersion).toBe(version);
    api.compact();
    const gone = await get(api.url, `resourceVersion=${version}&resourceVersionMatch=Exact`);
    expect([gone.status, gone.json.reason]).toEqual([410, 'Expired']);
    expect((await get(api.url, 'resourceVersionMatch=Exact')).status).toBe(422);
  });

  it('is 504 ResourceVersionTooLarge after 3 s for a future version', async () => {
    const clock = new FakeClock();
    const api = await server({ clock });
    const answer = get(api.url, 'resourceVersion=999999');
    await until('the request waits', () => clock.nextInMs === 3_000);
    clock.advance(3_000);
    const { status, headers, json } = await answer;
    expect(status).toBe(504);
    expect(headers['retry-after']).toBe('1');
    expect(JSON.stringify(json.details)).toContain('ResourceVersionTooLarge');
  });

  it('compresses large lists if asked to', async () => {
    const api = await server();
    for (let index = 0; index < 30; index++) {
      api.slices.put(
        slice(
          `s${index}`,
          Array.from({ length: 100 }, (_, host) => `10.0.${index}.${host}`),
        ),
      );
    }
    const plain = await get(api.url, ofOrders);
    const packed = await get(api.url, ofOrders, { 'accept-encoding': 'gzip' });
    const small = await get(api.url, 'labelSelector=none', { 'accept-encoding': 'gzip' });
    expect(plain.headers['content-encoding']).toBeUndefined();
    expect(packed.headers['content-encoding']).toBe('gzip');
    expect(packed.bytes.length).toBeLessThan(plain.bytes.length / 4);
    expect(small.headers['content-encoding']).toBeUndefined();
  });

  it('refuses an unknown media type with 406', async () => {
    const api = await server();
    expect((await get(api.url, '', { accept: 'text/html' })).status).toBe(406);
    expect((await get(api.url, '', { accept: 'application/json' })).status).toBe(200);
  });
});

describe('get', () => {
  it('returns a Service with its ports, and 404 for one that does not exist', async () => {
    const api = await server();
    api.service('shop', 'orders', { ports: [{ name: 'http', port: 80, targetPort: 8080 }] });
    const found = await get(api.url, '', {}, '/api/v1/namespaces/shop/services/orders');
    expect(found.json.kind).toBe('Service');
    expect(found.json.spec).toMatchObject({ ports: [{ name: 'http', port: 80, targetPort: 8080, protocol: 'TCP' }] });
    expect((await get(api.url, '', {}, '/api/v1/namespaces/shop/services/none')).status).toBe(404);
    expect((await get(api.url, '', {}, '/nothing/here')).status).toBe(404);
  });
});

describe('access', () => {
  const tokens = {
    admin: 'all',
    reader: [{ namespace: 'shop', verbs: ['list'], resources: ['endpointslices'] }],
  } as const;

  it('is 403 as anonymous without a token, 401 with a wrong one, and 403 that names verb and resource without a grant', async () => {
    const api = await server({ tokens });
    const anonymous = await get(api.url);
    expect(anonymous.status).toBe(403);
    expect(anonymous.json.message).toContain('system:anonymous');
    expect((await get(api.url, '', { authorization: 'Bearer wrong' })).status).toBe(401);
    expect((await get(api.url, '', { authorization: 'Bearer admin' })).status).toBe(200);
    expect((await get(api.url, '', { authorization: 'Bearer reader' })).status).toBe(200);
    const refused = await get(api.url, 'watch=true', { authorization: 'Bearer reader' });
    expect(refused.status).toBe(403);
    expect(refused.json.message).toContain('cannot watch resource "endpointslices" in API group "discovery.k8s.io"');
  });

  it('an open watch outlives its token', async () => {
    const api = await server({ tokens });
    const stream = await watch(api, '', { authorization: 'Bearer admin' });
    api.setTokens({});
    api.slices.put(slice('s1', ['10.0.0.1']));
    await until('the event', () => stream.events.length === 1);
    expect((await get(api.url, '', { authorization: 'Bearer admin' })).status).toBe(401);
  });
});

describe('TLS', () => {
  it('creates a certificate that clients can verify', async () => {
    const api = await server({ tls: true });
    expect(api.url).toMatch(/^https:/);
    expect((await get(api.url, '', {}, undefined, api.ca)).status).toBe(200);
    await expect(get(api.url)).rejects.toMatchObject({ code: expect.stringMatching(/CERT|VERIFY|ISSUER/) });
  });
});
