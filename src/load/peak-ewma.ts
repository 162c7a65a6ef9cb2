import type { Outcome } from '../endpoint/outcome.js';
import type { Complete } from '../runtime/complete.js';
import { numberOption, type OptionTable, optionTable } from '../runtime/options.js';
import { Cells } from './cells.js';
import type { Load } from './load.js';
import { type LoadRule, RuledLoad } from './load-rule.js';

/**
 * Options of `peakEwma`: how fast old latencies fade, and what an untried endpoint is assumed to cost. Invalid options throw
 * EVENKEEL_OPTION.
 */
export interface PeakEwmaOptions {
  /** The time in which old latencies lose two thirds of their weight, in ms. @defaultValue 10000 */
  readonly decayMs?: number | undefined;
  /** The assumed duration of a call on an endpoint that has not answered one yet but has one running, in ms. @defaultValue 1000 */
  readonly initialMs?: number | undefined;
}

/** How far one call moves the failure ratio of its endpoint: 16 calls in a row move it by 64 %. */
const FAILURE_STEP = 1 / 16;
/** Failures make an endpoint at most this many times as expensive. */
const MAX_PENALTY = 100;
/** The values of `peakEwma` are integers, in hundredths of a millisecond, because V8 would put fractions on the heap at every pick. */
const UNITS_PER_MS = 100;
const MAX_UNITS = 2 ** 31 - 1;
/** Latencies below this count as equal. In units of `UNITS_PER_MS`. */
const FLOOR = 2;
/**
 * The value of an endpoint that was never tried. It is the cheapest, so that a first call measures the endpoint. In units of
 * `UNITS_PER_MS`.
 */
const UNTRIED = 1;
/** Replaces a measured latency of 0, because 0 means that no call has ended. */
const MIN_LATENCY_MS = 1e-6;

export const peakEwmaTable: OptionTable<Complete<PeakEwmaOptions>> = optionTable('peakEwma', {
  decayMs: numberOption(10_000, { min: 1, max: 3_600_000 }),
  initialMs: numberOption(1_000, { min: 1, max: 3_600_000 }),
});

/**
 * Latency times calls in flight. A slower response raises the estimated latency to its own duration at once, a faster one lowers it
 * gradually, so an endpoint is avoided quickly and trusted again slowly. Without calls the estimate fades, so that every endpoint is tried
 * again.
 *
 * A failure never improves the cost, however fast it was: it raises the failure ratio, and the cost is multiplied by 1 / (1 − ratio)², at
 * most by 100. A response that asks clients to pause counts as any failure; the stage `pushback` honors `Retry-After`, because it also
 * knows when too many endpoints ask for a pause. A call that its caller gave up raises the estimate if it lasted longer, and never lowers
 * it. An endpoint that has never answered gets one call at a time: it is the cheapest while idle, and costs `initialMs` per call while
 * busy.
 * Source: the Peak EWMA of Finagle.
 */
export const peakEwma = (options: PeakEwmaOptions = {}): (() => Load) => {
  const { decayMs, initialMs } = peakEwmaTable.resolve(options);
  const rule = new PeakEwmaRule(decayMs, initialMs);
  const cells = new Cells(FIELDS);
  return () => new RuledLoad(rule, cells.take());
};

// Offsets of the numbers in an endpoint's cell.
/** Offset of the estimated duration of a call on the endpoint, in ms; 0 = no call has ended. */
const LATENCY = 0;
/** Offset of the time when latency and failure ratio were last updated, in ms on the balancer's clock. */
const UPDATED = 1;
/** Offset of the share of recent calls on the endpoint that failed, 0 to 1. */
const FAILING = 2;
const FIELDS = 3;

/** Up to this x, the first terms of its series give exp(−x) with an error below 3 in 10 million, at a fifth of the cost. */
const SERIES_UP_TO = 0.05;

class PeakEwmaRule implements LoadRule {
  readonly decays = true;
  readonly start = undefined;
  readonly #decayMs: number;
  readonly #initialMs: number;

  constructor(decayMs: number, initialMs: number) {
    this.#decayMs = decayMs;
    this.#initialMs = initialMs;
  }

  end(numbers: Float64Array, at: number, startedMs: number, nowMs: number, outcome: Outcome): void {
    const { kind } = outcome;
    const sampleMs = Math.max(nowMs - startedMs, MIN_LATENCY_MS);
    const latencyMs = numbers[at + LATENCY] as number;
    const kept = this.#kept(nowMs - (numbers[at + UPDATED] as number));
    if (latencyMs === 0) {
      // An endpoint that was tried and did not answer must no longer be the cheapest.
      numbers[at + LATENCY] = kind === 'success' ? sampleMs : Math.max(sampleMs, this.#initialMs);
      numbers[at + UPDATED] = nowMs;
    } else if (kind === 'success') {
      const fadedMs = latencyMs * kept;
      numbers[at + LATENCY] = sampleMs > fadedMs ? sampleMs : fadedMs + sampleMs * (1 - kept);
      numbers[at + FAILING] = (numbers[at + FAILING] as number) * kept * (1 - FAILURE_STEP);
      numbers[at + UPDATED] = nowMs;
    } else if (kind !== 'not-started' && sampleMs > latencyMs * kept) {
      numbers[at + LATENCY] = sampleMs;
      numbers[at + FAILING] = (numbers[at + FAILING] as number) * kept;
      numbers[at + UPDATED] = nowMs;
    }
    if (kind === 'failure' || outcome.cause === 'connect') this.#failed(numbers, at, nowMs);
  }

  value(numbers: Float64Array, at: number, inFlight: number, nowMs: number): number {
    const calls = inFlight + 1;
    const latencyMs = numbers[at + LATENCY] as number;
    if (latencyMs === 0) {
      return calls === 1 ? UNTRIED : Math.min(this.#initialMs * UNITS_PER_MS * calls, MAX_UNITS) | 0;
    }
    const kept = this.#kept(nowMs - (numbers[at + UPDATED] as number));
    let cost = Math.max(latencyMs * kept * UNITS_PER_MS, FLOOR) * calls;
    const failing = numbers[at + FAILING] as number;
    if (failing > 0) {
      const working = 1 - failing * kept;
      cost *= Math.min(1 / (working * working), MAX_PENALTY);
    }
    return Math.min(cost, MAX_UNITS) | 0;
  }

  #failed(numbers: Float64Array, at: number, nowMs: number): void {
    // No call succeeded since the last update, so the endpoint's latency does not fade.
    numbers[at + UPDATED] = nowMs;
    const before = numbers[at + FAILING] as number;
    const failing = before + (1 - before) * FAILURE_STEP;
    numbers[at + FAILING] = failing;
    // An endpoint that only fails becomes as expensive as one that never answered, so endpoints that all fail cost the same.
    const latencyMs = numbers[at + LATENCY] as number;
    const missingMs = this.#initialMs - latencyMs;
    if (missingMs > 0) numbers[at + LATENCY] = latencyMs + missingMs * FAILURE_STEP * failing * failing;
  }

  /** How much of an old latency still counts after `passedMs`, 0 to 1. */
  #kept(passedMs: number): number {
    const passed = passedMs / this.#decayMs;
    if (passed > SERIES_UP_TO) return Math.exp(-passed);
    return passed > 0 ? 1 - passed * (1 - passed * (1 / 2 - passed / 6)) : 1;
  }
}
