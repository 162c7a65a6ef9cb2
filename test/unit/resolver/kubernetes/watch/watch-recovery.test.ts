import { describe, expect, it } from 'vitest';
import { ResolveError } from '../../../../../src/errors.js';
import { settle } from '../../../../../src/testing/fake-clock.js';
import { seededRng } from '../../../../../src/testing/seeded-rng.js';
import { bookmark, status, wireSlice } from '../fake-api-client.js';
import { high, Loop, low } from '../loop.js';

describe('W8 ERROR events', () => {
  it('410: exactly one consistent list, at once', async () => {
    for (const object of [status(410, 'Expired'), status(410, 'Gone'), status(0, 'Expired')]) {
      const loop = new Loop();
      const watch = await loop.begin(10);
      watch.event('ERROR', object);
      await settle();
      expect(loop.requests).toBe('list 0, watch 10, list ');
      await loop.list(30);
      expect(loop.requests).toBe('list 0, watch 10, list , watch 30');
      loop.listWatch.close();
    }
  });

  it('410 after every list: no hot loop', async () => {
    const loop = new Loop(low);
    const watch = await loop.begin(10);
    watch.event('ERROR', status(410, 'Expired'));
    await settle();
    await loop.list(30);
    (await loop.openWatch()).event('ERROR', status(410, 'Expired'));
    await settle();
    expect(loop.client.count('list')).toBe(2);
    expect(await loop.nextPause()).toBe(800);
    expect(loop.client.count('list')).toBe(3);
  });

  it('410 has its own pauses: the time for which the server was away does not count', async () => {
    const loop = new Loop(low);
    const watch = await loop.begin(10);
    await watch.end();
    for (let failure = 0; failure < 8; failure++) {
      await loop.client.last.fail('ECONNREFUSED');
      await loop.nextPause();
    }
    for (const pauseMs of [undefined, 800, 1_600]) {
      (await loop.openWatch()).event('ERROR', status(410, 'Expired'));
      await settle();
      if (pauseMs !== undefined) expect(await loop.nextPause()).toBe(pauseMs);
      await loop.list(30);
    }
    // A watch that lasts ends the row.
    await loop.openWatch();
    await loop.clock.advanceAsync(1_000);
    await loop.client.last.end();
    (await loop.openWatch()).event('ERROR', status(410, 'Expired'));
    await settle();
    expect(loop.client.last.verb).toBe('list');
    await loop.list(30);
    (await loop.openWatch()).event('ERROR', status(410, 'Expired'));
    await settle();
    expect(await loop.nextPause()).toBe(800);
  });

  it('429: backs off at least as long as asked, then watches from the same version', async () => {
    const loop = new Loop(low);
    const watch = await loop.begin(10);
    watch.event('ERROR', { ...status(429), details: { retryAfterSeconds: 7 } });
    await settle();
    expect(await loop.nextPause()).toBe(7_000);
    expect(loop.requests).toBe('list 0, watch 10, watch 10');
  });

  it('500: watches again; lists only if it continues for more than a minute', async () => {
    const loop = new Loop(low);
    let watch = await loop.begin(10);
    const startMs = loop.clock.now();
    while (loop.clock.now() - startMs <= 60_000) {
      expect(loop.client.count('list')).toBe(1);
      watch.event('ERROR', status(500, 'InternalError'));
      await settle();
      await loop.nextPause();
      watch = loop.client.last;
      if (watch.verb === 'watch') await watch.open();
    }
    if (watch.verb === 'watch') {
      watch.event('ERROR', status(500, 'InternalError'));
      await settle();
      await loop.nextPause();
    }
    expect(loop.client.count('list')).toBe(2);
  });

  it('other errors: backs off and lists', async () => {
    const loop = new Loop(low);
    const watch = await loop.begin(10);
    watch.event('ERROR', status(504, 'Timeout'));
    await settle();
    expect(await loop.nextPause()).toBe(800);
    expect(loop.requests).toBe('list 0, watch 10, list 10');
  });
});

