import { describe, expect, it } from 'vitest';
import { settle } from '../../../../../src/testing/fake-clock.js';
import { seededRng } from '../../../../../src/testing/seeded-rng.js';
import { bookmark, type PendingGet, status, wireList, wireSlice } from '../fake-api-client.js';
import { high, Loop, low } from '../loop.js';

describe('W1 versions of lists', () => {
  it('the first list asks for version 0, and the watch continues from the list', async () => {
    const loop = new Loop();
    await loop.begin(10);
    expect(loop.requests).toBe('list 0, watch 10');
    expect(loop.client.all[0]?.request.path).toBe('/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices');
    expect(loop.client.all[0]?.request.query.labelSelector).toBe('kubernetes.io/service-name=orders');
    expect(loop.told).toEqual(['list s1', 'confirmed']);
  });

  it('a later list asks for at least the last version seen, without a limit (W2)', async () => {
    const loop = new Loop();
    const watch = await loop.begin(10);
    watch.event('MODIFIED', wireSlice('s1', 20, ['10.0.0.2']));
    watch.event('ERROR', status(422));
    await settle();
    await loop.nextPause();
    expect(loop.requests).toBe('list 0, watch 10, list 20');
    expect(loop.client.last.request.query.limit).toBeUndefined();
  });

  it('410 for a list: a consistent read at once, then normal lists again', async () => {
    const loop = new Loop();
    const watch = await loop.begin(10);
    watch.event('ERROR', status(400));
    await settle();
    await loop.nextPause();
    await loop.client.last.answer(410, status(410, 'Expired'));
    expect(loop.requests).toBe('list 0, watch 10, list 10, list ');
    await loop.list(50);
    expect(loop.requests).toBe('list 0, watch 10, list 10, list , watch 50');
    (await loop.openWatch()).event('ERROR', status(400));
    await settle();
    await loop.nextPause();
    expect(loop.client.last.version).toBe('50');
  });

  it('504 ResourceVersionTooLarge for a list: a consistent read at once', async () => {
    const loop = new Loop();
    const watch = await loop.begin(10);
    watch.event('ERROR', status(400));
    await settle();
    await loop.nextPause();
    await loop.client.last.answer(504, status(504, 'Timeout', [{ reason: 'ResourceVersionTooLarge' }]), 1_000);
    expect(loop.requests).toBe('list 0, watch 10, list 10, list ');
  });
});

describe('W2 pages', () => {
  it('replaces the set only when all pages are in', async () => {
    const loop = new Loop();
    await settle();
    await loop.client.last.answer(200, wireList(10, [wireSlice('s1', 1, [])], 'token-1'));
    expect(loop.told).toEqual([]);
    expect(loop.client.last.request.query).toMatchObject({ continue: 'token-1', resourceVersion: '', limit: '500' });
    await loop.client.last.answer(200, wireList(10, [wireSlice('s2', 2, [])]));
    expect(loop.told).toEqual(['list s1 s2', 'confirmed']);
  });

  it('case 46: 410 on a continue token: one full list without a limit, nothing changes before', async () => {
    const loop = new Loop();
    await settle();
    await loop.client.last.answer(200, wireList(10, [wireSlice('s1', 1, [])], 'token-1'));
    await loop.client.last.answer(410, status(410, 'Expired'));
    expect(loop.told).toEqual([]);
    expect(loop.client.last.request.query.limit).toBeUndefined();
    expect(loop.client.last.request.query.continue).toBeUndefined();
    await loop.list(20);
    expect(loop.told).toEqual(['list s1', 'confirmed']);
    expect(loop.client.count('list')).toBe(3);
  });
});

describe('W4 the end of a watch', () => {
  it('asks for bookmarks and a timeout of 300 to 600 s', async () => {
    for (const [rng, seconds] of [
      [low, '300'],
      [high, '600'],
    ] as const) {
      const loop = new Loop(rng);
      const watch = await loop.begin();
      expect(watch.request.query).toMatchObject({ allowWatchBookmarks: 'true', timeoutSeconds: seconds });
      loop.listWatch.close();
    }
  });

  it('a clean end after the timeout: watches again at once from the last version, without a list or a report', async () => {
    const loop = new Loop(high);
    const watch = await loop.begin(10);
    watch.event('MODIFIED', wireSlice('s1', 20, ['10.0.0.2']));
    await loop.clock.advanceAsync(400_000);
    const before = [...loop.told];
    await watch.end();
    expect(loop.requests).toBe('list 0, watch 10, watch 20');
    expect(loop.told).toEqual(before);
  });
});

