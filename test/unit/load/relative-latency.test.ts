import { describe, expect, it } from 'vitest';
import { type Outcome, outcomes } from '../../../src/endpoint/outcome.js';
import type { Load } from '../../../src/load/load.js';
import { relativeLatency } from '../../../src/load/relative-latency.js';

/** A call that took `ms`, ending at `nowMs`. */
function call(load: Load, nowMs: number, ms: number, outcome: Outcome = outcomes.success): void {
  load.start(nowMs - ms);
  load.end(nowMs - ms, nowMs, outcome);
}

/** Loads of one set. */
function loads(count: number, factory = relativeLatency()): Load[] {
  const set = { loads: new Set<Load>() };
  return Array.from({ length: count }, () => {
    const load = factory(set);
    set.loads.add(load);
    return load;
  });
}

/** Each takes as long as said, ten calls a second for ten seconds. */
function settled(...ms: number[]): Load[] {
  const all = loads(ms.length);
  for (let nowMs = 100; nowMs <= 10_000; nowMs += 100) {
    all.forEach((load, index) => {
      call(load, nowMs, ms[index] as number);
    });
  }
  return all;
}

const costs = (all: readonly Load[], nowMs = 10_000): number[] => all.map((load) => load.value(nowMs) / 100);

describe('relative latency', () => {
  it('is calls in flight, including the next one, while nothing is known', () => {
    const [load] = loads(1) as [Load];
    expect(load.value(0)).toBe(100);
    load.start(0);
    load.start(0);
    expect(load.value(0)).toBe(300);
  });

  it('equals calls in flight for endpoints within twice the median', () => {
    expect(costs(settled(20, 25, 30, 39))).toEqual([1, 1, 1, 1]);
  });

  it('equals calls in flight for endpoints within 5 ms of the median', () => {
    expect(costs(settled(0.5, 1, 1, 5.9))).toEqual([1, 1, 1, 1]);
  });

  it("costs more, in proportion to an endpoint's latency over the median, beyond these limits", () => {
    const [fast, , , slow] = costs(settled(20, 20, 20, 200)) as [number, number, number, number];
    expect(fast).toBe(1);
    expect(slow).toBeGreaterThan(8);
    expect(slow).toBeLessThanOrEqual(10);
  });

  it('takes the faster of two endpoints as usual', () => {
    const [fast, slow] = costs(settled(20, 200)) as [number, number];
    expect(fast).toBe(1);
    expect(slow).toBeGreaterThan(8);
  });

  it('takes one long call for no evidence, and several for some', () => {
    const all = settled(20, 20, 20);
    const [odd] = all as [Load];
    call(odd, 10_100, 30_000);
    expect(costs(all, 10_100)).toEqual([1, 1, 1]);
    for (let nowMs = 10_200; nowMs <= 13_000; nowMs += 100) call(odd, nowMs, 30_000);
    expect(odd.value(13_000)).toBeGreaterThan(200);
  });

  it('takes the fastest of the first calls, which had no cold start', () => {
    const all = loads(3);
    const [cold] = all as [Load];
    call(cold, 100, 500);
    for (let nowMs = 200; nowMs <= 900; nowMs += 100) {
      for (const load of all) call(load, nowMs, 2);
      expect(costs(all, nowMs)).toEqual([1, 1, 1]);
    }
  });

  it('judges an endpoint by four calls, not by its first twenty', () => {
    const all = loads(3);
    const [slow, ...others] = all as [Load, Load, Load];
    for (let nowMs = 100; nowMs <= 2_500; nowMs += 100) {
      const calls = nowMs / 100 - 1;
      if (calls < 24) expect(slow.value(nowMs)).toBe(100);
      for (const load of others) call(load, nowMs, 2);
      call(slow, nowMs, 100);
    }
    call(others[0] as Load, 2_700, 2);
    expect(slow.value(2_700)).toBeGreaterThan(300);
  });

  it('forgets how slow an endpoint was in its first twenty calls', () => {
    const all = loads(3);
    for (let nowMs = 100; nowMs <= 3_000; nowMs += 100) {
      for (const load of all) call(load, nowMs, load === all[0] && nowMs <= 2_000 ? 100 : 2);
      expect(costs(all, nowMs)).toEqual([1, 1, 1]);
    }
  });

  it('judges an endpoint that gets few calls by them after five seconds', () => {
    const all = loads(3);
    const cost = (nowMs: number): number => (all[0] as Load).value(nowMs);
    for (let nowMs = 1_000; nowMs <= 8_000; nowMs += 1_000) {
      if (nowMs <= 6_000) expect(cost(nowMs)).toBe(100);
      for (const load of all) call(load, nowMs, load === all[0] ? 100 : 2);
    }
    expect(cost(8_000)).toBeGreaterThan(300);
  });

  it('tries an endpoint again that got no call for a while', () => {
    const all = settled(20, 20, 200);
    const [fast, , slow] = all as [Load, Load, Load];
    expect(slow.value(10_000)).toBeGreaterThan(500);
    // What is known of it changes with the ends of others' calls only: without any, nobody asks.
    call(fast, 41_000, 20);
    expect(slow.value(41_000)).toBe(100);
  });

  it('costs 1 / (1 − share of failures)² times as much, at most a hundred times, and less as time goes by', () => {
    const all = settled(20, 20, 20);
    const [failing, other] = all as [Load, Load];
    for (let failure = 0; failure < 11; failure++) call(failing, 10_000, 1, outcomes.status);
    expect(failing.value(10_000) / 100).toBeCloseTo((16 / 15) ** 22, 1);
    for (let failure = 0; failure < 100; failure++) call(failing, 10_000, 1, outcomes.status);
    expect(failing.value(10_000) / 100).toBeCloseTo(100, 1);
    call(other, 30_000, 20);
    expect(failing.value(30_000) / 100).toBeCloseTo(1 / (1 - Math.exp(-1)) ** 2, 1);
  });

  it('forgets failures when an outage of most endpoints ends', () => {
    const all = settled(20, 20, 20);
    const [a, b, late] = all as [Load, Load, Load];
    for (let nowMs = 10_000; nowMs <= 12_000; nowMs += 20) {
      for (const load of all) call(load, nowMs, 20, outcomes.status);
    }
    expect(late.value(12_000)).toBeGreaterThan(5_000);
    for (let nowMs = 12_100; nowMs <= 15_000; nowMs += 100) {
      call(a, nowMs, 20);
      call(b, nowMs, 20);
    }
    expect(costs(all, 15_000)[2]).toBe(1);
  });

  it('is never improved by a failure or by a caller that gave up, however fast', () => {
    for (const outcome of [outcomes.reset, outcomes.cancelled, outcomes.notStarted]) {
      const all = settled(20, 20, 200);
      const slow = all[2] as Load;
      const before = slow.value(10_000);
      for (let time = 0; time < 50; time++) call(slow, 10_000, 0.1, outcome);
      expect(slow.value(10_000)).toBeGreaterThanOrEqual(before);
    }
  });

  it('gets worse with calls that were given up after longer than usual', () => {
    const all = settled(20, 20, 20);
    const [hanging] = all as [Load];
    for (let nowMs = 10_100; nowMs <= 13_000; nowMs += 100) call(hanging, nowMs, 1_000, outcomes.cancelled);
    expect(hanging.value(13_000)).toBeGreaterThan(200);
  });

  it('forgets endpoints that left, and does not mix balancers that share one option', () => {
    const factory = relativeLatency();
    const set = { loads: new Set<Load>() };
    const one = (): Load => {
      const load = factory(set);
      set.loads.add(load);
      return load;
    };
    const [a, b, c] = [one(), one(), one()];
    const strangers = loads(20, factory);
    for (let nowMs = 100; nowMs <= 10_000; nowMs += 100) {
      call(a, nowMs, 10);
      call(b, nowMs, 10);
      call(c, nowMs, 100);
      for (const load of strangers) call(load, nowMs, 1_000);
    }
    expect(c.value(10_000)).toBeGreaterThan(500);
    set.loads.delete(a);
    set.loads.delete(b);
    call(c, 10_200, 100);
    expect(c.value(10_200)).toBe(100);
  });

  it('stays a whole number above 0, whatever the latencies', () => {
    const all = loads(3);
    const [load] = all as [Load];
    for (const ms of [0, 1e-9, 1e12, Number.MAX_VALUE, 5]) {
      call(load, 1e6, ms);
      call(all[1] as Load, 1e6 + 200, 5);
      expect(Number.isInteger(load.value(1e6))).toBe(true);
      expect(load.value(1e6)).toBeGreaterThan(0);
    }
  });

  it('has no options', () => {
    expect(() => (relativeLatency as (options: object) => unknown)({ k: 2 })).toThrow('relativeLatency');
  });
});
