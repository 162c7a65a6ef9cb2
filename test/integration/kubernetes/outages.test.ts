import { outcomes } from 'evenkeel';
import { FakeClock } from 'evenkeel/testing';
import { describe, expect, it } from 'vitest';
import type { ApiServer } from '../../servers/index.js';
import { sliceObject } from '../../support/fixtures/endpoint-cases.js';
import { until } from '../../support/until.js';
import { cleanUpAfterEach, openApi, WatchedService, WatchingBalancer } from './harness.js';

cleanUpAfterEach();

const A = '10.0.0.1:80';
const AB = '10.0.0.1:80 10.0.0.2:80';
const ABC = '10.0.0.1:80 10.0.0.2:80 10.0.0.3:80';

function put(api: ApiServer, members: string, name = 's1'): void {
  api.slices.put(sliceObject(name, members));
}

/** An API server with two pods, and a resolver that is in step with it. */
async function inStep(members = 'aR bR'): Promise<{ api: ApiServer; service: WatchedService }> {
  const api = await openApi();
  put(api, members);
  const service = new WatchedService(api, { port: 'http' });
  await service.sees(AB);
  await service.watching(1);
  // Long enough open to count as a watch (W9).
  await service.elapse(60_000);
  return { api, service };
}

const seen = (service: WatchedService, addresses: string) => (): boolean => service.addresses === addresses;