describe('W5 versions of events', () => {
  it('ADDED, MODIFIED, DELETED and BOOKMARK advance the version after they are applied', async () => {
    const loop = new Loop();
    let watch = await loop.begin(10);
    const resumeAfter = async (type: string, object: object): Promise<string | undefined> => {
      watch.event(type, object);
      await loop.clock.advanceAsync(2_000);
      await watch.end();
      const { version } = loop.client.last;
      watch = await loop.openWatch();
      return version;
    };
    expect(await resumeAfter('ADDED', wireSlice('s2', 11, ['10.0.0.2']))).toBe('11');
    expect(await resumeAfter('MODIFIED', wireSlice('s2', 12, ['10.0.0.3']))).toBe('12');
    expect(await resumeAfter('DELETED', wireSlice('s2', 13, ['10.0.0.3']))).toBe('13');
    expect(await resumeAfter('BOOKMARK', bookmark(99))).toBe('99');
    expect(loop.told.filter((line) => line !== 'confirmed')).toEqual(['list s1', 's2=10.0.0.2', 's2=10.0.0.3', '-s2']);
  });

  it('a slice whose label no longer matches is gone, also if the event is MODIFIED (S1)', async () => {
    const loop = new Loop();
    const watch = await loop.begin(10);
    watch.event('MODIFIED', wireSlice('s1', 11, ['10.0.0.1'], 'carts'));
    expect(loop.told).toContain('-s1');
  });
});

describe('W17 a periodic list', () => {
  it('within 30 minutes a clean end is followed by a list from the last version', async () => {
    for (const rng of [low, high, seededRng(5)]) {
      const loop = new Loop(rng);
      let watch = await loop.begin(10);
      const startMs = loop.clock.now();
      for (let watches = 0; loop.client.count('list') === 1 && watches < 10; watches++) {
        await loop.clock.advanceAsync(Number(watch.request.query.timeoutSeconds) * 1_000);
        await watch.end();
        if (loop.client.last.verb === 'watch') watch = await loop.openWatch();
      }
      expect([loop.client.last.verb, loop.client.last.version]).toEqual(['list', '10']);
      expect(loop.clock.now() - startMs).toBeLessThanOrEqual(30 * 60_000);
      expect(loop.clock.now() - startMs).toBeGreaterThanOrEqual(10 * 60_000);
      loop.listWatch.close();
    }
  });
});

describe('W17 a list takes the place of a watch that is never open', () => {
  /** Has every watch answered by `answer` for 25 minutes, and then looks whether there was a list. */
  it.each<[string, (watch: PendingGet) => Promise<void>]>([
    ['refused with 429', (watch) => watch.answer(429, status(429, 'TooManyRequests'), 60_000)],
    ['refused with 503', (watch) => watch.answer(503, status(503))],
    ['not connected', (watch) => watch.fail('ECONNREFUSED')],
    ['refused with 401', (watch) => watch.answer(401, status(401, 'Unauthorized'))],
    ['silent', async () => {}],
  ])('%s for 25 minutes', async (_what, answer) => {
    const loop = new Loop();
    await settle();
    await loop.list(10);
    const endMs = loop.clock.now() + 1_500_000;
    while (loop.client.last.verb === 'watch' && loop.clock.now() < endMs) {
      await answer(loop.client.last);
      await loop.nextPause();
    }
    expect(loop.client.last).toMatchObject({ verb: 'list', version: '10' });
  });

  it('short watches that each bring an event', async () => {
    const loop = new Loop();
    let watch = await loop.begin(10);
    for (let version = 11; loop.clock.now() < 1_500_000; version++) {
      watch.event('MODIFIED', wireSlice('s1', version, ['10.0.0.1']));
      await watch.end();
      if (loop.client.last === watch) await loop.nextPause();
      if (loop.client.last.verb === 'list') break;
      watch = await loop.openWatch();
      await loop.clock.advanceAsync(900);
    }
    expect(loop.client.count('list')).toBe(2);
  });
});

describe('being up to date', () => {
  it('is reported at the first line of a stream, or when one has been open for a second, never at its headers', async () => {
    const loop = new Loop(low);
    const watch = await loop.begin(10);
    await loop.clock.advanceAsync(60_000);
    await watch.fail('ECONNRESET');
    await loop.client.last.fail('ECONNREFUSED');
    await loop.nextPause();
    expect(loop.told.at(-1)).toBe('fail EVENKEEL_RESOLVE');
    await loop.openWatch();
    await loop.clock.advanceAsync(999);
    expect(loop.told.at(-1)).toBe('fail EVENKEEL_RESOLVE');
    await loop.clock.advanceAsync(1);
    expect(loop.told.at(-1)).toBe('confirmed');
  });
});

describe('W13 close', () => {
  it('aborts the request, leaves no timer and publishes nothing more', async () => {
    for (const stage of ['list', 'headers', 'stream', 'pause'] as const) {
      const loop = new Loop();
      await settle();
      if (stage === 'pause') await loop.client.last.fail('ECONNREFUSED');
      if (stage === 'headers' || stage === 'stream') await loop.list(10);
      if (stage === 'stream') await loop.openWatch();
      const { length } = loop.told;
      loop.listWatch.close();
      await settle();
      if (stage !== 'pause') expect(loop.client.last.aborted).toBe(true);
      expect(loop.clock.timers).toBe(0);
      const requests = loop.client.all.length;
      await loop.clock.advanceAsync(3_600_000);
      expect(loop.client.all.length).toBe(requests);
      expect(loop.told.length).toBe(length);
    }
  });
});
