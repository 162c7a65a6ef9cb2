import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, it } from 'vitest';
import { backoffDelay } from '../../../src/runtime/backoff.js';
import { inBackground, systemClock } from '../../../src/runtime/clock.js';
import { deadline } from '../../../src/runtime/deadline.js';
import { StallWatch } from '../../../src/runtime/stall-watch.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';

describe('the real clock', () => {
  it('never goes back', () => {
    let last = systemClock.now();
    for (let look = 0; look < 1_000; look++) {
      const now = systemClock.now();
      expect(now).toBeGreaterThanOrEqual(last);
      last = now;
    }
  });

  it('defers to the end of the turn, before I/O', async () => {
    const order: string[] = [];
    setImmediate(() => order.push('next turn'));
    systemClock.defer(() => order.push('deferred'));
    order.push('now');
    await new Promise((resolve) => setImmediate(resolve));
    expect(order).toEqual(['now', 'deferred', 'next turn']);
  });

  it('fires, unless cancelled; a delay longer than timers allow is long, not zero', async () => {
    const fired: string[] = [];
    systemClock.timer(() => fired.push('cancelled'), 0).cancel();
    const far = systemClock.timer(() => fired.push('far'), Number.POSITIVE_INFINITY);
    await new Promise<void>((resolve) => {
      const timer = systemClock.timer(() => {
        fired.push('fired');
        resolve();
      }, -5);
      timer.ref();
    });
    far.cancel();
    expect(fired).toEqual(['fired']);
  });

  it('leaves the async context of its caller: a timer retains no request', async () => {
    const request = new AsyncLocalStorage<string>();
    const seen: (string | undefined)[] = [];
    await request.run('a request', async () => {
      await new Promise<void>((resolve) => {
        systemClock
          .timer(() => {
            seen.push(request.getStore());
            resolve();
          }, 0)
          .ref();
      });
      await new Promise<void>((resolve) => {
        systemClock.defer(() => {
          seen.push(request.getStore());
          resolve();
        });
      });
      seen.push(inBackground(() => request.getStore()));
      seen.push(request.getStore());
    });
    expect(seen).toEqual([undefined, undefined, undefined, 'a request']);
  });
});

describe('the fake clock', () => {
  it('fires timers in order, each at its moment, including those set meanwhile', async () => {
    const clock = new FakeClock(0);
    const fired: string[] = [];
    const note = (what: string) => (): number => fired.push(`${what} ${clock.now()}`);
    clock.timer(note('b'), 20);
    clock.timer(() => {
      note('a')();
      clock.timer(note('a2'), 5);
    }, 10);
    clock.timer(note('b2'), 20);
    clock.timer(note('never'), 15).cancel();
    await clock.advanceAsync(20);
    expect(fired).toEqual(['a 10', 'a2 15', 'b 20', 'b2 20']);
    expect(clock.timers).toBe(0);
  });

  it('fires all that fell due during a stall late, and at its end', async () => {
    const clock = new FakeClock(0);
    const fired: string[] = [];
    for (const at of [10, 20, 2_000]) clock.timer(() => fired.push(`${at} at ${clock.now()}`), at);
    await clock.stall(1_000);
    expect(fired).toEqual(['10 at 1000', '20 at 1000']);
    expect(clock.now()).toBe(1_000);
  });

  it('cancels the right one of many', () => {
    const clock = new FakeClock(0);
    const fired: number[] = [];
    const timers = Array.from({ length: 1_000 }, (_, i) => clock.timer(() => fired.push(i), i % 7));
    for (const [i, timer] of timers.entries()) if (i % 3 !== 0) timer.cancel();
    for (const timer of timers) if (timers.indexOf(timer) % 3 !== 0) timer.cancel();
    clock.advance(10);
    expect(fired).toHaveLength(334);
    expect(fired.every((i) => i % 3 === 0)).toBe(true);
  });

  it('counts what would keep a process alive', () => {
    const clock = new FakeClock();
    const timer = clock.timer(() => {}, 5);
    expect(clock.referencedTimers).toBe(0);
    timer.ref();
    expect(clock.referencedTimers).toBe(1);
    timer.cancel();
    expect([clock.timers, clock.referencedTimers]).toEqual([0, 0]);
  });
});

