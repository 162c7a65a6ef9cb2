import { afterEach, describe, expect, it } from 'vitest';
import { FakeClock } from '../../../src/testing/fake-clock.js';
import { createApiServer } from '../../servers/index.js';
import { until } from '../../support/until.js';
import { get, open } from './api-server-client.js';
import { closeAll, server, slice, watch } from './api-server-fixture.js';

afterEach(closeAll);

describe('outages', () => {
  it('kill resets watches and refuses connections; start uses the same port, first with 403, then 200', async () => {
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

  it('a restart without its history answers the last version with 410', async () => {
    const api = await server();
    const version = api.slices.put(slice('s1', ['10.0.0.1']));
    await api.restart({ history: 'lost', forbiddenMs: 0 });
    const stream = await watch(api, `resourceVersion=${version}`);
    await until('the end', () => stream.ended);
    expect(stream.types).toBe('ERROR');
  });

  it('terminate refuses connections while open watches deliver for a minute, then end cleanly', async () => {
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

  it('with the store away a cached list works, a consistent one hangs for a minute, and watches without a version fail', async () => {
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

  it('with the store away bookmarks have the version of the moment it went', async () => {
    const clock = new FakeClock();
    const api = await server({ clock });
    api.slices.put(slice('s1', ['10.0.0.1']));
    const before = api.revision;
    const stream = await watch(api, `resourceVersion=${before}&allowWatchBookmarks=true&timeoutSeconds=600`);
    api.setStoreAvailable(false);
    api.touch();
    clock.advance(60_000);
    await until('a bookmark', () => stream.events.length === 1);
    expect(stream.events[0]?.object.metadata.resourceVersion).toBe(String(before));
    api.setStoreAvailable(true);
    clock.advance(60_000);
    await until('another', () => stream.events.length === 2);
    expect(stream.events[1]?.object.metadata.resourceVersion).toBe(String(before + 1));
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
  it('a status, with Retry-After; 429 is plain text without a Status', async () => {
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

  it('only for the given verb, as often as configured', async () => {
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

  it('only for the chosen requests', async () => {
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

  it('on open watches: cut, garbage, silence, reset, error, raw bytes', async () => {
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

  it("on every line, as a test's function changes it", async () => {
    const api = await server();
    const stream = await watch(api);
    api.mangle((line) => ({ pieces: [line.subarray(0, 10), line.subarray(10)], after: 'end' }));
    api.slices.put(slice('s1', ['10.0.0.1']));
    await until('the end', () => stream.ended);
    expect(stream.chunks.map((chunk) => chunk.length)[0]).toBe(10);
    expect(stream.events).toHaveLength(1);
  });
});