describe('W9 watches that end at once', () => {
  it('count as failures: backs off, and lists after every second in a row', async () => {
    const loop = new Loop(low);
    await loop.begin(10);
    const pauses: number[] = [];
    for (let round = 0; round < 5; round++) {
      await loop.client.last.open();
      await loop.client.last.end();
      pauses.push(await loop.nextPause());
      if (loop.client.last.verb === 'list') await loop.list(10);
    }
    expect(pauses).toEqual([800, 1_600, 3_200, 6_400, 12_800]);
    expect(loop.requests).toBe('list 0, watch 10, watch 10, list 10, watch 10, watch 10, list 10, watch 10, watch 10');
    expect(loop.told.filter((line) => line.startsWith('fail'))).toEqual(Array(3).fill('fail EVENKEEL_RESOLVE'));
  });

  it('a version that the server ends every watch of is left behind within two watches', async () => {
    const loop = new Loop(low);
    const first = await loop.begin(10);
    await loop.clock.advanceAsync(2_000);
    await first.end();
    for (let round = 0; round < 2; round++) {
      await loop.client.last.open();
      await loop.client.last.end();
      await loop.nextPause();
    }
    await loop.list(2_000, ['10.0.0.2']);
    expect(loop.client.last).toMatchObject({ verb: 'watch', version: '2000' });
  });

  it('a line that cannot be used, again and again at one version, is followed by a list', async () => {
    const loop = new Loop(low);
    let watch = await loop.begin(10);
    for (let round = 0; round < 2; round++) {
      await loop.clock.advanceAsync(1_500);
      watch.write('{"type":"MODIFIED"}\n');
      await settle();
      if (round === 0) watch = await loop.openWatch();
    }
    expect(loop.requests).toBe('list 0, watch 10, watch 10, list 10');
  });

  it('a bookmark with no new version does not make a stream useful', async () => {
    const loop = new Loop(low);
    const watch = await loop.begin(10);
    watch.event('BOOKMARK', bookmark(10));
    await watch.end();
    expect(loop.client.count('watch')).toBe(1);
    expect(await loop.nextPause()).toBe(800);
  });

  it('streams that bring one event each and end are followed at once three times, then after a pause', async () => {
    const loop = new Loop(low);
    let watch = await loop.begin(10);
    for (let round = 1; round <= 3; round++) {
      watch.event('MODIFIED', wireSlice('s1', 10 + round, ['10.0.0.1']));
      await watch.end();
      expect(loop.client.count('watch')).toBe(round + 1);
      watch = await loop.openWatch();
    }
    watch.event('MODIFIED', wireSlice('s1', 20, ['10.0.0.1']));
    await watch.end();
    expect(loop.client.count('watch')).toBe(4);
    expect(await loop.nextPause()).toBe(200);
  });
});

describe('W12 backoff', () => {
  it('800 ms doubling to 30 s, each plus up to as much again', async () => {
    for (const [rng, factor] of [
      [low, 1],
      [high, 2],
    ] as const) {
      const loop = new Loop(rng);
      await settle();
      const pauses: number[] = [];
      for (let round = 0; round < 8; round++) {
        await loop.client.last.fail('ECONNREFUSED');
        pauses.push(Math.round(await loop.nextPause()));
      }
      expect(pauses).toEqual([800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000].map((ms) => ms * factor));
      loop.listWatch.close();
    }
  });

  it('starts with short pauses again after 2 minutes without one', async () => {
    const loop = new Loop(low);
    await settle();
    await loop.client.last.fail('ECONNREFUSED');
    await loop.nextPause();
    await loop.client.last.fail('ECONNREFUSED');
    await loop.nextPause();
    const watch = await loop.begin(10);
    await loop.clock.advanceAsync(120_001);
    await watch.fail('ECONNRESET');
    await loop.client.last.fail('ECONNREFUSED');
    expect(await loop.nextPause()).toBe(800);
  });

  it('Retry-After is a lower bound, up to 10 minutes', async () => {
    const absurd = new Loop(low);
    await settle();
    await absurd.client.last.answer(503, { details: { retryAfterSeconds: 999_999 } });
    expect(await absurd.nextPause()).toBe(600_000);
    const loop = new Loop(low);
    await settle();
    await loop.client.last.answer(503, 'busy', 20_000);
    expect(await loop.nextPause()).toBe(20_000);
  });
});