describe('what an outage costs', () => {
  it('a restart of 2 s that kept its history: up to date within 4 s, without a list', async () => {
    for (let round = 0; round < 3; round++) {
      const { api, service } = await inStep();
      const downAtMs = service.clock.now();
      await api.kill();
      put(api, 'aR bR cR');
      await service.pass('2 s down', () => service.clock.now() - downAtMs >= 2_000, 50);
      await api.start({ history: 'kept', forbiddenMs: 0 });
      const upAtMs = service.clock.now();
      await service.pass('in step again', seen(service, ABC), 50);
      expect(service.clock.now() - upAtMs).toBeLessThanOrEqual(4_000);
      expect(api.counts.lists).toBe(1);
      await api.close();
    }
  });

  it('the 403 just after a restart is not taken for a lack of permission', async () => {
    const { api, service } = await inStep();
    await api.restart({ history: 'kept', forbiddenMs: 20 });
    put(api, 'aR bR cR');
    await service.pass('in step again', seen(service, ABC), 50);
    expect(api.requests.some((request) => request.status === 403)).toBe(true);
    expect(service.listener.errors.map(({ code }) => code)).not.toContain('EVENKEEL_FORBIDDEN');
    expect(api.counts.lists).toBe(1);
  });

  it('a restart that lost its history: exactly one list', async () => {
    const { api, service } = await inStep();
    await api.kill();
    put(api, 'aR bR cR');
    await api.start({ history: 'lost', forbiddenMs: 0 });
    await service.pass('in step again', seen(service, ABC), 50);
    await until('the watch is open again', () => api.counts.openWatches === 1);
    expect(api.counts.lists).toBe(2);
  });

  it('three restarts 10 s apart that lost their history, while calls fail: up to date 10 s after each at the latest', async () => {
    const { api, service } = await inStep();
    const slow: string[] = [];
    for (const [restart, members] of ['aR', 'aR bR cR', 'aR bR'].entries()) {
      const restartedMs = service.clock.now();
      await api.kill();
      put(api, members);
      const failingCalls = (): boolean => {
        service.resolution.refresh();
        return false;
      };
      await service.pass('5 s down', () => failingCalls() || service.clock.now() - restartedMs >= 5_000, 50);
      await api.start({ history: 'lost', forbiddenMs: 0 });
      const upMs = service.clock.now();
      const set = [A, ABC, AB][restart] as string;
      await service.pass('in step again', () => failingCalls() || service.addresses === set, 50);
      const tookMs = service.clock.now() - upMs;
      if (tookMs > 10_000) slow.push(`restart ${restart + 1}: ${tookMs} ms`);
      await service.pass('10 s', () => service.clock.now() - restartedMs >= 10_000, 50);
    }
    expect(slow).toEqual([]);
  });

  it('case 42: a pod deleted while the watch was lost is gone after the list that 410 calls for', async () => {
    const { api, service } = await inStep();
    api.disturb('end');
    api.failNext('watch', { kind: 'reset' });
    put(api, 'aR');
    api.compact();
    await service.pass('b is gone', seen(service, A));
    expect(api.counts.lists).toBe(2);
  });

  it('410 on a watch, on a list and on a continue token: one more list each', async () => {
    const api = await openApi({ pagesFromCache: true });
    // More slices than one page holds.
    put(api, 'aR bR');
    for (let index = 0; index < 500; index++) put(api, '', `t${index}`);
    api.failNext(
      'list',
      { kind: 'status', status: 410, reason: 'Expired' },
      { when: ({ query }) => query.continue !== undefined },
    );
    const service = new WatchedService(api, { port: 'http' });
    await service.sees(AB);
    expect(
      api.requests
        .filter(({ verb }) => verb === 'list')
        .map(({ query }) => [query.limit, query.continue !== undefined]),
    ).toEqual([
      ['500', false],
      ['500', true],
      [undefined, false],
    ]);
    await service.watching(1);
    await service.elapse(60_000);
    const before = api.counts.lists;
    // On the watch, and on the list it calls for: a consistent read has pages as well.
    api.disturb({ error: 410 });
    await service.watching(2);
    const lists = api.requests.filter(({ verb }) => verb === 'list').slice(before);
    expect(lists.map(({ query }) => query.resourceVersion)).toEqual(['', '']);
    expect(lists.map(({ query }) => query.continue !== undefined)).toEqual([false, true]);
  });

  it('60 s of 429 on the watch: no list, and the watch resumes where it was', async () => {
    const { api, service } = await inStep();
    const version = String(api.revision);
    api.failNext('watch', { kind: 'status', status: 429, retryAfterSeconds: 1 }, { times: Number.POSITIVE_INFINITY });
    api.disturb('end');
    await service.pass('60 s', () => false, 200, 60_000).catch(() => {});
    put(api, 'aR bR cR');
    api.clearFaults();
    await service.pass('in step again', seen(service, ABC), 200);
    expect(api.counts.lists).toBe(1);
    const watches = api.requests.filter(({ verb }) => verb === 'watch');
    expect(watches.filter(({ status }) => status === 429).length).toBeGreaterThan(3);
    expect(new Set(watches.slice(1).map(({ query }) => query.resourceVersion))).toEqual(new Set([version]));
  });

  it('a silent watch is replaced: after 3 minutes if bookmarks were seen', async () => {
    const { api, service } = await inStep();
    const { watches } = api.counts;
    api.disturb('bookmark');
    await until('the bookmark arrived', () => api.counts.openWatches === 1);
    await new Promise((resolve) => setImmediate(resolve));
    api.disturb('silence');
    put(api, 'aR bR cR');
    const tookMs = await service.pass('replaced', seen(service, ABC), 1_000, 700_000);
    expect(tookMs).toBeLessThanOrEqual(630_000);
    expect(api.counts.watches).toBeGreaterThan(watches);
    expect(api.counts.lists).toBe(1);
  });

  it('a watch without a response is replaced after 30 s', async () => {
    const { api, service } = await inStep();
    api.failNext('watch', { kind: 'hang' });
    api.disturb('end');
    await until('the watch hangs', () => api.counts.watches === 2);
    put(api, 'aR bR cR');
    const tookMs = await service.pass('replaced', seen(service, ABC), 500);
    expect(tookMs).toBeGreaterThanOrEqual(30_000 - 500);
    expect(tookMs).toBeLessThanOrEqual(33_000);
    expect(api.counts.lists).toBe(1);
  });

  it('packets dropped for 45 s: the same watch delivers what was missed, without a request', async () => {
    const { api, service } = await inStep();
    const { watches } = api.counts;
    api.freeze();
    put(api, 'aR bR cR');
    await service.clock.advanceAsync(45_000);
    expect(service.addresses).toBe(AB);
    api.thaw();
    await service.pass('in step again', seen(service, ABC));
    expect([api.counts.lists, api.counts.watches]).toEqual([1, watches]);
  });

  it('SIGTERM: the open watch keeps delivering; when it ends, it resumes at the new server without a list', async () => {
    const { api, service } = await inStep();
    await api.terminate(500);
    put(api, 'aR');
    await service.pass('what the old server still sent', seen(service, A));
    await until('the old server is gone', () => api.counts.openWatches === 0);
    await api.start({ forbiddenMs: 0 });
    put(api, 'aR bR cR');
    await service.pass('in step again', seen(service, ABC));
    expect(api.counts.lists).toBe(1);
  });

  it('the store is away: the set stays, and events arrive again when it is back', async () => {
    const { api, service } = await inStep();
    api.setStoreAvailable(false);
    await service.clock.advanceAsync(150_000);
    expect(service.addresses).toBe(AB);
    api.setStoreAvailable(true);
    put(api, 'aR bR cR');
    await service.pass('in step again', seen(service, ABC));
    expect(service.listener.errors).toEqual([]);
  });

  it('W17: a store restored from a backup is noticed within 30 minutes', async () => {
    const api = await openApi({ bookmarkIntervalMs: 3_600_000 });
    put(api, 'aR');
    const backup = api.backup();
    put(api, 'aR bR');
    const service = new WatchedService(api, { port: 'http' });
    await service.sees(AB);
    await service.watching(1);
    api.restore(backup);
    const startMs = service.clock.now();
    // The server's own clock is real: its ends are brought about by hand whenever they would be due.
    let openMs = startMs;
    let asked = api.counts.watches;
    await service.pass(
      'the old state is back',
      () => {
        if (api.counts.watches !== asked) {
          asked = api.counts.watches;
          openMs = service.clock.now();
        } else if (api.counts.openWatches > 0 && service.clock.now() - openMs >= 600_000) {
          openMs = service.clock.now();
          api.disturb('end');
        }
        // The list that notices waits 3 s at the server, in real time.
        return service.addresses === A || service.clock.now() - startMs > 1_800_000 || api.counts.lists > 1;
      },
      10_000,
      2_000_000,
    );
    expect(service.clock.now() - startMs).toBeLessThanOrEqual(30 * 60_000);
    await service.pass('the old state is back', seen(service, A), 10);
    expect(
      api.requests.filter(({ verb }) => verb === 'list').map(({ status, query }) => [status, query.resourceVersion]),
    ).toEqual([
      [200, '0'],
      [504, expect.stringMatching(/^\d+$/)],
      [200, ''],
    ]);
  });

  it('case 43: an API server away for an hour: the last set stays, stale, and is up to date within 60 s and one list of its return', async () => {
    const api = await openApi();
    put(api, 'aR bR');
    const watching = new WatchingBalancer(api);
    await watching.balancer.ready();
    await until('the watch is open', () => api.counts.openWatches === 1);
    await watching.clock.advanceAsync(60_000);
    await api.kill();
    await until('the loss was noticed', async () => {
      await watching.clock.advanceAsync(1_000);
      return watching.balancer.snapshot().staleForMs > 0;
    });
    for (let minute = 0; minute < 60; minute++) {
      await watching.clock.advanceAsync(60_000);
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    expect(watching.set).toBe('10.0.0.1:80 10.0.0.2:80');
    expect(watching.balancer.snapshot().staleForMs).toBeGreaterThanOrEqual(3_590_000);
    const lease = watching.balancer.pick();
    expect(lease?.endpoint.address).toMatch(/^10\.0\.0\.[12]$/);
    lease?.end(outcomes.success);
    expect(watching.resolveFailures.length).toBeLessThanOrEqual(2);
    put(api, 'aR bR cR');
    await api.start({ history: 'lost' });
    const startMs = watching.clock.now();
    await until('in step again', async () => {
      await watching.clock.advanceAsync(500);
      await new Promise((resolve) => setImmediate(resolve));
      return watching.set.includes('10.0.0.3');
    });
    expect(watching.clock.now() - startMs).toBeLessThanOrEqual(62_000);
    expect(watching.balancer.snapshot().staleForMs).toBe(0);
  });
});

describe('W7 invalid streams from an API server', () => {
  it('case 44: a line cut in the middle, then the end: set unchanged, resumed at the last applied version', async () => {
    const { api, service } = await inStep();
    const version = String(api.revision);
    api.disturb('cut');
    await service.watching(2);
    expect(api.requests.at(-1)?.query.resourceVersion).toBe(version);
    expect(service.addresses).toBe(AB);
    put(api, 'aR');
    await service.pass('the next event', seen(service, A));
  });

  it('case 45: a garbage line, then a valid event: the stream is dropped, the event arrives after resuming', async () => {
    const { api, service } = await inStep();
    api.disturb('garbage');
    put(api, 'aR');
    await service.pass('the event', seen(service, A));
    expect(api.counts.watches).toBe(2);
    expect(api.counts.lists).toBe(1);
    expect(service.warnings).toHaveLength(1);
  });

  it('case 46: page 2 of a list fails with 410: set unchanged until the full list succeeds', async () => {
    const api = await openApi();
    put(api, 'aR bR');
    for (let index = 0; index < 500; index++) put(api, '', `t${index}`);
    const service = new WatchedService(api, { port: 'http' });
    await service.sees(AB);
    await service.watching(1);
    await service.elapse(60_000);
    const paged = { when: ({ query }: { query: Readonly<Record<string, string>> }) => query.continue !== undefined };
    api.failNext('list', { kind: 'status', status: 410, reason: 'Expired' }, paged);
    api.failNext('list', { kind: 'hang' }, { when: ({ query }) => query.limit === undefined });
    api.compact();
    put(api, 'aR');
    api.disturb({ error: 410 });
    await until('the full list hangs', () => api.counts.lists === 4);
    expect(service.listener.events).toHaveLength(1);
    await service.pass('the full list succeeds after all', seen(service, A), 500);
  });

  it('case 47: a list after a reconnect is empty: so is the set', async () => {
    const { api, service } = await inStep();
    api.services.put({
      metadata: { name: 'orders', namespace: 'shop' },
      spec: { ports: [{ name: 'http', port: 80 }] },
    });
    api.slices.delete('s1', 'shop');
    api.disturb({ error: 410 });
    await service.pass('the empty set', seen(service, ''));
    expect(service.listener.errors).toEqual([]);
  });

  it('a list that is cut short, compressed or not, is a failed list', async () => {
    const api = await openApi();
    for (let index = 0; index < 40; index++) {
      api.slices.put({
        ...sliceObject(`s${index}`, ''),
        endpoints: Array.from({ length: 100 }, (_, host) => ({ addresses: [`10.1.${index}.${host + 1}`] })),
      });
    }
    api.failNext('list', { kind: 'truncated', bytes: 3_000 }, { times: 2 });
    const service = new WatchedService(api, { port: 'http' });
    await service.pass('the whole list', () => service.listener.endpoints?.length === 4_000);
    expect(api.counts.lists).toBe(3);
    expect(service.listener.errors.length).toBeGreaterThanOrEqual(1);
    expect(api.requests[0]?.headers['accept-encoding']).toBe('gzip');
  });
});

describe('W13 one watch for all', () => {
  it('several resolvers of one Service share a watch; the last one to close ends it', async () => {
    const api = await openApi();
    put(api, 'aR bR');
    const clock = new FakeClock();
    const first = new WatchedService(api, { port: 'http' }, clock);
    await first.sees(AB);
    const second = new WatchedService(api, { podPort: 9 }, clock);
    const other = new WatchedService(api, { port: 'http', service: 'carts' }, clock);
    await second.sees('10.0.0.1:9 10.0.0.2:9');
    await other.sees('');
    await until('two watches', () => api.counts.openWatches === 2);
    expect(api.counts.lists).toBe(2);
    first.resolution.close();
    put(api, 'aR');
    await second.pass('the change', () => second.addresses === '10.0.0.1:9');
    second.resolution.close();
    second.resolution.close();
    other.resolution.close();
    await until('every connection is gone', () => api.counts.openConnections === 0);
    expect(clock.timers).toBe(0);
    expect(first.addresses).toBe(AB);
  });

  it('another clock or other credentials are another watch', async () => {
    const api = await openApi({ tokens: { one: 'all', two: 'all' } });
    put(api, 'aR bR');
    const clock = new FakeClock();
    const services = [
      new WatchedService(api, { port: 'http', credentials: { token: 'one' } }, clock),
      new WatchedService(api, { port: 'http', credentials: { token: 'one' } }, clock),
      new WatchedService(api, { port: 'http', credentials: { token: 'two' } }, clock),
      new WatchedService(api, { port: 'http', credentials: { token: 'two' } }, new FakeClock()),
    ];
    for (const service of services) await service.sees(AB);
    await until('three watches', () => api.counts.openWatches === 3);
    expect(api.counts.lists).toBe(3);
  });

  it('close during any step leaves nothing open', async () => {
    const api = await openApi();
    put(api, 'aR bR');
    for (const stage of ['at once', 'list', 'watch', 'pause'] as const) {
      if (stage === 'list') api.failNext('list', { kind: 'hang' });
      if (stage === 'watch') api.failNext('watch', { kind: 'hang' });
      if (stage === 'pause') api.failNext('list', { kind: 'status', status: 503 });
      const { requests } = api;
      const before = requests.length;
      const service = new WatchedService(api, { port: 'http' });
      if (stage !== 'at once') await until('the request came', () => requests.length > before);
      if (stage === 'watch') await until('the watch came', () => requests.at(-1)?.verb === 'watch');
      if (stage === 'pause') await until('the failure was told', () => service.listener.errors.length > 0);
      const { length } = service.listener.events;
      service.resolution.close();
      await until('every connection is gone', () => api.counts.openConnections === 0);
      expect([service.clock.timers, service.listener.events.length]).toEqual([0, length]);
      api.clearFaults();
    }
  });
});
