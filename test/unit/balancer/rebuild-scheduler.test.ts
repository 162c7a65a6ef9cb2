import { describe, expect, it } from 'vitest';
import { type RebuildKind, RebuildScheduler } from '../../../src/balancer/rebuild-scheduler.js';
import { FakeClock, settle } from '../../../src/testing/fake-clock.js';

class Work {
  readonly clock = new FakeClock();
  readonly done: RebuildKind[] = [];
  /** What a picker costs, in ms of the clock. */
  costMs = 0;
  urgent = false;
  readonly scheduler: RebuildScheduler = new RebuildScheduler({
    clock: this.clock,
    work: (what) => {
      this.done.push(what);
      return this.costMs;
    },
    firstWaitMs: () => (this.urgent ? 0 : undefined),
  });
}

describe('rebuilding the picker', () => {
  it('happens once at the end of the turn, however often it was requested', async () => {
    const work = new Work();
    for (let i = 0; i < 100; i++) work.scheduler.request('picker');
    expect(work.done).toEqual([]);
    await settle();
    expect(work.done).toEqual(['picker']);
    work.scheduler.request('picker');
    work.scheduler.request('stages');
    work.scheduler.request('picker');
    await settle();
    expect(work.done).toEqual(['picker', 'stages']);
  });

  it('does not block the event loop when each rebuild requests another: after a few it is paced', async () => {
    const clock = new FakeClock();
    let runs = 0;
    const scheduler: RebuildScheduler = new RebuildScheduler({
      clock,
      work: () => {
        if (++runs < 10_000) scheduler.request('stages');
        return 0;
      },
      firstWaitMs: () => 0,
    });
    scheduler.request('stages');
    await settle();
    expect(runs).toBeGreaterThan(1);
    expect(runs).toBeLessThan(50);
    const before = runs;
    await clock.advanceAsync(1_000);
    expect(runs - before).toBe(10);
    // Somebody else is served at once.
    scheduler.request('stages');
    await settle();
    expect(runs - before).toBe(11);
    scheduler.close();
    expect(clock.timers).toBe(0);
  });

  it('happens again if it is requested while it runs', async () => {
    const work = new Work();
    const scheduler: RebuildScheduler = new RebuildScheduler({
      clock: work.clock,
      work: (what) => {
        if (work.done.push(what) < 3) scheduler.request('stages');
        return 0;
      },
      firstWaitMs: () => undefined,
    });
    scheduler.request('stages');
    await settle();
    expect(work.done).toHaveLength(3);
  });

  it('costs a bounded share of the time for 10,000 connections that open one by one', async () => {
    const work = new Work();
    work.costMs = 1;
    const startMs = work.clock.now();
    for (let connection = 0; connection < 10_000; connection++) {
      work.scheduler.request('picker');
      await work.clock.advanceAsync(0.1);
    }
    const lastedMs = work.clock.now() - startMs;
    expect(work.done.length * work.costMs).toBeLessThanOrEqual(0.1 * lastedMs + 20 + 1);
    expect(work.done.length).toBeGreaterThan(80);
    await work.clock.advanceAsync(100);
    const { length } = work.done;
    await work.clock.advanceAsync(1_000);
    expect(work.done).toHaveLength(length);
    expect(work.clock.timers).toBe(0);
  });

  it('never waits longer than 100 ms, however expensive a picker is', async () => {
    const work = new Work();
    work.costMs = 1_000;
    work.scheduler.request('picker');
    await settle();
    work.scheduler.request('picker');
    await work.clock.advanceAsync(99);
    expect(work.done).toHaveLength(1);
    await work.clock.advanceAsync(1);
    expect(work.done).toHaveLength(2);
  });

  it('never waits for a set or a verdict, and includes requests that wait', async () => {
    const work = new Work();
    work.costMs = 1_000;
    work.scheduler.request('picker');
    await settle();
    work.scheduler.request('picker');
    expect(work.clock.timers).toBe(1);
    work.scheduler.request('stages');
    await settle();
    expect(work.done).toEqual(['picker', 'stages']);
    expect(work.clock.timers).toBe(0);
    await work.clock.advanceAsync(1_000);
    expect(work.done).toHaveLength(2);
  });

  it('does not wait where there is nothing to pick', async () => {
    const work = new Work();
    work.costMs = 1_000;
    work.urgent = true;
    for (let i = 0; i < 3; i++) {
      work.scheduler.request('picker');
      await settle();
    }
    expect(work.done).toHaveLength(3);
  });

  it('ends with close: outstanding requests are dropped', async () => {
    const work = new Work();
    work.costMs = 1_000;
    work.scheduler.request('picker');
    await settle();
    work.scheduler.request('picker');
    work.scheduler.close();
    expect(work.clock.timers).toBe(0);
    const other = new Work();
    other.scheduler.request('stages');
    other.scheduler.close();
    other.scheduler.request('stages');
    await settle();
    expect([work.done.length, other.done.length]).toEqual([1, 0]);
  });
});