describe('shortened pauses when connections to endpoints fail, since the set may be outdated', () => {
  /** A loop in a pause after so many refused connections. */
  async function refused(times: number, rng = low): Promise<Loop> {
    const loop = new Loop(rng);
    const watch = await loop.begin(10);
    await loop.clock.advanceAsync(2_000);
    await watch.end();
    for (let failure = 1; failure < times; failure++) {
      await loop.client.last.fail('ECONNREFUSED');
      await loop.nextPause();
    }
    await loop.client.last.fail('ECONNREFUSED');
    return loop;
  }

  it('a long pause ends within 4 s of its start, or at once', async () => {
    const loop = await refused(8);
    loop.listWatch.hurry();
    expect(await loop.nextPause()).toBe(4_000);
    await loop.client.last.fail('ECONNREFUSED');
    await loop.clock.advanceAsync(20_000);
    loop.listWatch.hurry();
    expect(await loop.nextPause()).toBe(0);
  });

  it('no pause ends sooner than a second after the first failure, and none gets longer', async () => {
    for (const [failures, pauseMs] of [
      [1, 800],
      [2, 1_600],
      [3, 3_200],
    ] as const) {
      const loop = await refused(failures);
      for (let dial = 0; dial < 100; dial++) loop.listWatch.hurry();
      expect(await loop.nextPause()).toBe(pauseMs);
    }
  });

  it('many failed connections cause no more requests than a few', async () => {
    const loop = await refused(8, seededRng(3));
    const before = loop.client.all.length;
    for (let ms = 0; ms < 60_000; ms += 10) {
      loop.listWatch.hurry();
      await loop.clock.advanceAsync(10);
      if (loop.client.last !== loop.client.all.at(before - 1)) await loop.client.last.fail('ECONNREFUSED');
    }
    expect(loop.client.all.length - before).toBeLessThanOrEqual(15);
  });

  it('500 clients that lose a node at once do not send at once, and send at most 125 requests a second', async () => {
    const atMs: number[] = [];
    for (let client = 0; client < 500; client++) {
      const loop = await refused(8, seededRng(client + 1));
      await loop.clock.advanceAsync(15_000);
      const hurriedMs = loop.clock.now();
      let asked = loop.client.all.length;
      for (let ms = 0; ms < 10_000; ms += 50) {
        loop.listWatch.hurry();
        await loop.clock.advanceAsync(50);
        if (loop.client.all.length === asked) continue;
        asked = loop.client.all.length;
        atMs.push(loop.clock.now() - hurriedMs);
        await loop.client.last.fail('ECONNREFUSED');
      }
      loop.listWatch.close();
    }
    const perTenth = Array.from({ length: 100 }, (_, tenth) => atMs.filter((ms) => Math.ceil(ms / 100) === tenth + 1));
    expect(Math.max(...perTenth.map(({ length }) => length))).toBeLessThan(100);
    expect(atMs.filter((ms) => ms > 1_000).length / 9).toBeLessThanOrEqual(125);
  });

  it.each([
    ['429 with a time to wait', 429, 7_000, 7_000],
    ['503 with a time to wait', 503, 7_000, 7_000],
    ['500 with a time to wait', 500, 7_000, 7_000],
    ['404', 404, undefined, 30_000],
  ])('%s is respected', async (_what, code, retryAfterMs, pauseMs) => {
    const loop = new Loop(low);
    const watch = await loop.begin(10);
    await loop.clock.advanceAsync(2_000);
    await watch.end();
    await loop.client.last.answer(code, status(code), retryAfterMs);
    await loop.clock.advanceAsync(0);
    loop.listWatch.hurry();
    expect(await loop.nextPause()).toBe(pauseMs);
  });

  it('nothing happens while a request runs, before the first one, and after close', async () => {
    const loop = new Loop(low);
    loop.listWatch.hurry();
    await loop.begin(10);
    loop.listWatch.hurry();
    expect(loop.requests).toBe('list 0, watch 10');
    loop.listWatch.close();
    loop.listWatch.hurry();
    expect(loop.clock.timers).toBe(0);
    const paused = await refused(8);
    paused.listWatch.close();
    paused.listWatch.hurry();
    expect(paused.clock.timers).toBe(0);
  });
});

