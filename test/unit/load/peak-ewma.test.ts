import { describe, expect, it } from 'vitest';
import { type Outcome, outcomes } from '../../../src/endpoint/outcome.js';
import type { Load } from '../../../src/load/load.js';
import { type PeakEwmaOptions, peakEwma } from '../../../src/load/peak-ewma.js';

/** A call that took `ms`, ending at `nowMs`. */
function call(load: Load, nowMs: number, ms: number, outcome: Outcome = outcomes.success): void {
  load.start(nowMs - ms);
  load.end(nowMs - ms, nowMs, outcome);
}

/** A load that has seen 20 ms for a while. */
function settled(options?: PeakEwmaOptions): Load {
  const load = peakEwma(options)();
  for (let second = 0; second <= 100; second++) call(load, second * 1_000, 20);
  return load;
}

/** Value in ms at 100 s, when `settled` ends. */
const ms = (load: Load, nowMs = 100_000): number => load.value(nowMs) / 100;

describe('peak EWMA', () => {
  it('is latency times calls in flight, including the next one', () => {
    const load = settled();
    expect(ms(load)).toBeCloseTo(20, 0);
    load.start(100_000);
    load.start(100_000);
    expect(ms(load)).toBeCloseTo(60, 0);
  });

  it('jumps to a slower response at once, and comes back over decayMs', () => {
    const load = settled();
    call(load, 100_000, 500);
    expect(ms(load)).toBeCloseTo(500, 0);
    for (let nowMs = 100_010; nowMs <= 110_000; nowMs += 10) call(load, nowMs, 20);
    // A third of the difference is left after 10 s.
    expect(ms(load, 110_000)).toBeCloseTo(20 + 480 / Math.E, -1);
  });

  it('fades while no responses arrive, so that every endpoint is tried again', () => {
    const load = settled();
    expect(ms(load, 110_000)).toBeCloseTo(20 / Math.E, 0);
    expect(load.value(10_000_000)).toBeGreaterThan(0);
  });

  it.each([1, 400, 500, 600, 3_000, 25_000])('fades by exp(−t / decayMs), after %i ms as well', (afterMs) => {
    const load = peakEwma()();
    call(load, 100_000, 10_000);
    expect(ms(load, 100_000 + afterMs) / (10_000 * Math.exp(-afterMs / 10_000))).toBeCloseTo(1, 4);
  });

  it('costs 1 / (1 − share of failures)² times as much, at most a hundred times', () => {
    // As slow as an endpoint that is not known, so that failures teach nothing beside their share.
    const load = peakEwma()();
    call(load, 100_000, 1_000);
    for (let failure = 0; failure < 11; failure++) call(load, 100_000, 1, outcomes.status);
    expect(ms(load) / 1_000).toBeCloseTo((16 / 15) ** 22, 2);
    for (let failure = 0; failure < 100; failure++) call(load, 100_000, 1, outcomes.status);
    expect(ms(load) / 1_000).toBeCloseTo(100, 2);
  });

  it('never improves by a failure, however fast, and gets worse with each', () => {
    const load = settled();
    let before = load.value(100_000);
    for (let failure = 0; failure < 30; failure++) {
      call(load, 100_000, 1, outcomes.status);
      const after = load.value(100_000);
      expect(after).toBeGreaterThan(before);
      before = after;
    }
    expect(ms(load)).toBeGreaterThan(20 * 20);
  });

  it('does not fade while only failures arrive', () => {
    const load = settled();
    for (let nowMs = 100_000; nowMs <= 130_000; nowMs += 1_000) {
      const before = load.value(nowMs - 1_000);
      call(load, nowMs, 1, outcomes.reset);
      expect(load.value(nowMs)).toBeGreaterThan(before);
    }
  });

  it('hardly reacts to one failure in a hundred', () => {
    const load = settled();
    for (let nowMs = 100_000; nowMs < 130_000; nowMs += 10) {
      call(load, nowMs, 20, nowMs % 1_000 === 0 ? outcomes.status : outcomes.success);
    }
    expect(ms(load, 130_000)).toBeLessThan(20 * 1.25);
  });

  it('makes endpoints that only fail look alike', () => {
    const quick = peakEwma()();
    const slow = peakEwma()();
    call(quick, 1_000, 5);
    call(slow, 1_000, 50);
    for (let failure = 0; failure < 200; failure++) {
      call(quick, 1_000, 1, outcomes.status);
      call(slow, 1_000, 1, outcomes.status);
    }
    expect(slow.value(1_000) / quick.value(1_000)).toBeCloseTo(1, 1);
  });

  it('counts pushback as a failure, and leaves Retry-After to the stage', () => {
    const load = settled();
    const reference = settled();
    const overload: Outcome = { kind: 'failure', cause: 'overload', retryAfterMs: 2_000 };
    call(load, 100_000, 20, overload);
    call(reference, 100_000, 20, outcomes.overload);
    expect(load.value(101_999)).toBe(reference.value(101_999));
    expect(load.value(100_000)).toBeGreaterThan(settled().value(100_000));
  });

  it('rises with a cancelled call that had lasted longer, and never improves with one', () => {
    const load = settled();
    call(load, 100_000, 300, outcomes.cancelled);
    expect(ms(load)).toBeCloseTo(300, 0);
    const before = load.value(100_000);
    call(load, 100_000, 1, outcomes.cancelled);
    expect(load.value(100_000)).toBe(before);
  });

  it('learns nothing from a call that was not sent, except that it could not connect', () => {
    const load = settled();
    const before = load.value(100_000);
    call(load, 100_000, 0, outcomes.notStarted);
    call(load, 100_000, 5_000, outcomes.notStarted);
    expect(load.value(100_000)).toBe(before);
    call(load, 100_000, 0, outcomes.notConnected);
    expect(load.value(100_000)).toBeGreaterThan(before);
  });

  it('is the lowest of all before the first call, then high until that is answered', () => {
    const fresh = peakEwma()();
    expect(fresh.value(0)).toBeLessThan(settled().value(10_000_000));
    fresh.start(0);
    expect(ms(fresh, 0)).toBe(2_000);
    fresh.end(0, 30, outcomes.success);
    expect(ms(fresh, 30)).toBeCloseTo(30, 0);
  });

  it.each(['timeout', 'reset', 'status', 'overload'] as const)('counts as tried after a %s', (cause) => {
    const load = peakEwma()();
    call(load, 10, 1, outcomes[cause]);
    expect(ms(load, 10)).toBeGreaterThanOrEqual(1_000);
  });

  it('is a whole number within 31 bits, whatever happens', () => {
    const load = peakEwma()();
    for (let failure = 0; failure < 300; failure++) call(load, 1e7, 1e6, outcomes.timeout);
    for (let start = 0; start < 1_000; start++) load.start(1e7);
    expect(Number.isInteger(load.value(1e7))).toBe(true);
    expect(load.value(1e7)).toBe(2 ** 31 - 1);
  });

  it('rejects invalid options', () => {
    for (const bad of [{ decayMs: 0 }, { initialMs: Number.NaN }, { decay: 5 }]) {
      expect(() => peakEwma(bad as never)).toThrowError(expect.objectContaining({ code: 'EVENKEEL_OPTION' }));
    }
  });
});
