import { optionError } from '../runtime/check.js';
import type { Complete } from '../runtime/complete.js';
import { described } from '../runtime/described.js';
import { numberOption, type OptionTable, optionTable } from '../runtime/options.js';
import type { Limit, LimitFactory } from './limit.js';
import { shedAfterOption } from './shed-after.js';
import { Trial } from './trial.js';

/** Options of `adaptive`. */
export interface AdaptiveOptions {
  /** How many calls may run at once before anything is measured. @defaultValue 100 */
  readonly initial?: number | undefined;
  /** The limit never falls below this. @defaultValue 1 */
  readonly min?: number | undefined;
  /** The limit never rises above this. @defaultValue 1000000 */
  readonly max?: number | undefined;
  /** How many times its usual latency the Service may take before the limit falls. @defaultValue 2 */
  readonly tolerance?: number | undefined;
  /** How long a caller may wait for the limit before it is shed, in ms: see `Limit.shedAfterMs`. @defaultValue 100 */
  readonly shedAfterMs?: number | undefined;
}

const calls = { min: 1, max: 1_000_000, integer: true };

export const adaptiveTable: OptionTable<Complete<AdaptiveOptions>> = optionTable('adaptive', {
  initial: numberOption(100, calls),
  min: numberOption(1, calls),
  max: numberOption(1_000_000, calls),
  tolerance: numberOption(2, { min: 1, max: 100 }),
  shedAfterMs: shedAfterOption,
});

/**
 * The shortest window in which the adaptive limit measures calls, in ms; next to it, the fewest calls in a window. A window also lasts as
 * long as its calls usually take.
 */
const WINDOW_MS = 100;
const WINDOW_CALLS = 10;
/** The adaptive limit discards the measurements of a window that is longer than this, in ms. */
const STALE_MS = 10_000;
/** The adaptive limit adds this many ms to latencies before it compares them: among shorter ones, differences mean little. */
const FLOOR_MS = 5;
/**
 * A single latency counts as at most this far from the usual one, or farther with more tolerance; as a logarithm: four times as long or as
 * short.
 */
const MOST = Math.log(4);
/** A window's latencies have to be beyond the tolerance by this many standard errors before the limit falls. */
const ERRORS = 2;
/**
 * What one fall leaves of the limit, at least and at most; and what is left at least of the limit that a trial compares with, until its
 * verdict.
 */
const LEAST_LEFT = 0.5;
const MOST_LEFT = 0.9;
const LEAST_ON_TRIAL = 0.25;
/** How much the limit grows per window while calls are fast enough in an overload: as a share of it, and at least, in calls. */
const GROWTH = 0.1;
const MIN_STEP = 1;
/** The adaptive limit counts as reached once this share of it is in use. */
const REACHED = 0.9;
/** While a trial lowers the limit, the calls that started before have ended once at most this multiple of the limit is running. */
const SETTLED = 1.25;
/** The share by which the latency of a window moves the usual latency; next to it, the share if the window is too slow. */
const FOLLOWS = 0.02;
const FOLLOWS_SLOW = 0.001;
/** For this many windows after a start the usual latency is learned: no call counts as too slow. */
const LEARNS = 6;
/** The rate of answers, per ms, is averaged over this time, in ms. */
const RATE_MS = 5_000;
/** Servers may first have to finish requests whose callers no longer wait, in ms: meanwhile few calls are answered, whatever the limit. */
const DRAIN_MS = 3_000;
const DRAINED = 0.9;
/** An overload is over once the limit has not been reached for this long, in ms. */
const OVER_MS = 10_000;
/** For how long a trial's finding that calls queue stands, in ms, and how long nothing but slow windows must last to doubt it. */
const FOUND_MS = 30_000;
const DOUBT_MS = 5_000;
/** For how long a raised usual latency does not fall, in ms: the first time, and at most. Doubles each time. */
const HOLD_MS = 60_000;
const MOST_HOLD_MS = 960_000;
/**
 * If less than this share of the calls is answered while the usual latency is raised, it was raised wrongly; nor is the usual latency
 * learned from such a window.
 */