describe('the table of results', () => {
  it('403 to the first list: reported at once, as final only after two more within 2 s, then tried every 30 to 60 s', async () => {
    const loop = new Loop();
    await settle();
    const startMs = loop.clock.now();
    await loop.client.last.answer(403, status(403, 'Forbidden'));
    expect(loop.errors).toMatchObject([{ code: 'EVENKEEL_FORBIDDEN', permanent: false }]);
    await loop.nextPause();
    await loop.client.last.answer(403, status(403, 'Forbidden'));
    await loop.nextPause();
    expect(loop.clock.now() - startMs).toBeLessThanOrEqual(2_000);
    expect(loop.errors).toHaveLength(1);
    for (let round = 0; round < 3; round++) {
      await loop.client.last.answer(403, status(403, 'Forbidden'));
      const pauseMs = await loop.nextPause();
      expect(pauseMs).toBeGreaterThanOrEqual(30_000);
      expect(pauseMs).toBeLessThanOrEqual(60_000);
    }
    expect(loop.errors).toHaveLength(2);
    expect(loop.errors[1]).toMatchObject({ code: 'EVENKEEL_FORBIDDEN', permanent: true });
    expect(loop.errors[1]?.message).toContain('list endpointslices.discovery.k8s.io in the namespace shop');
    // Whoever tells of a failure once must not take the second for another.
    expect(loop.errors[1]?.message).toBe(loop.errors[0]?.message);
    await loop.list(10);
    expect(loop.told.at(-1)).toBe('confirmed');
  });

  it('403 for 20 ms to the first list of a process: up to date a moment later', async () => {
    const loop = new Loop();
    await settle();
    await loop.client.last.answer(403, status(403, 'Forbidden'));
    expect(await loop.nextPause()).toBeLessThanOrEqual(300);
    await loop.list(10);
    expect(loop.errors).toMatchObject([{ permanent: false }]);
    expect(loop.told.at(-1)).toBe('confirmed');
  });

  it('403 for 20 ms after a restart: no report, no list', async () => {
    const loop = new Loop();
    const watch = await loop.begin(10);
    await loop.clock.advanceAsync(60_000);
    await watch.fail('ECONNRESET');
    await loop.client.last.answer(403, status(403, 'Forbidden'));
    await loop.nextPause();
    await loop.openWatch();
    expect(loop.errors).toEqual([]);
    expect(loop.requests).toBe('list 0, watch 10, watch 10, watch 10');
  });

  it('403 after every one of many restarts: each counts as a first one', async () => {
    const loop = new Loop();
    let watch = await loop.begin(10);
    for (let restart = 0; restart < 5; restart++) {
      await loop.clock.advanceAsync(60_000);
      await watch.fail('ECONNRESET');
      await loop.client.last.answer(403, status(403, 'Forbidden'));
      await loop.nextPause();
      watch = await loop.openWatch();
    }
    expect(loop.errors).toEqual([]);
    expect(loop.client.count('list')).toBe(1);
  });

  it('403 on the watch alone: reported once, then listed every 30 to 60 s instead', async () => {
    const loop = new Loop();
    await settle();
    await loop.list(10);
    for (let round = 0; round < 3; round++) {
      await loop.client.last.answer(403, status(403, 'Forbidden'));
      await loop.nextPause();
    }
    for (let round = 0; round < 3; round++) {
      await loop.list(20 + round, [`10.0.0.${round}`]);
      await loop.client.last.answer(403, status(403, 'Forbidden'));
      expect(await loop.nextPause()).toBeGreaterThanOrEqual(30_000);
      expect(loop.client.last.verb).toBe('list');
    }
    expect(loop.errors).toHaveLength(1);
    expect(loop.errors[0]?.message).toContain('watch endpointslices');
  });

  it('403, an outage, and 403 again: each reported', async () => {
    const loop = new Loop();
    await settle();
    await loop.list(10);
    const refused = async (): Promise<void> => {
      for (let round = 0; round < 3; round++) {
        await loop.client.last.answer(403, status(403, 'Forbidden'));
        await loop.nextPause();
      }
    };
    const away = async (): Promise<void> => {
      await loop.client.last.fail('ECONNREFUSED');
      await loop.nextPause();
    };
    await refused();
    await away();
    await away();
    await refused();
    await loop.client.last.answer(403, status(403, 'Forbidden'));
    await loop.nextPause();
    await away();
    expect(loop.errors.map(({ permanent }) => permanent)).toEqual([true, false, true, false]);
  });

  it('404: reported as permanent, tried again slowly', async () => {
    const loop = new Loop();
    await settle();
    await loop.client.last.answer(404, '404 page not found');
    expect(loop.errors[0]).toMatchObject({ code: 'EVENKEEL_RESOLVE', permanent: true });
    expect(await loop.nextPause()).toBeGreaterThanOrEqual(30_000);
  });

  it('429 and 503 on a watch: the same version, no list', async () => {
    const loop = new Loop(low);
    const watch = await loop.begin(10);
    await loop.clock.advanceAsync(60_000);
    await watch.end();
    await loop.client.last.answer(429, 'Too many requests', 2_000);
    expect(await loop.nextPause()).toBe(2_000);
    await loop.client.last.answer(503, status(503), undefined);
    expect(await loop.nextPause()).toBe(1_600);
    expect(loop.requests).toBe('list 0, watch 10, watch 10, watch 10, watch 10');
  });

  it('ECONNREFUSED on a watch: the same version, no list', async () => {
    const loop = new Loop(low);
    const watch = await loop.begin(10);
    await loop.clock.advanceAsync(60_000);
    await watch.fail('ECONNRESET');
    await loop.client.last.fail('ECONNREFUSED');
    expect(await loop.nextPause()).toBe(800);
    expect(loop.requests).toBe('list 0, watch 10, watch 10, watch 10');
  });

  it('ECONNRESET during a watch: resumed at once, without a report', async () => {
    const loop = new Loop();
    const watch = await loop.begin(10);
    await loop.clock.advanceAsync(60_000);
    const before = loop.told.length;
    await watch.fail('ECONNRESET');
    expect(loop.requests).toBe('list 0, watch 10, watch 10');
    expect(loop.told.length).toBe(before);
  });

  it('each kind of failure is reported once, until up to date again', async () => {
    const loop = new Loop();
    await settle();
    for (const code of ['ECONNREFUSED', 'ECONNREFUSED', 'ENOTFOUND', 'CERT_HAS_EXPIRED', 'ECONNREFUSED']) {
      await loop.client.last.fail(code);
      await loop.nextPause();
    }
    expect(loop.errors.map((error) => error.message.replace(/.*scripted /, ''))).toEqual([
      'ECONNREFUSED',
      'ENOTFOUND',
      'CERT_HAS_EXPIRED',
    ]);
    await loop.list(10);
    await loop.client.last.fail('ECONNREFUSED');
    expect(loop.errors).toHaveLength(4);
  });

  it('a list that is cut short or invalid: failed, the last set stays', async () => {
    const loop = new Loop();
    await loop.begin(10);
    const before = loop.told.filter((line) => line.startsWith('list')).length;
    for (const body of [
      '{"kind":"EndpointSliceList","met',
      '[]',
      '{}',
      '{"metadata":{"resourceVersion":"9"},"items":{}}',
      'null',
    ]) {
      const again = new Loop();
      await settle();
      await again.client.last.answer(200, body);
      expect(again.errors).toHaveLength(1);
      expect(again.told.some((line) => line.startsWith('list'))).toBe(false);
      again.listWatch.close();
    }
    expect(loop.told.filter((line) => line.startsWith('list')).length).toBe(before);
  });

  it('items: null is an empty list', async () => {
    const loop = new Loop();
    await settle();
    await loop.client.last.answer(200, { metadata: { resourceVersion: '10' }, items: null });
    expect(loop.told).toEqual(['list', 'confirmed']);
  });

  it('a namespace that cannot be determined: reported, and tried again', async () => {
    let known = false;
    const loop = new Loop(low, async () => {
      if (!known) throw new ResolveError('no namespace', { permanent: true });
      return 'shop';
    });
    await settle();
    expect(loop.errors).toMatchObject([{ message: 'no namespace', permanent: true }]);
    known = true;
    expect(await loop.nextPause()).toBe(30_000);
    await loop.list(10);
  });
});
