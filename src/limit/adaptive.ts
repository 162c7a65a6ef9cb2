import { checkKeys, checkNumber, optionError } from '../runtime/check.js';
import { described } from '../runtime/described.js';
import type { Limit, LimitFactory } from './limit.js';
import { shedAfterMsOf } from './shed-after.js';

/** Options of `adaptive`. */
export interface AdaptiveOptions {
  /** How many calls may run at once before anything is measured. @defaultValue 100 */
  readonly initial?: number | undefined;
  /** The limit never falls below this. @defaultValue 1 */
  readonly min?: number | undefined;
  /** The limit never rises above this. @defaultValue 10000 */
  readonly max?: number | undefined;
  /** How many times its usual latency the Service may take before the limit falls. @defaultValue 2 */
  readonly tolerance?: number | undefined;
  /** See `Limit.shedAfterMs`, in ms. @defaultValue 100 */
  readonly shedAfterMs?: number | undefined;
}

interface Settings {
  readonly initial: number;
  readonly min: number;
  readonly max: number;
  readonly tolerance: number;
  readonly shedAfterMs: number;
}

/** The shortest window, in ms, and the fewest calls in it. A window also lasts as long as its calls take. */
const WINDOW_MS = 100;
const WINDOW_CALLS = 10;
/** The measurements of a longer window are discarded, in ms. */
const STALE_MS = 10_000;
/** The share of the distance to its target that the limit moves in one window. */
const STEP = 0.2;
/** The gradient is never lower than this. */
const LOWEST_GRADIENT = 0.5;
/** Target growth while the limit is reached, as a share: while latency is within tolerance, and while it is not. */
const GROWTH = 0.5;
const GROWTH_WHEN_SLOW = 0.1;
/** Minimum growth per window while latency is within tolerance, in calls. */
const MIN_STEP = 1;
/** How fast the usual latency follows a faster window, and a slower one within tolerance. */
const FASTER = 0.1;
const SLOWER = 0.05;
/** How fast it follows a window beyond tolerance: at ten windows a second it doubles in about a minute of overload. */
const TOO_SLOW = 0.001;
/** The limit counts as reached from this share on. */
const REACHED = 0.9;
/** If the limit falls to this share and latency does not, our calls are not the cause. */
const FELL_TO = 0.5;
const SAME_LATENCY = 0.85;
/** A response rarely takes less than this share of the usual latency. */
const LEAST = 0.5;
/** For how many slow windows the limit then stays put: the first time, and at most. Doubles each time. */
const HELD_FOR = 8;
const MOST_HELD = 128;
/** What is left of the limit when an endpoint says it is overloaded; once per window. */
const BACKED_OFF = 0.9;

/**
 * A limit that follows what the Service can do in time: it falls while calls take too long, and rises while it is reached and
 * calls are fast enough.
 *
 * After two windows that are too slow: min(limit, calls running) × (1 + 0.2 × (gradient − 1)), where gradient = tolerance ×
 * usual latency ÷ latency, at least 0.5; if the limit was reached, it regains 2 %. Otherwise it grows by a tenth, or one call. An
 * overload response lowers it by a tenth. If half the limit leaves latency unchanged, calls are slow for another reason: the limit is
 * restored, and the usual latency follows in a minute or so.
 *
 * Clients know nothing about one another: each starts from its own running calls, so that together they follow the Service.
 *
 * Sources: Gradient2 of Netflix's concurrency-limits; Envoy's adaptive concurrency filter; what half the limit shows is our own.
 * @throws EVENKEEL_OPTION for invalid options.
 */
export function adaptive(options: AdaptiveOptions = {}): LimitFactory {
  checkKeys('adaptive', options, ['initial', 'min', 'max', 'tolerance', 'shedAfterMs']);
  const calls = { min: 1, max: 1_000_000, integer: true };
  const settings: Settings = {
    initial: checkNumber('adaptive.initial', options.initial, 100, calls),
    min: checkNumber('adaptive.min', options.min, 1, calls),
    max: checkNumber('adaptive.max', options.max, 10_000, calls),
    tolerance: checkNumber('adaptive.tolerance', options.tolerance, 2, { min: 1, max: 100 }),
    shedAfterMs: shedAfterMsOf(options.shedAfterMs),
  };
  const { initial, min, max } = settings;
  if (min > max) throw optionError('adaptive.min', `at most max (${max})`, min);
  const begin = Math.min(Math.max(initial, min), max);
  return described(() => new AdaptiveLimit({ ...settings, initial: begin }), 'adaptive', options);
}