const ANSWERED = 0.5;
/** A response rarely takes less than this share of the usual latency. */
const LEAST = 0.5;
/** The share of the limit that is left when an endpoint reports that it is overloaded; applied at most once per window. */
const BACKED_OFF = 0.9;

/**
 * A limit that follows what the Service can do in time: it falls while calls queue, and rises while it is reached and calls are fast
 * enough.
 *
 * After two windows that are too slow it falls to min(limit, calls running) × tolerance × usual latency ÷ latency, by half at most. Then
 * it is on trial: a Service whose calls queue still answers as many. If it answers fewer in proportion, calls are slow for another
 * reason: the limit is restored, and this latency is the usual one from now on. If most callers then give up, that is taken back.
 *
 * Latencies are compared by their logarithms, each at most four times (tolerance²) the usual one: a few
 * very slow calls change nothing.
 * Clients know nothing about one another: each starts from its own running calls, so that together they follow the Service.
 *
 * Sources: Gradient2 of Netflix's concurrency-limits; Envoy's adaptive concurrency filter; Huber's M-estimator for the usual latency.
 * That answers under a lower limit show whether calls queue is our own.
 * @throws EVENKEEL_OPTION for invalid options.
 */
export function adaptive(options: AdaptiveOptions = {}): LimitFactory {
  const settings = adaptiveTable.resolve(options);
  const { initial, min, max } = settings;
  if (min > max) throw optionError('adaptive.min', `at most max (${max})`, min);
  const begin = Math.min(Math.max(initial, min), max);
  return described(() => new AdaptiveLimit({ ...settings, initial: begin }), 'adaptive', options);
}

class AdaptiveLimit implements Limit {
  readonly shedAfterMs: number;
  max: number;
  readonly #settings: Complete<AdaptiveOptions>;
  /** The logarithm of the option `tolerance`. */
  readonly #tolerated: number;
  /** How far from the usual latency a single latency counts at most, as a logarithm. */
  readonly #most: number;
  /** The limit before rounding. */
  #limit: number;
  /** The logarithm of the usual latency, and how many windows it has been learned from. */
  #usual = 0;
  #windows = 0;
  /** How many answers came per ms outside of overloads, and over how many ms that was measured. */
  #rate = 0;
  #ratedMs = 0;
  /** Whether the last window was slower than the tolerance allows. */
  #wasSlow = false;
  // The state of an overload, or of what looks like one.
  /** The limit when it began to fall; 0 = there is no overload. */
  #fellFrom = 0;
  #fellAtMs = 0;
  /** When the limit was last reached, or calls were slow. */
  #reachedMs = 0;
  readonly #trial = new Trial();
  /** When a trial last found that calls queue; -Infinity = it has not. */
  #foundMs = Number.NEGATIVE_INFINITY;
  // The state of a usual latency that was raised after a trial.
  #raisedFrom = 0;
  #heldUntilMs = 0;
  #holdMs = 0;
  // The measurements of the current window.
  #sinceMs = 0;
  #calls = 0;
  #answers = 0;
  /** The sums of the logarithms of latency ÷ usual latency, and of their squares. */
  #sum = 0;
  #squares = 0;
  #inFlight = 0;
  #wasOverloaded = false;

  constructor(settings: Complete<AdaptiveOptions>) {
    this.#settings = settings;
    this.shedAfterMs = settings.shedAfterMs;
    this.#tolerated = Math.log(settings.tolerance);
    this.#most = Math.max(MOST, 2 * this.#tolerated);
    this.#limit = settings.initial;
    this.max = settings.initial;
  }

  get leastMs(): number {
    return this.#windows === 0 ? 0 : LEAST * (Math.exp(this.#usual) - FLOOR_MS);
  }

  answered(latencyMs: number, inFlight: number, nowMs: number): void {
    const slower = this.#measured(latencyMs, inFlight, nowMs);
    this.#answers++;
    // Without an overload nothing speaks against a higher limit. The limit doubles in the time that calls take, because long polls can fill
    // it as quickly.
    if (this.#fellFrom === 0 && inFlight >= REACHED * this.max && slower <= this.#tolerated && !this.#wasOverloaded) {
      this.#set(this.#limit + 1);
    }
    this.#closeWindow(nowMs);
  }

