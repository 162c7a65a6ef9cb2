import type { Outcome } from '../endpoint/outcome.js';
import { checkKeys, checkNumber } from '../runtime/check.js';
import type { Load, LoadFactory } from './load.js';

/** Options of `peakEwma`. */
export interface PeakEwmaOptions {
  /** Over how long old latencies fade to a third, in ms. @defaultValue 10000 */
  readonly decayMs?: number;
  /** What a call is taken to last on an endpoint that has answered none yet and is working on one, in ms. @defaultValue 1000 */
  readonly initialMs?: number;
}

/** How much one call moves the share of failures: 16 calls in a row move it by 64 %. */
const FAILURE_STEP = 1 / 16;
/** Failures make an endpoint at most this many times as costly. */
const MAX_PENALTY = 100;
/** How many times as costly it is while it asked not to be called. */
const PUSHBACK_PENALTY = 10;
/** A server's `Retry-After` is believed up to this long, in ms. */
const MAX_PUSHBACK_MS = 60_000;
/** Scores are whole numbers, since others would be boxed on the path of every pick: hundredths of a millisecond. */
const UNITS_PER_MS = 100;
const MAX_UNITS = 2 ** 31 - 1;
/** Below this latencies are not told apart; idle endpoints fade to it. In units. */
const FLOOR = 2;
/** An endpoint that has never been tried is cheaper than any other: its first call is how it is measured. In units. */
const UNTRIED = 1;

/**
 * Latency times calls in flight. A slower answer raises the estimate at once to what it took, a faster one lowers it
 * with time, so an endpoint is left quickly and trusted again slowly. What was not heard of for long fades, so that
 * everyone is tried again.
 *
 * A failure never improves the score, however fast it came: it raises the share of failures the score is multiplied by
 * (as 1 / (1 − share)², at most × 100). Pushback does too, and more while a `Retry-After` runs. A call its caller gave
 * up on raises the estimate if it had lasted longer, and never lowers it. Of an endpoint that never answered one call
 * at a time is expected back: it is the cheapest while idle and costs `initialMs` per call while busy.
 * Source: the Peak EWMA of Finagle.
 */
export const peakEwma = (options: PeakEwmaOptions = {}): LoadFactory => {
  checkKeys('peakEwma', options, ['decayMs', 'initialMs']);
  const decayMs = checkNumber('peakEwma.decayMs', options.decayMs, 10_000, { min: 1, max: 3_600_000 });
  const initialMs = checkNumber('peakEwma.initialMs', options.initialMs, 1_000, { min: 1, max: 3_600_000 });
  return () => new PeakEwmaLoad(decayMs, initialMs);
};

class PeakEwmaLoad implements Load {
  readonly decays = true;
  readonly #decayMs: number;
  readonly #initialMs: number;
  #inFlight = 0;
  /** Whether any call has ended, so that `#latencyMs` means something. */
  #tried = false;
  #latencyMs = 0;
  /** Share of recent calls that failed, 0 to 1. */
  #failing = 0;
  /** When both were last brought up to date. */
  #updatedMs = 0;
  #pushedBackUntilMs = 0;

  constructor(decayMs: number, initialMs: number) {
    this.#decayMs = decayMs;
    this.#initialMs = initialMs;
  }

  start(): void {
    this.#inFlight++;
  }

  end(startedMs: number, nowMs: number, outcome: Outcome): void {
    this.#inFlight--;
    const { kind } = outcome;
    const sampleMs = nowMs - startedMs;
    const kept = this.#kept(nowMs);
    if (!this.#tried) {
      // An endpoint that was tried and gave no answer is no longer the cheapest.
      this.#tried = true;
      this.#latencyMs = kind === 'success' ? sampleMs : Math.max(sampleMs, this.#initialMs);
      this.#updatedMs = nowMs;
    } else if (kind === 'success') {
      const latencyMs = this.#latencyMs * kept;
      this.#latencyMs = sampleMs > latencyMs ? sampleMs : latencyMs + sampleMs * (1 - kept);
      this.#failing *= kept * (1 - FAILURE_STEP);
      this.#updatedMs = nowMs;
    } else if (kind !== 'not-started' && sampleMs > this.#latencyMs * kept) {
      this.#latencyMs = sampleMs;
      this.#failing *= kept;
      this.#updatedMs = nowMs;
    }
    if (kind === 'failure' || outcome.cause === 'connect') this.#failed(nowMs, outcome.retryAfterMs);
  }

  value(nowMs: number): number {
    const calls = this.#inFlight + 1;
    if (!this.#tried) return calls === 1 ? UNTRIED : Math.min(this.#initialMs * UNITS_PER_MS * calls, MAX_UNITS) | 0;
    const kept = this.#kept(nowMs);
    let cost = Math.max(this.#latencyMs * kept * UNITS_PER_MS, FLOOR) * calls;
    if (this.#failing > 0) {
      const working = 1 - this.#failing * kept;
      cost *= Math.min(1 / (working * working), MAX_PENALTY);
    }
    if (nowMs < this.#pushedBackUntilMs) cost *= PUSHBACK_PENALTY;
    return Math.min(cost, MAX_UNITS) | 0;
  }

  #failed(nowMs: number, retryAfterMs: number | undefined): void {
    // Nothing good was heard since the last update: what was learnt then does not fade.
    this.#updatedMs = nowMs;
    const failing = this.#failing + (1 - this.#failing) * FAILURE_STEP;
    this.#failing = failing;
    // What only fails is taken to be as slow as what is not known: endpoints that all fail then look alike.
    const missingMs = this.#initialMs - this.#latencyMs;
    if (missingMs > 0) this.#latencyMs += missingMs * FAILURE_STEP * failing * failing;
    if (retryAfterMs !== undefined) this.#pushedBackUntilMs = nowMs + Math.min(retryAfterMs, MAX_PUSHBACK_MS);
  }

  /** Which share of the past still counts at `nowMs`. */
  #kept(nowMs: number): number {
    const passedMs = nowMs - this.#updatedMs;
    return passedMs > 0 ? Math.exp(-passedMs / this.#decayMs) : 1;
  }
}
