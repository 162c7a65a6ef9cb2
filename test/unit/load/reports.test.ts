import { describe, expect, it } from 'vitest';
import { type LoadReport, outcomes } from '../../../src/endpoint/outcome.js';
import { inFlight } from '../../../src/load/in-flight.js';
import type { Load } from '../../../src/load/load.js';
import type { RuledLoad } from '../../../src/load/load-rule.js';
import { relativeLatency } from '../../../src/load/relative-latency.js';

/** Loads of one set. */
function loads(count: number): Load[] {
  const set = { loads: new Set<Load>() };
  const factory = relativeLatency();
  return Array.from({ length: count }, () => {
    const load = factory(set);
    set.loads.add(load);
    return load;
  });
}

const inFlightOf = (count: unknown): LoadReport => ({ namedMetrics: { evenkeel_in_flight: count as number } });

/** A call of 20 ms, ending at `nowMs`, whose response says that `count` requests are in flight: this one is the only one of ours. */
function call(load: Load, nowMs: number, count: unknown): void {
  load.start(nowMs - 20);
  load.reported?.(inFlightOf(count), 1, nowMs);
  load.end(nowMs - 20, nowMs, outcomes.success);
}

/** All of them say that others have `others` in flight, for ten seconds. */
function settled(count: number, others: number): Load[] {
  const all = loads(count);
  for (let nowMs = 100; nowMs <= 10_000; nowMs += 100) for (const load of all) call(load, nowMs, others + 1);
  return all;
}

const costs = (all: readonly Load[], nowMs: number): number[] => all.map((load) => load.value(nowMs) / 100);

describe('relative latency with reports', () => {
  it('counts calls of other clients like our own', () => {
    const [load, other] = settled(2, 5) as [Load, Load];
    call(load, 10_000, 8);
    expect(load.value(10_000)).toBe(800);
    load.start(10_000);
    expect(load.value(10_000)).toBe(900);
    expect(other.value(10_000)).toBe(600);
  });

  it('gives a report less weight the older it is, and uses the median of all instead', () => {
    const [load] = settled(3, 4) as [Load];
    call(load, 10_000, 21);
    const at = (nowMs: number): number => load.value(nowMs) / 100 - 1;
    const usual = at(20_000);
    expect(usual).toBe(4);
    expect(at(10_000)).toBe(20);
    expect(at(10_100)).toBeCloseTo(usual + (20 - usual) * Math.exp(-1), 1);
    expect(at(10_700)).toBeCloseTo(usual, 1);
  });

  it('uses the median for an endpoint that does not report', () => {
    const all = loads(3);
    const [silent, ...others] = all as [Load, Load, Load];
    for (let nowMs = 100; nowMs <= 10_000; nowMs += 100) {
      for (const load of others) call(load, nowMs, 7);
      silent.start(nowMs - 20);
      silent.end(nowMs - 20, nowMs, outcomes.success);
    }
    expect(silent.value(10_000) / 100).toBeCloseTo(7, 1);
  });

  it('is the same as without reports a few seconds after the last one', () => {
    const all = settled(2, 9);
    for (const nowMs of [12_000, 14_000, 15_200]) {
      for (const load of all) {
        load.start(nowMs - 20);
        load.end(nowMs - 20, nowMs, outcomes.success);
      }
    }
    expect(costs(all, 15_200)).toEqual([1, 1]);
  });

  it('still multiplies by latency and failures', () => {
    const all = settled(3, 3);
    const [failing] = all as [Load];
    for (let failure = 0; failure < 100; failure++) {
      failing.start(10_000);
      failing.end(9_990, 10_000, outcomes.status);
    }
    expect(failing.value(10_000)).toBeGreaterThan(30_000);
  });

  it('makes the picker compare eight endpoints while there are reports', () => {
    const all = loads(2);
    const choices = (): number => (all[0] as RuledLoad).choices;
    expect(choices()).toBe(3);
    call(all[0] as Load, 100, 2);
    expect(choices()).toBe(8);
    for (const nowMs of [5_000, 5_200]) (all[0] as Load).end(nowMs - 20, nowMs, outcomes.success);
    expect(choices()).toBe(3);
    expect((inFlight()() as RuledLoad).choices).toBe(3);
  });

  it.each([
    ['negative', -5],
    ['no number', Number.NaN],
    ['endless', Number.POSITIVE_INFINITY],
    ['text', '7'],
    ['nothing', undefined],
  ])('ignores a count that is %s', (_name, count) => {
    const all = loads(2);
    for (let nowMs = 100; nowMs <= 1_000; nowMs += 100) call(all[0] as Load, nowMs, count);
    expect(costs(all, 1_000)).toEqual([1, 1]);
  });

  it.each([0, 1e-320, 0.5, 1e9, Number.MAX_VALUE])('stays a whole number above 0 when a server reports %d', (count) => {
    const all = settled(3, 4);
    for (let nowMs = 10_100; nowMs <= 20_000; nowMs += 10) call(all[0] as Load, nowMs, count);
    for (const nowMs of [9_000, 20_000, 20_001.5, 20_100, 30_000]) {
      for (const load of all) {
        expect(Number.isInteger(load.value(nowMs))).toBe(true);
        expect(load.value(nowMs)).toBeGreaterThanOrEqual(100);
      }
    }
  });

  it('is not misled about other endpoints by one that reports too much', () => {
    const all = settled(10, 4);
    const [liar, ...honest] = all as [Load, ...Load[]];
    for (let nowMs = 10_100; nowMs <= 20_000; nowMs += 100) {
      call(liar, nowMs, 1e12);
      for (const load of honest) call(load, nowMs, 5);
    }
    for (const load of honest) expect(load.value(20_000)).toBe(500);
    // What counts for one that is not known: at most a few times what it should be.
    expect(liar.value(30_000) / 100).toBeLessThan(20);
  });

  it('adds the requests that wait at vLLM', () => {
    const [load] = settled(2, 3) as [Load];
    load.start(9_990);
    load.reported?.({ namedMetrics: { kv_cache_usage_perc: 0.4, num_requests_waiting: 6 } }, 1, 10_000);
    load.end(9_990, 10_000, outcomes.success);
    expect(load.value(10_000)).toBe(700);
  });
});
