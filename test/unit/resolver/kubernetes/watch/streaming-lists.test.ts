import { describe, expect, it } from 'vitest';
import { FakeClock, settle } from '../../../../../src/testing/fake-clock.js';
import { seededRng } from '../../../../../src/testing/seeded-rng.js';
import { bookmark, type PendingGet, status, wireSlice } from '../fake-api-client.js';
import { Loop, low } from '../loop.js';

const streaming = (rng = seededRng(1)): Loop => new Loop(rng, async () => 'shop', new FakeClock(), true);

function endMark(version: number): object {
  const annotations = { 'k8s.io/initial-events-end': 'true' };
  return { ...bookmark(version), metadata: { resourceVersion: String(version), annotations } };
}

async function open(loop: Loop): Promise<PendingGet> {
  await settle();
  const watch = loop.client.last;
  expect(watch.request.query).toMatchObject({
    watch: 'true',
    sendInitialEvents: 'true',
    resourceVersionMatch: 'NotOlderThan',
    allowWatchBookmarks: 'true',
  });
  await watch.open();
  return watch;
}

describe('W11 streaming lists', () => {
  it('a streaming list is one request: the set is published once it is complete, and changes follow', async () => {
    const loop = streaming();
    const watch = await open(loop);
    watch.event('ADDED', wireSlice('s2', 7, ['10.0.0.2']));
    watch.event('ADDED', wireSlice('s1', 5, ['10.0.0.1']));
    watch.event('BOOKMARK', bookmark(9));
    await loop.clock.advanceAsync(1_500);
    expect(loop.told).toEqual([]);
    watch.event('BOOKMARK', endMark(10));
    expect(loop.told).toEqual(['list s2 s1', 'confirmed']);
    watch.event('MODIFIED', wireSlice('s1', 11, ['10.0.0.9']));
    await watch.end();
    expect(loop.told).toEqual(['list s2 s1', 'confirmed', 's1=10.0.0.9', 'confirmed']);
    expect(loop.requests).toBe('watch 0, watch 11');
    expect(loop.client.last.request.query.sendInitialEvents).toBeUndefined();
  });

  it('a Service without slices is complete as well', async () => {
    const loop = streaming();
    (await open(loop)).event('BOOKMARK', endMark(10));
    expect(loop.told).toEqual(['list', 'confirmed']);
  });

  it('an object deleted or changed before the end mark is so in the initial set', async () => {
    const loop = streaming();
    const watch = await open(loop);
    watch.event('ADDED', wireSlice('s1', 5, ['10.0.0.1']));
    watch.event('ADDED', wireSlice('s2', 6, ['10.0.0.2']));
    watch.event('DELETED', wireSlice('s1', 7, ['10.0.0.1']));
    watch.event('BOOKMARK', endMark(10));
    expect(loop.told[0]).toBe('list s2');
  });

  it('a slice of another Service is not in the initial set', async () => {
    const loop = streaming();
    const watch = await open(loop);
    watch.event('ADDED', wireSlice('s1', 5, ['10.0.0.1'], 'payments'));
    watch.event('BOOKMARK', endMark(10));
    expect(loop.told[0]).toBe('list');
  });

  for (const [what, answer] of [
    ['refused as by a server that does not have it', (get: PendingGet) => get.answer(422, status(422, 'Invalid'))],
    ['refused as by a server that does not know it', (get: PendingGet) => get.answer(400, status(400))],
    ['forbidden', (get: PendingGet) => get.answer(403, status(403))],
    ['an error of the server', (get: PendingGet) => get.answer(500, status(500))],
    ['no connection', (get: PendingGet) => get.fail('ECONNRESET')],
    [
      'cut off in the middle',
      async (get: PendingGet) => {
        await get.open();
        get.event('ADDED', wireSlice('s1', 5, ['10.0.0.1']));
        await get.fail('ECONNRESET');
      },
    ],
    [
      'ended without a mark',
      async (get: PendingGet) => {
        await get.open();
        get.event('ADDED', wireSlice('s1', 5, ['10.0.0.1']));
        await get.end();
      },
    ],
    [
      'an ERROR event',
      async (get: PendingGet) => {
        await get.open();
        get.event('ERROR', status(504, 'Timeout'));
        await settle();
      },
    ],
    [
      'no JSON',
      async (get: PendingGet) => {
        await get.open();
        get.write('<html>\n');
        await settle();
      },
    ],
  ] as const) {
    it(`${what}: a list at once, and no report`, async () => {
      const loop = streaming();
      await settle();
      await answer(loop.client.last);
      expect(loop.requests).toBe('watch 0, list 0');
      await loop.list(10);
      expect(loop.told).toEqual(['list s1', 'confirmed']);
      expect(loop.requests).toBe('watch 0, list 0, watch 10');
      expect(loop.client.last.request.query.sendInitialEvents).toBeUndefined();
    });
  }

  it('a server without the end mark: a list after 5 s of silence', async () => {
    const loop = streaming();
    const watch = await open(loop);
    watch.event('ADDED', wireSlice('s1', 5, ['10.0.0.1']));
    await loop.clock.advanceAsync(4_900);
    watch.event('ADDED', wireSlice('s2', 6, ['10.0.0.2']));
    await loop.clock.advanceAsync(4_900);
    expect(loop.client.count('list')).toBe(0);
    await loop.clock.advanceAsync(200);
    expect(watch.aborted).toBe(true);
    await loop.list(10);
    expect(loop.told).toContain('list s1');
  });

  it('a stream that sends events without ever completing: a list after a minute', async () => {
    const loop = streaming();
    const watch = await open(loop);
    for (let second = 0; second < 61; second++) {
      if (!watch.aborted) watch.event('ADDED', wireSlice(`s${second}`, second, []));
      await loop.clock.advanceAsync(1_000);
    }
    expect(loop.requests).toBe('watch 0, list 0');
  });

  it('a server that asks to wait: that is done, then a list', async () => {
    const loop = streaming(low);
    await settle();
    await loop.client.last.answer(429, 'Too many requests', 4_000);
    expect(loop.told).toEqual(['fail EVENKEEL_RESOLVE']);
    expect(await loop.nextPause()).toBeGreaterThanOrEqual(4_000);
    expect(loop.requests).toBe('watch 0, list 0');
  });

  it('the periodic list (W17) is a streaming list too, from the last version', async () => {
    const loop = streaming();
    let watch = await open(loop);
    watch.event('BOOKMARK', endMark(10));
    for (let minute = 0; minute < 25; minute++) {
      await loop.clock.advanceAsync(60_000);
      if (loop.client.last !== watch) break;
      watch.event('BOOKMARK', bookmark(11 + minute));
      // The server ends it after four minutes.
      if (minute % 4 === 3) {
        await watch.end();
        watch = loop.client.last;
        if (watch.request.query.sendInitialEvents === 'true') break;
        await watch.open();
      }
    }
    expect(watch.request.query).toMatchObject({ sendInitialEvents: 'true' });
    expect(Number(watch.version)).toBeGreaterThan(10);
    expect(loop.client.count('list')).toBe(0);
    await watch.fail('ECONNRESET');
    expect(loop.client.last.verb).toBe('list');
  });

  it('silence after the mark ends the stream only after three minutes (W10)', async () => {
    const loop = streaming();
    const watch = await open(loop);
    watch.event('BOOKMARK', endMark(10));
    await loop.clock.advanceAsync(170_000);
    expect(watch.aborted).toBe(false);
    await loop.clock.advanceAsync(11_000);
    expect(watch.aborted).toBe(true);
    expect(loop.requests).toBe('watch 0, watch 10');
    expect(loop.told).toEqual(['list', 'confirmed']);
  });

  it('no response for 3 s: callers get an error', async () => {
    const loop = streaming();
    await settle();
    await loop.clock.advanceAsync(3_100);
    expect(loop.told).toEqual(['fail EVENKEEL_RESOLVE']);
  });
});
