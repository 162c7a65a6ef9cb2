import type { Outcome } from '../endpoint/outcome.js';
import { checkKeys, checkNumber } from '../runtime/check.js';
import { Cells } from './cells.js';
import type { LoadFactory } from './load.js';
import { type LoadRule, RuledLoad } from './load-rule.js';

/** Options of `peakEwma`. */
export interface PeakEwmaOptions {
  /** Over how long old latencies fade to a third, in ms. @defaultValue 10000 */
  readonly decayMs?: number | undefined;
  /** What a call is taken to last on an endpoint that has answered none yet and is working on one, in ms. @defaultValue 1000 */
  readonly initialMs?: number | undefined;
}

/** How much one call moves the share of failures: 16 calls in a row move it by 64 %. */
const FAILURE_STEP = 1 / 16;
/** Failures make an endpoint at most this many times as costly. */
const MAX_PENALTY = 100;
/** Scores are whole numbers, since others would be boxed on the path of every pick: hundredths of a millisecond. */
const UNITS_PER_MS = 100;
const MAX_UNITS = 2 ** 31 - 1;
/** Below this latencies are not told apart; idle endpoints fade to it. In units. */
const FLOOR = 2;
/** An endpoint that has never been tried is cheaper than any other: its first call is how it is measured. In units. */
const UNTRIED = 1;
/** Stands for calls that took no time at all: 0 means that none has ended. */
const MIN_LATENCY_MS = 1e-6;

/**
 * Latency times calls in flight. A slower answer raises the estimate at once to what it took, a faster one lowers it
 * with time, so an endpoint is left quickly and trusted again slowly. What was not heard of for long fades, so that
 * everyone is tried again.
 *
 * A failure never improves the score, however fast it came: it raises the share of failures the score is multiplied by
 * (as 1 / (1 − share)², at most × 100). Pushback is a failure as any; what a `Retry-After` asks for is the stage
 * `pushback`'s to give, which also knows when too many ask. A call its caller gave up on raises the estimate if it had
 * lasted longer, and never lowers it. Of an endpoint that never answered one call at a time is expected back: it is the
 * cheapest while idle and costs `initialMs` per call while busy.
 * Source: the Peak EWMA of Finagle.
 */
export const peakEwma = (options: PeakEwmaOptions = {}): LoadFactory => {
  checkKeys('peakEwma', options, ['decayMs', 'initialMs']);
  const decayMs = checkNumber('peakEwma.decayMs', options.decayMs, 10_000, { min: 1, max: 3_600_000 });
  const initialMs = checkNumber('peakEwma.initialMs', options.initialMs, 1_000, { min: 1, max: 3_600_000 });
  const rule = new PeakEwmaRule(decayMs, initialMs);
  const cells = new Cells(FIELDS);
  return () => new RuledLoad(rule, cells.take());
};

// The numbers of one endpoint, by their place in its cell.
/** What a call takes, in ms; 0 = none has ended. */
const LATENCY = 0;
/** When the latency and the share of failures were last brought up to date. */
const UPDATED = 1;
/** Share of recent calls that failed, 0 to 1. */
const FAILING = 2;
const FIELDS = 3;

/** Up to here the first terms of the series are exp(−x) to within 3 in 10 million, at a fifth of its price. */
const SERIES_UP_TO = 0.05;

class PeakEwmaRule implements LoadRule {
  readonly decays = true;
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
      // An endpoint that was tried and gave no answer is no longer the cheapest.
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
    // Nothing good was heard since the last update: what was learnt then does not fade.
    numbers[at + UPDATED] = nowMs;
    const before = numbers[at + FAILING] as number;
    const failing = before + (1 - before) * FAILURE_STEP;
    numbers[at + FAILING] = failing;
    // What only fails is taken to be as slow as what is not known: endpoints that all fail then look alike.
    const latencyMs = numbers[at + LATENCY] as number;
    const missingMs = this.#initialMs - latencyMs;
    if (missingMs > 0) numbers[at + LATENCY] = latencyMs + missingMs * FAILURE_STEP * failing * failing;
  }

  /** Which share of the past still counts after `passedMs`. */
  #kept(passedMs: number): number {
    const passed = passedMs / this.#decayMs;
    if (passed > SERIES_UP_TO) return Math.exp(-passed);
    return passed > 0 ? 1 - passed * (1 - passed * (1 / 2 - passed / 6)) : 1;
  }
}