class AdaptiveLimit implements Limit {
  readonly shedAfterMs: number;
  max: number;
  readonly #settings: Settings;
  /** The limit before rounding. */
  #limit: number;
  /** Latency without queueing, in ms; 0 until known. */
  #usualMs = 0;
  /** The limit when it began to fall, and the longest latency since; 0 while it is not falling. */
  #fellFrom = 0;
  #latencyThen = 0;
  /** For how many more slow windows the limit stays put, and how many it was last time. */
  #held = 0;
  #heldFor = 0;
  /** Whether the last window was too slow. */
  #wasSlow = false;
  // The current window.
  #sinceMs = 0;
  #calls = 0;
  #sumMs = 0;
  #mostInFlight = 0;
  #wasOverloaded = false;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.shedAfterMs = settings.shedAfterMs;
    this.#limit = settings.initial;
    this.max = settings.initial;
  }

  get leastMs(): number {
    return LEAST * this.#usualMs;
  }

  answered(latencyMs: number, inFlight: number, nowMs: number): void {
    if (this.#calls === 0 || nowMs - this.#sinceMs > STALE_MS) this.#open(nowMs);
    this.#calls++;
    this.#sumMs += latencyMs;
    if (inFlight > this.#mostInFlight) this.#mostInFlight = inFlight;
    const latency = this.#sumMs / this.#calls;
    if (this.#calls < WINDOW_CALLS || nowMs - this.#sinceMs < Math.max(WINDOW_MS, latency)) return;
    this.#adapt(latency);
    this.#open(nowMs);
  }

  gaveUp(waitedMs: number, inFlight: number, nowMs: number): void {
    // A caller that gives up earlier than usual tells us nothing.
    if (waitedMs > this.#usualMs) this.answered(waitedMs, inFlight, nowMs);
  }

  overloaded(nowMs: number): void {
    if (nowMs - this.#sinceMs > STALE_MS) this.#open(nowMs);
    if (this.#wasOverloaded) return;
    this.#wasOverloaded = true;
    this.#set(this.#limit * BACKED_OFF);
  }

  #open(nowMs: number): void {
    this.#sinceMs = nowMs;
    this.#calls = 0;
    this.#sumMs = 0;
    this.#mostInFlight = 0;
    this.#wasOverloaded = false;
  }

  #adapt(latencyMs: number): void {
    const { tolerance } = this.#settings;
    const isFull = this.#mostInFlight >= REACHED * this.max;
    this.#learn(latencyMs, tolerance, isFull && this.#held === 0);
    const gradient = Math.max(LOWEST_GRADIENT, Math.min(1, (tolerance * this.#usualMs) / latencyMs));
    // One slow window proves nothing when it contains few calls.
    const isSlow = gradient < 1 && this.#wasSlow;
    this.#wasSlow = gradient < 1;
    // Other clients' calls may be the cause; every client has to do its part, starting from its own running calls.
    const limit = isSlow ? Math.min(this.#limit, this.#mostInFlight) : this.#limit;
    if (!isSlow) this.#fellFrom = 0;
    else if (this.#held > 0) {
      this.#held--;
      return;
    } else if (this.#wasNotTheCause(limit, latencyMs)) return;
    if (gradient === 1) this.#heldFor = 0;
    const isReached = isFull && !this.#wasOverloaded;
    if (isSlow) {
      const growth = isReached ? GROWTH_WHEN_SLOW : 0;
      this.#set(limit * (1 + STEP * (gradient + growth - 1)));
    } else if (isReached && gradient === 1) this.#set(limit + Math.max(MIN_STEP, limit * STEP * GROWTH));
  }

  /**
   * @param isOurs The limit is reached, so our own calls may make it slow, and the usual latency does not follow. Otherwise
   * a long overload would raise it by a few percent in each window just within tolerance, until there was no limit left.
   */
  #learn(latencyMs: number, tolerance: number, isOurs: boolean): void {
    const usual = this.#usualMs;
    if (usual === 0) this.#usualMs = latencyMs;
    else if (latencyMs < usual) this.#usualMs += FASTER * (latencyMs - usual);
    else if (!isOurs) this.#usualMs += (latencyMs < tolerance * usual ? SLOWER : TOO_SLOW) * (latencyMs - usual);
  }

  /** Whether the limit has fallen far enough to show that calls are no faster for it. If so, restores it. */
  #wasNotTheCause(limit: number, latencyMs: number): boolean {
    if (this.#fellFrom === 0) {
      this.#fellFrom = limit;
      this.#latencyThen = latencyMs;
      return false;
    }
    // Calls that started under a higher limit are still to end.
    if (latencyMs > this.#latencyThen) this.#latencyThen = latencyMs;
    if (limit > FELL_TO * this.#fellFrom) return false;
    const isNot = latencyMs >= SAME_LATENCY * this.#latencyThen;
    if (isNot) {
      this.#set(this.#fellFrom);
      this.#heldFor = Math.min(MOST_HELD, Math.max(HELD_FOR, 2 * this.#heldFor));
      this.#held = this.#heldFor;
      this.#fellFrom = 0;
    } else {
      this.#fellFrom = limit;
      this.#latencyThen = latencyMs;
    }
    return isNot;
  }

  #set(limit: number): void {
    this.#limit = Math.min(this.#settings.max, Math.max(this.#settings.min, limit));
    this.max = Math.round(this.#limit);
  }
}
