import { describe, expect, it } from 'vitest';
import { ValueWatch } from '../../../src/credentials/value-watch.js';
import { FakeClock, settle } from '../../../src/testing/fake-clock.js';
import { stateOf } from '../../support/fixtures/balancer-fixture.js';

function watch(ask: () => string | Promise<string>, refreshMs = 60_000) {
  const clock = new FakeClock();
  const watched = new ValueWatch({
    clock,
    rng: { next: () => 0.5 },
    refreshMs,
    read: ask,
    isSame: (before, now) => before === now,
  });
  return { clock, watched, isOutdated: async () => (await stateOf(watched.outdated)) !== 'pending' };
}

describe('a function whose value a connection was opened with', () => {
  for (const how of ['sync', 'async'] as const) {
    it(`is called again from time to time: another value makes the connection outdated, once (${how})`, async () => {
      let answer = 'first';
      let asked = 0;
      const { clock, watched, isOutdated } = watch(() => {
        asked++;
        return how === 'sync' ? answer : Promise.resolve(answer);
      });
      expect(await watched.read()).toBe('first');
      await clock.advanceAsync(180_000);
      expect(asked).toBe(4);
      expect(await isOutdated()).toBe(false);
      answer = 'second';
      await clock.advanceAsync(60_000);
      expect(await isOutdated()).toBe(true);
      expect(clock.timers).toBe(0);
    });
  }

  it('makes the connection outdated when it returns another value for another connection', async () => {
    let answer = 'first';
    const { clock, watched, isOutdated } = watch(() => answer);
    void watched.read();
    await clock.advanceAsync(61_000);
    answer = 'second';
    void watched.read();
    expect(await isOutdated()).toBe(true);
  });

  it('makes the connection outdated when it has changed the object that it always returns', async () => {
    const value = { cert: 'first' };
    const watched = new ValueWatch({
      clock: new FakeClock(),
      rng: { next: () => 0.5 },
      refreshMs: 0,
      read: () => value,
      isSame: (before, now) => before.cert === now.cert,
    });
    void watched.read();
    value.cert = 'second';
    void watched.read();
    expect(await stateOf(watched.outdated)).not.toBe('pending');
  });

  it('that returns another value each time makes it outdated no sooner than after the interval', async () => {
    let asked = 0;
    const { clock, watched, isOutdated } = watch(() => String(asked++));
    void watched.read();
    void watched.read();
    await clock.advanceAsync(59_999);
    expect(await isOutdated()).toBe(false);
    await clock.advanceAsync(1);
    expect(await isOutdated()).toBe(true);
    expect(clock.timers).toBe(0);
  });

  it('may fail for a while, or not answer at all', async () => {
    let answer: () => string | Promise<string> = () => 'first';
    const { clock, watched, isOutdated } = watch(() => answer());
    void watched.read();
    answer = () => {
      throw new Error('no token');
    };
    await clock.advanceAsync(60_000);
    expect(() => watched.read()).toThrow('no token');
    answer = () => Promise.reject(new Error('no token'));
    await clock.advanceAsync(60_000);
    await expect(watched.read()).rejects.toThrow('no token');
    answer = () => new Promise(() => {});
    await clock.advanceAsync(60_000);
    expect(await isOutdated()).toBe(false);
    answer = () => 'second';
    await clock.advanceAsync(60_000);
    expect(await isOutdated()).toBe(true);
  });

  it('is not called any more when the connection is closed', async () => {
    let late: ((answer: string) => void) | undefined;
    let asked = 0;
    const { clock, watched, isOutdated } = watch(() => {
      asked++;
      return asked === 1
        ? 'first'
        : new Promise((resolve) => {
            late = resolve;
          });
    });
    void watched.read();
    await clock.advanceAsync(60_000);
    watched.close();
    late?.('second');
    await settle();
    await clock.advanceAsync(600_000);
    expect([asked, clock.timers, await isOutdated()]).toEqual([2, 0, false]);
  });
});