  gaveUp(waitedMs: number, inFlight: number, nowMs: number): void {
    // A caller that gives up earlier than responses usually take tells us nothing.
    if (Math.log(waitedMs + FLOOR_MS) <= this.#usual) return;
    this.#measured(waitedMs, inFlight, nowMs);
    this.#closeWindow(nowMs);
  }

  overloaded(nowMs: number): void {
    if (nowMs - this.#sinceMs > STALE_MS) this.#open(nowMs);
    if (this.#wasOverloaded) return;
    this.#wasOverloaded = true;
    this.#set(this.#limit * BACKED_OFF);
  }

  /** Returns by how much the window that has ended was slower than usual, as a logarithm; 0 while nothing is known. */
  #measured(latencyMs: number, inFlight: number, nowMs: number): number {
    if (this.#calls === 0 || nowMs - this.#sinceMs > STALE_MS) this.#open(nowMs);
    this.#calls++;
    this.#inFlight += inFlight;
    const latency = Math.log(latencyMs + FLOOR_MS);
    if (this.#windows === 0) {
      this.#sum += latency;
      return 0;
    }
    const most = this.#most;
    const slower = Math.max(-most, Math.min(most, latency - this.#usual));
    this.#sum += slower;
    this.#squares += slower * slower;
    return slower;
  }

  #closeWindow(nowMs: number): void {
    const ms = nowMs - this.#sinceMs;
    if (this.#calls < WINDOW_CALLS || ms < WINDOW_MS) return;
    const slower = this.#sum / this.#calls;
    if (ms < Math.exp(this.#usual + slower)) return;
    if (this.#windows === 0) {
      this.#windows = 1;
      this.#usual = slower;
    } else this.#adapt(slower, ms, nowMs);
    this.#open(nowMs);
  }

  #open(nowMs: number): void {
    this.#sinceMs = nowMs;
    this.#calls = 0;
    this.#answers = 0;
    this.#sum = 0;
    this.#squares = 0;
    this.#inFlight = 0;
    this.#wasOverloaded = false;
  }

  /** Adapts the limit after a window. @param slower How much slower than usual calls were, as a logarithm. */
  #adapt(slower: number, ms: number, nowMs: number): void {
    const inFlight = this.#inFlight / this.#calls;
    const isReached = inFlight >= REACHED * this.max;
    const isLearning = ++this.#windows <= LEARNS;
    const isBeyond = slower > this.#tolerated && !isLearning;
    const variance = Math.max(0, this.#squares / this.#calls - slower * slower);
    const isSlow = isBeyond && slower > this.#tolerated + ERRORS * Math.sqrt(variance / this.#calls);
    if (this.#fellFrom === 0) this.#measureRate(ms);
    else {
      if (isReached || isSlow) this.#reachedMs = nowMs;
      if (!isBeyond) this.#relieved(ms, nowMs);
      else if (isReached) this.#tryOut(inFlight, ms, nowMs);
      if (nowMs - this.#reachedMs > OVER_MS) this.#fellFrom = 0;
    }
    if (this.#wasRaisedWrongly(slower, nowMs)) {
      this.#lower(Math.min(this.#most, slower + this.#usual - this.#raisedFrom), inFlight, nowMs);
      this.#usual = this.#raisedFrom;
      this.#windows = LEARNS;
      this.#heldUntilMs = 0;
      this.#foundMs = nowMs;
      this.#wasSlow = true;
      return;
    }
    // One slow window proves nothing when it contains few calls.
    if (isSlow && this.#wasSlow && this.#windows > LEARNS) this.#lower(slower, inFlight, nowMs);
    const isOver = this.#fellFrom === 0;
    if (!isSlow && !isBeyond && isReached && !isOver && !this.#wasOverloaded) {
      this.#set(this.#limit + Math.max(MIN_STEP, this.#limit * GROWTH));
    }
    const isAnswered = this.#answers >= ANSWERED * this.#calls;
    this.#learn(slower, isSlow, isAnswered && (isLearning || (isOver && !isReached)), nowMs);
    this.#wasSlow = isSlow;
  }

  #measureRate(ms: number): void {
    this.#ratedMs = Math.min(RATE_MS, this.#ratedMs + ms);
    this.#rate += Math.min(1, ms / this.#ratedMs) * (this.#answers / ms - this.#rate);
  }

  /**
   * Learns the usual latency from a window. @param mayRise Whether the usual latency may rise. Not while most callers give up, in an
   * overload, nor while the limit is reached: a long overload would raise it by a few percent in each window just within tolerance, until
   * there was no limit left.
   */
  #learn(slower: number, isSlow: boolean, mayRise: boolean, nowMs: number): void {
    const follows = isSlow ? FOLLOWS_SLOW : Math.max(FOLLOWS, 1 / this.#windows);
    if (slower > 0 ? mayRise : nowMs >= this.#heldUntilMs) this.#usual += follows * slower;
  }

  #lower(slower: number, inFlight: number, nowMs: number): void {
    // Other clients' calls may be the cause of the overload; every client has to do its part, starting from its own running calls.
    const limit = Math.min(this.#limit, inFlight);
    if (this.#fellFrom === 0) {
      this.#fellFrom = limit;
      this.#fellAtMs = nowMs;
      this.#reachedMs = nowMs;
      this.#foundMs = Number.NEGATIVE_INFINITY;
      this.#trial.begin(limit, this.#rate);
    }
    const left = limit * Math.max(LEAST_LEFT, Math.min(MOST_LEFT, Math.exp(this.#tolerated - slower)));
    this.#set(Math.max(left, LEAST_ON_TRIAL * this.#trial.limit));
  }

  #isFound(nowMs: number): boolean {
    return nowMs - this.#foundMs <= FOUND_MS;
  }

  /** Calls are fast enough again in an overload: the limit grows. */
  #relieved(ms: number, nowMs: number): void {
    if (this.#isFound(nowMs)) this.#trial.begin(this.#limit, this.#answers / ms);
  }

  /** Calls are slow although the limit has fallen: compares whether the lower limit costs answers. */
  #tryOut(inFlight: number, ms: number, nowMs: number): void {
    const sinceMs = nowMs - this.#fellAtMs;
    if (inFlight > SETTLED * this.max) return;
    if (sinceMs < DRAIN_MS && this.#answers < DRAINED * this.#calls) return;
    const trial = this.#trial;
    trial.add(this.#answers, ms, this.max);
    const verdict = trial.verdict(this.#isFound(nowMs) ? DOUBT_MS : 0, sinceMs);
    if (verdict === 'queued') {
      trial.goOn(this.#limit);
      this.#foundMs = nowMs;
    } else if (verdict === 'lost') this.#restore(nowMs);
  }

  /** Calls are slow for another reason than their number: the limit is restored, and the usual latency is learned anew. */
  #restore(nowMs: number): void {
    this.#set(Math.max(this.#limit, this.#fellFrom));
    this.#fellFrom = 0;
    this.#raisedFrom = this.#usual;
    this.#usual += this.#sum / this.#calls;
    this.#windows = 1;
    this.#holdMs = Math.min(MOST_HOLD_MS, Math.max(HOLD_MS, 2 * this.#holdMs));
    this.#heldUntilMs = nowMs + this.#holdMs;
  }

  /**
   * Whether the usual latency was raised wrongly. Clients that share an overload can mistake each other's share for slow work. Then hardly
   * anybody gets an answer.
   */
  #wasRaisedWrongly(slower: number, nowMs: number): boolean {
    return (
      nowMs < this.#heldUntilMs &&
      this.#answers < ANSWERED * this.#calls &&
      this.#usual + slower > this.#raisedFrom + this.#tolerated
    );
  }

  #set(limit: number): void {
    this.#limit = Math.min(this.#settings.max, Math.max(this.#settings.min, limit));
    this.max = Math.round(this.#limit);
  }
}
