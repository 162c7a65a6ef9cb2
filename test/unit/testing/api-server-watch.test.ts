import { afterEach, describe, expect, it } from 'vitest';
import { FakeClock } from '../../../src/testing/fake-clock.js';
import { until } from '../../support/until.js';
import { get } from './api-server-client.js';
import { closeAll, ofOrders, server, slice, watch } from './api-server-fixture.js';

afterEach(closeAll);

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

  it('without a version: the current state as ADDED, then changes', async () => {
    const api = await server();
    api.slices.put(slice('s1', ['10.0.0.1']));
    api.slices.put(slice('s2', ['10.0.0.2']));
    const stream = await watch(api, ofOrders);
    await until('the state', () => stream.events.length === 2);
    api.slices.delete('s1', 'shop');
    await until('the change', () => stream.events.length === 3);
    expect(stream.types).toBe('ADDED ADDED DELETED');
  });

  it('sends a backlog in chunks of up to 2,048 bytes cut anywhere, and live events whole', async () => {
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

  it('from a version that is too old: 200 with one ERROR 410 event and a clean end', async () => {
    const api = await server();
    const version = api.slices.put(slice('s1', ['10.0.0.1']));
    api.compact();
    const stream = await watch(api, `resourceVersion=${version}`);
    await until('the end', () => stream.ended);
    expect(stream.response.statusCode).toBe(200);
    expect(stream.events[0]).toMatchObject({ type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired' } });
  });

  it('remembers a limited number of writes', async () => {
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

  it('from a future version: silence, also for changes below it', async () => {
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

  it('streaming list: refused where it does not exist; for a future version an error after 3 s', async () => {
    const old = await server({ streamingLists: false });
    const query = 'watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true';
    const { status, json } = await get(old.url, query);
    expect(status).toBe(422);
    expect(json.message).toContain('sendInitialEvents is forbidden');
    const clock = new FakeClock();
    const api = await server({ clock });
    const early = await watch(api, `${query.slice('watch=true&'.length)}&resourceVersion=99999`);
    clock.advance(3_000);
    await until('the error', () => early.events.length === 1);
    expect(early.text).toContain('ResourceVersionTooLarge');
  });

  it('after a restore from a backup: the open watch gets nothing, a list has the old state and version', async () => {
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
