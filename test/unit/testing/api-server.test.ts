import { afterEach, describe, expect, it } from 'vitest';
import { type ApiServer, createApiServer } from '../../../src/testing/api-server.js';
import type { EndpointSliceObject } from '../../../src/testing/api-server-objects.js';
import type { ApiServerOptions } from '../../../src/testing/api-server-options.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';
import { until } from '../../support/until.js';
import { get, open, RawWatch } from './api-server-client.js';

const servers: ApiServer[] = [];
const watches: RawWatch[] = [];

async function server(options: ApiServerOptions = {}): Promise<ApiServer> {
  const api = await createApiServer({ rng: seededRng(1), ...options });
  servers.push(api);
  return api;
}

async function watch(api: ApiServer, query = ''): Promise<RawWatch> {
  const stream = await RawWatch.open(api.url, query);
  watches.push(stream);
  return stream;
}

afterEach(async () => {
  for (const stream of watches.splice(0)) stream.close();
  for (const api of servers.splice(0)) await api.close();
});

function slice(name: string, addresses: readonly string[], service = 'orders'): EndpointSliceObject {
  return {
    metadata: { name, namespace: 'shop', labels: { 'kubernetes.io/service-name': service } },
    addressType: 'IPv4',
    endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true } })),
    ports: [{ name: 'http', port: 80, protocol: 'TCP' }],
  };
}

const ofOrders = `labelSelector=${encodeURIComponent('kubernetes.io/service-name=orders')}`;