describe('a deadline', () => {
  it('comes when it is due', () => {
    const clock = new FakeClock(0);
    let due = 0;
    deadline(clock, () => due++, 100);
    clock.advance(99);
    expect(due).toBe(0);
    clock.advance(1);
    expect([due, clock.timers]).toEqual([1, 0]);
  });

  it('waits a moment after a stall, and keeps the process alive only if it was asked to', async () => {
    const clock = new FakeClock(0);
    let due = 0;
    const timer = deadline(clock, () => due++, 100);
    timer.ref();
    await clock.stall(1_000);
    expect([due, clock.timers, clock.referencedTimers]).toEqual([0, 1, 1]);
    await clock.advanceAsync(250);
    expect(due).toBe(1);
  });

  it('waits again while the event loop keeps being blocked, but not without end', async () => {
    const clock = new FakeClock(0);
    let due = 0;
    let ownDue = 0;
    deadline(clock, () => due++, 100);
    deadline(clock, () => ownDue++, 100, 1);
    for (let stall = 0; stall < 20; stall++) await clock.stall(1_000);
    expect([due, ownDue]).toEqual([0, 1]);
    for (let stall = 0; stall < 30; stall++) await clock.stall(1_000);
    expect([due, clock.timers]).toEqual([1, 0]);
  });

  it('can be cancelled at any time, also in that moment', async () => {
    const clock = new FakeClock(0);
    let due = 0;
    const first = deadline(clock, () => due++, 100);
    const second = deadline(clock, () => due++, 100);
    first.cancel();
    await clock.stall(1_000);
    second.cancel();
    second.cancel();
    await clock.advanceAsync(1_000);
    expect([due, clock.timers]).toEqual([0, 0]);
  });
});

describe('stall detection', () => {
  it('knows how long the event loop was blocked, at its end and afterwards', async () => {
    const clock = new FakeClock(0);
    const stalls = new StallWatch(clock);
    stalls.began();
    await clock.advanceAsync(1_000);
    expect(stalls.stalledSince(0, clock.now())).toBe(0);
    let atOnce = 0;
    clock.timer(() => {
      atOnce = stalls.stalledSince(500, clock.now());
    }, 1);
    await clock.stall(3_000);
    // It cannot tell when after its last look the stall began: up to 250 ms more.
    expect(atOnce).toBeGreaterThanOrEqual(3_000);
    expect(atOnce).toBeLessThanOrEqual(3_250);
    expect(stalls.stalledSince(500, clock.now())).toBe(atOnce);
    expect(stalls.stalledSince(clock.now(), clock.now())).toBe(0);
  });

  it('ignores a short delay', async () => {
    const clock = new FakeClock(0);
    const stalls = new StallWatch(clock);
    stalls.began();
    await clock.stall(340);
    expect(stalls.stalledSince(0, clock.now())).toBe(0);
  });

  it('has no timer while no call runs', async () => {
    const clock = new FakeClock(0);
    const stalls = new StallWatch(clock);
    expect(clock.timers).toBe(0);
    stalls.began();
    stalls.ended();
    await clock.advanceAsync(250);
    expect(clock.timers).toBe(0);
    stalls.began();
    expect(clock.timers).toBe(1);
    expect(clock.referencedTimers).toBe(0);
    stalls.close();
    expect(clock.timers).toBe(0);
  });
});

describe('backoff', () => {
  const options = { initialMs: 200, factor: 1.6, maxMs: 3_000, jitterRatio: 0.2 };

  it('grows to its maximum and stays within its jitter, for any number of failures', () => {
    const rng = seededRng(1);
    for (let attempt = 1; attempt <= 10_000; attempt += attempt < 20 ? 1 : 997) {
      const mean = Math.min(3_000, 200 * 1.6 ** (attempt - 1));
      for (let draw = 0; draw < 50; draw++) {
        const delay = backoffDelay(options, attempt, rng);
        expect(delay).toBeGreaterThanOrEqual(mean * 0.8);
        expect(delay).toBeLessThanOrEqual(mean * 1.2);
      }
    }
  });
});
