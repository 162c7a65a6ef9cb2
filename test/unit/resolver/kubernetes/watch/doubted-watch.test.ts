import { describe, expect, it } from 'vitest';
import type { Rng } from '../../../../../src/runtime/rng.js';
import { settle } from '../../../../../src/testing/fake-clock.js';
import { bookmark, status } from '../fake-api-client.js';
import { high, Loop, low } from '../loop.js';

const SILENCE_MS = 5_000;

/** A watch that is open, and for how long endpoints could not be connected to. */
async function opened(rng: Rng = low, streamingLists = false): Promise<Loop> {
  const loop = new Loop(rng, undefined, undefined, streamingLists);
  await settle();
  // A server that knows no streaming lists is asked for one once an hour.
  if (streamingLists) await loop.client.last.answer(400);
  await loop.begin(10);
  await loop.clock.advanceAsync(60_000);
  return loop;
}

describe('W10 a silent watch while connections to endpoints fail', () => {
  it('is given up for one list, and idle connections to the server with it', async () => {
    const loop = await opened();
    loop.listWatch.hurry(loop.clock.now() - SILENCE_MS);
    await loop.clock.advanceAsync(0);
    expect(loop.client.all[1]?.aborted).toBe(true);
    expect(loop.client.last).toMatchObject({ verb: 'list', version: '10' });
    expect(loop.client.drops).toBe(1);
    await loop.list(20, ['10.0.0.2']);
    expect(loop.client.last).toMatchObject({ verb: 'watch', version: '20' });
  });

  it('does so within 10 s, at a time of its own', async () => {
    const loop = await opened(high);
    loop.listWatch.hurry(loop.clock.now() - SILENCE_MS);
    await loop.clock.advanceAsync(9_990);
    expect(loop.client.last.verb).toBe('watch');
    await loop.clock.advanceAsync(10);
    expect(loop.client.last.verb).toBe('list');
  });

  it('does so within 2 s if no endpoint at all can be connected to, also if at first some could', async () => {
    const loop = await opened(high);
    loop.listWatch.hurry(loop.clock.now() - SILENCE_MS);
    loop.listWatch.hurry(loop.clock.now() - SILENCE_MS, true);
    await loop.clock.advanceAsync(1_990);
    expect(loop.client.last.verb).toBe('watch');
    await loop.clock.advanceAsync(10);
    expect(loop.client.last.verb).toBe('list');
  });

  it.each([false, true])(
    'is reported if the server is silent about the list, too, for 3 s, until it answers (streaming: %s)',
    async (streamingLists) => {
      const loop = await opened(low, streamingLists);
      loop.told.length = 0;
      loop.listWatch.hurry(loop.clock.now() - SILENCE_MS);
      await loop.clock.advanceAsync(2_999);
      expect(loop.told).toEqual([]);
      await loop.clock.advanceAsync(1);
      expect(loop.told).toEqual(['fail EVENKEEL_RESOLVE']);
      expect(loop.errors[0]?.message).toContain('no answer for 3 s');
      await loop.clock.advanceAsync(5_000);
      expect(loop.told).toHaveLength(1);
      await loop.list(20);
      expect(loop.told).toEqual(['fail EVENKEEL_RESOLVE', 'list s1', 'confirmed']);
      // The next list is one of many, and nothing is in doubt.
      await loop.openWatch();
      loop.client.last.event('ERROR', status(410, 'Expired'));
      await loop.clock.advanceAsync(10_000);
      expect(loop.client.last.verb).toBe('list');
      expect(loop.told).toHaveLength(3);
    },
  );

  it('is left alone if it says anything meanwhile', async () => {
    const loop = await opened(high);
    const watch = loop.client.last;
    loop.listWatch.hurry(loop.clock.now() - SILENCE_MS);
    await loop.clock.advanceAsync(3_000);
    watch.event('BOOKMARK', bookmark(10));
    await loop.clock.advanceAsync(20_000);
    expect(loop.requests).toBe('list 0, watch 10');
  });

  it('is left alone if it spoke within the last 5 s', async () => {
    const loop = await opened();
    loop.client.last.event('BOOKMARK', bookmark(10));
    loop.listWatch.hurry(loop.clock.now() - SILENCE_MS);
    await loop.clock.advanceAsync(20_000);
    expect(loop.requests).toBe('list 0, watch 10');
  });

  it('is left alone if a list was made since the connections began to fail', async () => {
    const loop = await opened();
    const sinceMs = loop.clock.now();
    await loop.clock.advanceAsync(SILENCE_MS);
    loop.listWatch.hurry(sinceMs);
    await loop.clock.advanceAsync(0);
    await loop.list(20);
    await loop.openWatch();
    for (let second = 0; second < 100; second++) {
      loop.listWatch.hurry(sinceMs);
      await loop.clock.advanceAsync(1_000);
    }
    expect(loop.requests).toBe('list 0, watch 10, list 10, watch 20');
  });

  it('is given up at most once a minute', async () => {
    const loop = await opened();
    loop.listWatch.hurry(loop.clock.now());
    await loop.clock.advanceAsync(0);
    for (let second = 0; second < 180; second++) {
      if (loop.client.last.verb === 'list') {
        await loop.list(20);
        await loop.openWatch();
      }
      await loop.clock.advanceAsync(1_000);
      loop.listWatch.hurry(loop.clock.now());
    }
    expect(loop.client.count('list')).toBe(1 + 1 + 3);
  });

  it('leaves no timer after close', async () => {
    const loop = await opened(high);
    loop.listWatch.hurry(loop.clock.now());
    loop.listWatch.close();
    expect(loop.clock.timers).toBe(0);
  });
});