describe('list', () => {
  it('gives items without kind, and the version of the whole store', async () => {
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

  it('pages share one version; an expired token is 410 with a token for the inconsistent rest', async () => {
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

  it('ignores a limit for resourceVersion=0, unless told to page there too', async () => {
    const api = await server();
    const paging = await server({ pagesFromCache: true });
    for (const each of [api, paging]) for (const name of ['s1', 's2']) each.slices.put(slice(name, ['10.0.0.1']));
    expect((await get(api.url, 'limit=1&resourceVersion=0')).json.items).toHaveLength(2);
    expect((await get(paging.url, 'limit=1&resourceVersion=0')).json.items).toHaveLength(1);
  });

  it('Exact reads the past, and is 410 once that is compacted', async () => {
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

  it('a version not there yet is 504 ResourceVersionTooLarge after 3 s', async () => {
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

  it('compresses large lists when asked to', async () => {
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

  it('refuses a media type it does not have with 406', async () => {
    const api = await server();
    expect((await get(api.url, '', { accept: 'text/html' })).status).toBe(406);
    expect((await get(api.url, '', { accept: 'application/json' })).status).toBe(200);
  });
});

describe('get', () => {
  it('gives a Service with its port table, and 404 for one that is not there', async () => {
    const api = await server();
    api.service('shop', 'orders', { ports: [{ name: 'http', port: 80, targetPort: 8080 }] });
    const found = await get(api.url, '', {}, '/api/v1/namespaces/shop/services/orders');
    expect(found.json.kind).toBe('Service');
    expect(found.json.spec).toMatchObject({ ports: [{ name: 'http', port: 80, targetPort: 8080, protocol: 'TCP' }] });
    expect((await get(api.url, '', {}, '/api/v1/namespaces/shop/services/none')).status).toBe(404);
    expect((await get(api.url, '', {}, '/nothing/here')).status).toBe(404);
  });
});

describe('watch', () => {
  it('from the version of a list: changes only, with kind, and label changes as DELETED and ADDED', async () => {
    const api = await server();
    api.slices.put(slice('s1', ['10.0.0.1']));
    const list = await get(api.url, ofOrders);
    const stream = await watch(api, `${ofOrders}&resourceVersion=${list.json.metadata.resourceVersion}`);
    api.slices.put(slice('s2', ['10.0.0.2']));
    api.slices.put(slice('s1', ['10.0.0.3']));
    api.slices.put(slice('s1', ['10.0.0.3'], 'carts'));
    api.slices.put(slice('s1', ['10.0.0.4']));
    const last = api.slices.put(slice('other', ['10.0.0.9'], 'carts'));
    api.slices.delete('s2', 'shop');
    await until('five events', () => stream.events.length === 5);
    expect(stream.types).toBe('ADDED MODIFIED DELETED ADDED DELETED');
    expect(stream.events[0]?.object.kind).toBe('EndpointSlice');
    // DELETED carries the last object under a new version.
    const deleted = stream.events[4]?.object;
    expect(JSON.stringify(deleted?.endpoints)).toContain('10.0.0.2');
    expect(Number(deleted?.metadata.resourceVersion)).toBeGreaterThan(Number(last));
  });

  it('without a version: the present state as ADDED, then changes', async () => {
    const api = await server();
    api.slices.put(slice('s1', ['10.0.0.1']));
    api.slices.put(slice('s2', ['10.0.0.2']));
    const stream = await watch(api, ofOrders);
    await until('the state', () => stream.events.length === 2);
    api.slices.delete('s1', 'shop');
    await until('the change', () => stream.events.length === 3);
    expect(stream.types).toBe('ADDED ADDED DELETED');
  });

  it('sends a backlog in pieces of up to 2,048 bytes cut anywhere, and live events whole', async () => {
    const api = await server();
    const version = api.slices.put(slice('s0', ['10.0.0.1']));
    for (let index = 0; index < 40; index++) api.slices.put(slice(`s${index}`, ['10.0.0.1', '10.0.0.2']));
    const stream = await watch(api, `resourceVersion=${version}`);
    await until('the backlog', () => stream.text.endsWith('\n') && stream.events.length === 40);
    const backlog = stream.chunks.length;
    expect(Math.max(...stream.chunks.map((chunk) => chunk.length))).toBeLessThanOrEqual(2_048);
    expect(stream.chunks.some((chunk) => chunk.at(-1) !== 10)).toBe(true);
    api.slices.put(
      slice(
        'big',
        Array.from({ length: 100 }, (_, host) => `10.0.1.${host}`),
      ),
    );
    await until('the live event', () => stream.events.length === 41);
    expect(stream.chunks.length).toBe(backlog + 1);
  });

  it('ends by itself after timeoutSeconds, with bookmarks once a minute and one just before the end', async () => {
    const clock = new FakeClock();
    const api = await server({ clock });
    api.slices.put(slice('s1', ['10.0.0.1']));
    const stream = await watch(api, `resourceVersion=${api.revision}&allowWatchBookmarks=true&timeoutSeconds=130`);
    clock.advance(60_000);
    api.touch();
    clock.advance(69_999);
    await until('the bookmarks', () => stream.events.length === 3);
    expect(stream.types).toBe('BOOKMARK BOOKMARK BOOKMARK');
    expect(stream.events[0]?.object).toEqual({
      kind: 'EndpointSlice',
      apiVersion: 'discovery.k8s.io/v1',
      metadata: { resourceVersion: '1001' },
      addressType: '',
      endpoints: null,
      ports: null,
    });
    expect(stream.events[2]?.object.metadata.resourceVersion).toBe('1002');
    expect(stream.ended).toBe(false);
    clock.advance(1);
    await until('the end', () => stream.ended);
    expect(stream.error).toBeUndefined();
  });

  it('sends no bookmark unless asked', async () => {
    const clock = new FakeClock();
    const api = await server({ clock });
    const stream = await watch(api, 'resourceVersion=1000&timeoutSeconds=130');
    clock.advance(130_000);
    await until('the end', () => stream.ended);
    expect(stream.events).toEqual([]);
  });

  it('from too old a version: 200 with one ERROR 410 event and a clean end', async () => {
    const api = await server();
    const version = api.slices.put(slice('s1', ['10.0.0.1']));
    api.compact();
    const stream = await watch(api, `resourceVersion=${version}`);
    await until('the end', () => stream.ended);
    expect(stream.response.statusCode).toBe(200);
    expect(stream.events[0]).toMatchObject({ type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired' } });
  });

  it('remembers only so many writes', async () => {
    const api = await server({ historyLimit: 3 });
    const first = api.slices.put(slice('s1', ['10.0.0.1']));
    for (let index = 0; index < 3; index++) api.slices.put(slice('s1', [`10.0.1.${index}`]));
    const good = await watch(api, `resourceVersion=${first}`);
    await until('three events', () => good.events.length === 3);
    api.slices.put(slice('s1', ['10.0.2.1']));
    const old = await watch(api, `resourceVersion=${first}`);
    await until('the end', () => old.ended);
    expect(old.types).toBe('ERROR');
  });

  it('from a version not there yet: silence, also for changes below it', async () => {
    const api = await server();
    const stream = await watch(api, `resourceVersion=${api.revision + 2}`);
    api.slices.put(slice('s1', ['10.0.0.1']));
    api.slices.put(slice('s1', ['10.0.0.2']));
    api.slices.put(slice('s1', ['10.0.0.3']));
    await until('the first change above it', () => stream.events.length === 1);
    expect(stream.text).toContain('10.0.0.3');
  });

  it('from "abc": 500, a Status without a reason', async () => {
    const api = await server();
    const { status, json } = await get(api.url, 'watch=true&resourceVersion=abc');
    expect(status).toBe(500);
    expect(json.kind).toBe('Status');
    expect(json).not.toHaveProperty('reason');
  });

  it('streaming list: the state, then a bookmark with the end mark', async () => {
    const api = await server();
    api.slices.put(slice('s1', ['10.0.0.1']));
    const query = 'sendInitialEvents=true&resourceVersionMatch=NotOlderThan';
    const stream = await watch(api, `${query}&allowWatchBookmarks=true`);
    await until('the end mark', () => stream.events.length === 2);
    expect(stream.events[1]).toMatchObject({
      type: 'BOOKMARK',
      object: { metadata: { annotations: { 'k8s.io/initial-events-end': 'true' } } },
    });
    const none = await watch(api, `${query}&allowWatchBookmarks=true&labelSelector=nothing`);
    await until('the end mark of nothing', () => none.events.length === 1);
    expect((await get(api.url, 'watch=true&sendInitialEvents=true')).status).toBe(422);
  });

  it('from a restored backup: the open watch hears nothing, a list has the old state and version', async () => {
    const api = await server();
    api.slices.put(slice('s1', ['10.0.0.1']));
    const backup = api.backup();
    api.slices.put(slice('s1', ['10.0.0.2']));
    const before = api.revision;
    api.restore(backup);
    const list = await get(api.url);
    expect(JSON.stringify(list.json.items)).toContain('10.0.0.1');
    expect(Number(list.json.metadata.resourceVersion)).toBeLessThan(before);
  });
});

describe('access', () => {
  const tokens = {
    admin: 'all',
    reader: [{ namespace: 'shop', verbs: ['list'], resources: ['endpointslices'] }],
  } as const;

  it('no token 403 as anonymous, a wrong one 401, no grant 403 that names verb and resource', async () => {
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
    const stream = await RawWatch.open(api.url, '', { authorization: 'Bearer admin' });
    watches.push(stream);
    api.setTokens({});
    api.slices.put(slice('s1', ['10.0.0.1']));
    await until('the event', () => stream.events.length === 1);
    expect((await get(api.url, '', { authorization: 'Bearer admin' })).status).toBe(401);
  });
});

describe('outages', () => {
  it('kill resets watches and refuses connections; start is on the same port, first 403, then 200', async () => {
    const clock = new FakeClock();
    const api = await server({ clock });
    const version = api.slices.put(slice('s1', ['10.0.0.1']));
    const stream = await watch(api);
    await api.kill();
    await until('the reset', () => stream.error !== undefined);
    expect((stream.error as NodeJS.ErrnoException).code).toBe('ECONNRESET');
    await expect(get(api.url)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    api.slices.put(slice('s1', ['10.0.0.2']));
    await api.start();
    expect((await get(api.url)).status).toBe(403);
    clock.advance(20);
    expect((await get(api.url)).status).toBe(200);
    const resumed = await watch(api, `resourceVersion=${version}`);
    await until('what was missed', () => resumed.events.length === 1);
    expect(resumed.types).toBe('MODIFIED');
  });

  it('a restart that lost its history answers the last version with 410', async () => {
    const api = await server();
    const version = api.slices.put(slice('s1', ['10.0.0.1']));
    await api.restart({ history: 'lost', forbiddenMs: 0 });
    const stream = await watch(api, `resourceVersion=${version}`);
    await until('the end', () => stream.ended);
    expect(stream.types).toBe('ERROR');
  });

  it('terminate refuses connections while open watches deliver for a minute, then end well', async () => {
    const clock = new FakeClock();
    const api = await server({ clock });
    const stream = await watch(api);
    await api.terminate();
    await expect(get(api.url)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    api.slices.put(slice('s1', ['10.0.0.1']));
    await until('the event', () => stream.events.length === 1);
    clock.advance(60_000);
    await until('the end', () => stream.ended);
    expect(stream.error).toBeUndefined();
  });

  it('with the store away a cached list works, a consistent one hangs for a minute, watches from nothing fail', async () => {
    const clock = new FakeClock();
    const api = await server({ clock });
    api.slices.put(slice('s1', ['10.0.0.1']));
    api.setStoreAvailable(false);
    expect((await get(api.url, 'resourceVersion=0')).status).toBe(200);
    const stream = await watch(api);
    await until('the end', () => stream.ended);
    expect(stream.events[0]).toMatchObject({ type: 'ERROR', object: { code: 500 } });
    const silent = await watch(api, `resourceVersion=${api.revision}`);
    const consistent = get(api.url);
    await until('the list hangs', () => api.requests.at(-1)?.verb === 'list');
    clock.advance(60_000);
    expect((await consistent).status).toBe(504);
    expect(silent.ended).toBe(false);
    expect((await get(api.url, '', {}, '/livez')).status).toBe(200);
    expect((await get(api.url, '', {}, '/readyz')).status).toBe(500);
  });

  it('freeze drops everything, thaw delivers all of it at once', async () => {
    const api = await server();
    const stream = await watch(api);
    api.freeze();
    api.slices.put(slice('s1', ['10.0.0.1']));
    api.slices.put(slice('s2', ['10.0.0.1']));
    const list = get(api.url);
    await until('the list arrived', () => api.counts.openConnections === 2);
    expect(stream.events).toEqual([]);
    api.thaw();
    expect((await list).status).toBe(200);
    await until('both events', () => stream.events.length === 2);
  });

  it('close waits until every socket is gone', async () => {
    const api = await createApiServer();
    const stream = await watch(api);
    await api.close();
    await api.close();
    expect(api.counts.openConnections).toBe(0);
    expect(api.counts.openWatches).toBe(0);
    await until('the client noticed', () => stream.error !== undefined);
  });
});

describe('scripted faults', () => {
  it('a status, with Retry-After; 429 is plain text and no Status', async () => {
    const api = await server();
    api.failNext('list', { kind: 'status', status: 429, retryAfterSeconds: 2 });
    api.failNext('list', { kind: 'status', status: 503 });
    const busy = await get(api.url);
    expect([busy.status, busy.headers['retry-after'], busy.headers['content-type']]).toEqual([
      429,
      '2',
      'text/plain; charset=utf-8',
    ]);
    expect(busy.json).toBeUndefined();
    const away = await get(api.url);
    expect([away.status, away.json.kind]).toEqual([503, 'Status']);
    expect((await get(api.url)).status).toBe(200);
  });

  it('only the verb that was named, as often as was asked', async () => {
    const api = await server();
    api.failNext('watch', { kind: 'status', status: 500 }, { times: 2 });
    expect((await get(api.url)).status).toBe(200);
    expect((await get(api.url, 'watch=true')).status).toBe(500);
    expect((await get(api.url, 'watch=true')).status).toBe(500);
    (await watch(api)).close();
    api.failNext('any', { kind: 'reset' }, { times: Number.POSITIVE_INFINITY });
    await expect(get(api.url)).rejects.toMatchObject({ code: 'ECONNRESET' });
    api.clearFaults();
    expect((await get(api.url)).status).toBe(200);
  });

  it('only the requests that were meant', async () => {
    const api = await server();
    api.failNext('any', { kind: 'status', status: 418 }, { when: ({ query }) => query.limit === '7' });
    expect((await get(api.url)).status).toBe(200);
    expect((await get(api.url, 'limit=7')).status).toBe(418);
    expect((await get(api.url, 'limit=7')).status).toBe(200);
  });

  it('hang, silent, empty, truncated, garbage and error events', async () => {
    const api = await server();
    api.slices.put(slice('s1', ['10.0.0.1']));
    api.failNext('watch', { kind: 'hang' });
    let answered = false;
    const hanging = open(api.url, 'watch=true').then(
      () => {
        answered = true;
      },
      () => {},
    );
    await until('the request came', () => api.requests.length === 1);
    api.failNext('watch', { kind: 'silent' });
    const silent = await watch(api, 'timeoutSeconds=1');
    api.failNext('watch', { kind: 'empty' });
    const empty = await watch(api);
    await until('the end', () => empty.ended);
    api.failNext('watch', { kind: 'error-event', status: 500, reason: 'InternalError' });
    const failing = await watch(api);
    await until('the end', () => failing.ended);
    expect(failing.events).toMatchObject([{ type: 'ERROR', object: { code: 500, reason: 'InternalError' } }]);
    api.failNext('list', { kind: 'truncated', bytes: 20 });
    await expect(get(api.url)).rejects.toMatchObject({ code: 'ECONNRESET' });
    api.failNext('list', { kind: 'body', body: '<html>' });
    expect((await get(api.url)).bytes.toString()).toBe('<html>');
    expect(answered).toBe(false);
    expect(silent.chunks).toEqual([]);
    await api.close();
    await hanging;
  });

  it('disturbs open watches: cut, garbage, silence, reset, error, raw bytes', async () => {
    const api = await server();
    const cut = await watch(api);
    expect(api.disturb('cut')).toBe(1);
    await until('the end', () => cut.ended);
    expect(cut.text.endsWith('\n')).toBe(false);
    const second = await watch(api);
    api.disturb('garbage');
    api.disturb({ raw: 'half' });
    await until('both', () => second.text.endsWith('half'));
    api.disturb('reset');
    await until('the reset', () => second.error !== undefined);
    const third = await watch(api);
    api.disturb({ error: 410 });
    await until('the end', () => third.ended);
    expect(third.events).toMatchObject([{ type: 'ERROR', object: { code: 410 } }]);
    const fourth = await watch(api);
    api.disturb('silence');
    api.slices.put(slice('s1', ['10.0.0.1']));
    api.disturb('end');
    expect((await get(api.url)).status).toBe(200);
    expect([fourth.ended, fourth.chunks]).toEqual([false, []]);
  });

  it('mangles every line the way a test says', async () => {
    const api = await server();
    const stream = await watch(api);
    api.mangle((line) => ({ pieces: [line.subarray(0, 10), line.subarray(10)], after: 'end' }));
    api.slices.put(slice('s1', ['10.0.0.1']));
    await until('the end', () => stream.ended);
    expect(stream.chunks.map((chunk) => chunk.length)[0]).toBe(10);
    expect(stream.events).toHaveLength(1);
  });
});

describe('TLS', () => {
  it('makes a certificate that clients can verify', async () => {
    const api = await server({ tls: true });
    expect(api.url).toMatch(/^https:/);
    expect((await get(api.url, '', {}, undefined, api.ca)).status).toBe(200);
    await expect(get(api.url)).rejects.toMatchObject({ code: expect.stringMatching(/CERT|VERIFY|ISSUER/) });
  });
});

it('refuses options it does not know', async () => {
  await expect(createApiServer({ bookmarks: true } as never)).rejects.toMatchObject({ code: 'EVENKEEL_OPTION' });
});
