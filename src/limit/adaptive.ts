import { optionError } from '../runtime/check.js';
import type { Complete } from '../runtime/complete.js';
import { numberOption, type OptionTable, optionTable } from '../runtime/options.js';
import { LatencyWindow } from './latency-window.js';
import type { Limit, LimitFactory } from './limit.js';
import { shedAfterOption } from './shed-after.js';
import { Trial } from './trial.js';
import { UsualLatency } from './usual-latency.js';

/**
 * Options of `adaptive`: where the limit starts, its bounds, how much slower than usual calls may get, and how long callers may wait.
 * Invalid options throw EVENKEEL_OPTION.
 */
export interface AdaptiveOptions {
  /** The limit at first, before any call was measured. @defaultValue 100 */
  readonly initial?: number | undefined;
  /** The limit never falls below this. @defaultValue 1 */
  readonly min?: number | undefined;
  /** The limit never rises above this. @defaultValue 1000000 */
  readonly max?: number | undefined;
  /** The limit falls when calls take more than this many times their usual latency. @defaultValue 2 */
  readonly tolerance?: number | undefined;
  /** How long a caller may wait for the limit before it is shed, in ms: see `Limit.shedAfterMs`. @defaultValue 100 */
  readonly shedAfterMs?: number | undefined;
}

const calls = { min: 1, max: 1_000_000, integer: true };

const adaptiveTable: OptionTable<Complete<AdaptiveOptions>> = optionTable('adaptive', {
  initial: numberOption(100, calls),
  min: numberOption(1, calls),
  max: numberOption(1_000_000, calls),
  tolerance: numberOption(2, { min: 1, max: 100 }),
  shedAfterMs: shedAfterOption,
});

/**
 * The adaptive limit measures calls in windows, which last at least this many ms and contain at least this many calls. A window also lasts
 * as long as its calls usually take.
 */
const WINDOW_MS = 100;
const WINDOW_CALLS = 10;
/** A window longer than this, in ms, is discarded: calls were too rare to judge by. */
const STALE_MS = 10_000;
/** The limit falls only when the mean of a window exceeds the tolerance by this many standard errors. */
const ERRORS = 2;
/**
 * One fall leaves at least `MIN_LEFT` and at most `MAX_LEFT` of the limit. Before a trial has a result, falls leave at least
 * `LEAST_ON_TRIAL` of the limit that the trial compares with.
 */
const MIN_LEFT = 0.5;
const MAX_LEFT = 0.9;
const LEAST_ON_TRIAL = 0.25;
/** In an overload the limit grows by this share of itself per window in which calls are fast enough, but at least by `MIN_STEP` calls. */
const GROWTH = 0.1;
const MIN_STEP = 1;
/** The adaptive limit counts as reached once this share of it is in use. */
const REACHED = 0.9;
/**
 * After a fall, calls that started under the higher limit still run. They have ended once no more than this multiple of the limit is
 * running.
 */
const SETTLED = 1.25;
/** The rate of answers per ms is a moving average over this many ms. */
const RATE_MS = 5_000;
/**
 * For this many ms after a fall, servers may be busy with requests whose callers no longer wait, so that few calls are answered whatever
 * the limit is. Windows in which less than `DRAINED` of the calls was answered do not count until then.
 */
const DRAIN_MS = 3_000;
const DRAINED = 0.9;
/** An overload is over once the limit has not been reached, and no call was slow, for this many ms. */
const OVER_MS = 10_000;
/**
 * A trial's result that calls queue holds for `FOUND_MS`. Within that time, a trial must measure slow windows for `DOUBT_MS` to come to
 * another result. In ms.
 */
const FOUND_MS = 30_000;
const DOUBT_MS = 5_000;
/**
 * If less than this share of calls is answered while the usual latency is raised, raising it was wrong. The usual latency is not learned
 * from such windows either.
 */
const ANSWERED = 0.5;
/**
 * When an endpoint reports that it is overloaded, this share of the limit is left; at most once per window. While calls are only refused,
 * a window for this purpose lasts `WINDOW_MS`, or as long as calls usually take.
 */
const BACKED_OFF = 0.9;

/**
 * A limit that adapts to how much the Service can do in time: it falls while calls queue at the servers, and rises while it is reached and
 * calls are fast enough.
 *
 * After two windows that are too slow, the limit falls to min(limit, calls running) × tolerance × usual latency ÷ latency, by half at most.
 * Then the lower limit is on trial. A Service whose calls were queuing answers as many calls as before. If it answers fewer in proportion,
 * calls are slow for another reason: the limit is restored, and the present latency is the usual one from now on. If most callers then give
 * up, that is undone.
 *
 * Latencies are compared by their logarithms, each at most four times (tolerance²) the usual one, so a few very slow calls change nothing.
 * Clients know nothing about each other: each lowers its limit from its own number of running calls, so that together they follow the
 * Service.
 *
 * Sources: Gradient2 of Netflix's concurrency-limits; Envoy's adaptive concurrency filter; Huber's M-estimator for the usual latency. The
 * trial of a lower limit is evenkeel's own idea.
 * @throws EVENKEEL_OPTION for invalid options.
 */
export function adaptive(options: AdaptiveOptions = {}): LimitFactory {
  const settings = adaptiveTable.resolve(options);
  const { initial, min, max } = settings;
  if (min > max) throw optionError('adaptive.min', `at most max (${max})`, min);
  const begin = Math.min(Math.max(initial, min), max);
  return () => new AdaptiveLimit({ ...settings, initial: begin });
}

class AdaptiveLimit implements Limit {
  readonly shedAfterMs: number;
  max: number;
  readonly #settings: Complete<AdaptiveOptions>;
  /** The logarithm of the option `tolerance`. */
  readonly #tolerated: number;
  /** The exact limit; `max` is this number rounded. */
  #limit: number;
  readonly #usual: UsualLatency;
  readonly #window = new LatencyWindow();
  /** How many answers came per ms outside of overloads, and over how many ms this rate was measured. */
  #rate = 0;
  #ratedMs = 0;
  /** Whether the last window was slower than the tolerance allows. */
  #wasSlow = false;
  // The state of an overload, or of what looks like one.
  /** The limit at the start of the current overload, when it began to fall; 0 = there is no overload. */
  #fellFrom = 0;
  #fellAtMs = 0;
  /** When the limit was last reached, or calls were last slow, during the current overload. */
  #reachedMs = 0;
  readonly #trial = new Trial();
  /** When a trial last found that calls queue; -Infinity = never. */
  #foundMs = Number.NEGATIVE_INFINITY;
  /** Whether an endpoint's refusal lowered the limit in this window. */
  #wasOverloaded = false;
  /** When an endpoint's refusal last lowered the limit, and how many calls the window had by then. */
  #refusedAtMs = 0;
  #callsAtRefusal = 0;

  constructor(settings: Complete<AdaptiveOptions>) {
    this.#settings = settings;
    this.shedAfterMs = settings.shedAfterMs;
    this.#tolerated = Math.log(settings.tolerance);
    this.#usual = new UsualLatency(this.#tolerated);
    this.#limit = settings.initial;
    this.max = settings.initial;
  }

  get leastMs(): number {
    return this.#usual.leastMs;
  }

  answered(latencyMs: number, inFlight: number, nowMs: number): void {
    const slower = this.#measured(latencyMs, inFlight, nowMs);
    this.#window.answers++;
    // Outside an overload, nothing speaks against a higher limit. It rises by one with each answered call, so it doubles in the time that
    // calls take; long polls can fill it as quickly.
    if (this.#fellFrom === 0 && inFlight >= REACHED * this.max && slower <= this.#tolerated && !this.#wasOverloaded) {
      this.#set(this.#limit + 1);
    }
    this.#closeWindow(nowMs);
  }

  gaveUp(waitedMs: number, inFlight: number, nowMs: number): void {
    // A caller that gives up earlier than responses usually arrive says nothing about the server.
    if (this.#usual.isLess(waitedMs)) return;
    this.#measured(waitedMs, inFlight, nowMs);
    this.#closeWindow(nowMs);
  }

  overloaded(nowMs: number): void {
    if (nowMs - this.#window.sinceMs > STALE_MS) this.#open(nowMs);
    if (this.#wasOverloaded && !this.#onlyRefused(nowMs)) return;
    this.#wasOverloaded = true;
    this.#refusedAtMs = nowMs;
    this.#callsAtRefusal = this.#window.calls;
    this.#set(this.#limit * BACKED_OFF);
  }

  /** Whether calls were only refused for as long as a window lasts. Such calls are not measured, so the window would not end. */
  #onlyRefused(nowMs: number): boolean {
    if (this.#window.calls > this.#callsAtRefusal) return false;
    return nowMs - this.#refusedAtMs >= Math.max(WINDOW_MS, this.#usual.slowedMs());
  }

  /** Adds a call to the window. Returns by how much it was slower than usual, as a logarithm; 0 while no usual latency is known. */
  #measured(latencyMs: number, inFlight: number, nowMs: number): number {
    if (this.#window.calls === 0 || nowMs - this.#window.sinceMs > STALE_MS) this.#open(nowMs);
    const slower = this.#usual.slowerBy(latencyMs);
    this.#window.add(slower, inFlight);
    return this.#usual.isKnown ? slower : 0;
  }

  #closeWindow(nowMs: number): void {
    const { calls, slower, sinceMs } = this.#window;
    const ms = nowMs - sinceMs;
    if (calls < WINDOW_CALLS || ms < Math.max(WINDOW_MS, this.#usual.slowedMs(slower))) return;
    if (this.#usual.isKnown) this.#adapt(slower, ms, nowMs);
    else this.#usual.begin(slower);
    this.#open(nowMs);
  }

  #open(nowMs: number): void {
    this.#window.open(nowMs);
    this.#wasOverloaded = false;
  }

  /** Adapts the limit at the end of a window. @param slower How much slower than usual the window's calls were, as a logarithm. */
  #adapt(slower: number, ms: number, nowMs: number): void {
    const usual = this.#usual;
    const { inFlight, calls, answers, error } = this.#window;
    const isReached = inFlight >= REACHED * this.max;
    usual.windowEnded();
    const isLearning = !usual.isLearned;
    const isBeyond = slower > this.#tolerated && !isLearning;
    const isSlow = isBeyond && slower > this.#tolerated + ERRORS * error;
    if (this.#fellFrom === 0) this.#measureRate(ms);
    else {
      if (isReached || isSlow) this.#reachedMs = nowMs;
      if (!isBeyond) this.#relieved(ms, nowMs);
      else if (isReached) this.#tryOut(inFlight, ms, nowMs);
      if (nowMs - this.#reachedMs > OVER_MS) this.#fellFrom = 0;
    }
    const isAnswered = answers >= ANSWERED * calls;
    const slowerThanBefore = usual.slowerThanBeforeRaise(slower, nowMs);
    // Clients that share an overload can mistake the effect of each other's calls for slow work. Then raising the usual latency was wrong,
    // and hardly any call is answered.
    if (!isAnswered && slowerThanBefore > this.#tolerated) {
      this.#lower(Math.min(usual.most, slowerThanBefore), inFlight, nowMs);
      usual.undoRaise();
      this.#foundMs = nowMs;
      this.#wasSlow = true;
      return;
    }
    // One slow window alone proves nothing, because it may contain few calls.
    if (isSlow && this.#wasSlow && usual.isLearned) this.#lower(slower, inFlight, nowMs);
    const isOver = this.#fellFrom === 0;
    if (!isSlow && !isBeyond && isReached && !isOver && !this.#wasOverloaded) {
      this.#set(this.#limit + Math.max(MIN_STEP, this.#limit * GROWTH));
    }
    // It may not rise while most callers give up, during an overload, or while the limit is reached: in a long overload, windows just within
    // the tolerance would raise it by a few percent each, until the limit meant nothing.
    usual.learn(slower, isSlow, isAnswered && (isLearning || (isOver && !isReached)), nowMs);
    this.#wasSlow = isSlow;
  }

  #measureRate(ms: number): void {
    this.#ratedMs = Math.min(RATE_MS, this.#ratedMs + ms);
    this.#rate += Math.min(1, ms / this.#ratedMs) * (this.#window.answers / ms - this.#rate);
  }

  #lower(slower: number, inFlight: number, nowMs: number): void {
    // The overload may be caused by other clients' calls. Each client does its part, starting from the number of calls that it runs itself.
    const limit = Math.min(this.#limit, inFlight);
    if (this.#fellFrom === 0) {
      this.#fellFrom = limit;
      this.#fellAtMs = nowMs;
      this.#reachedMs = nowMs;
      this.#foundMs = Number.NEGATIVE_INFINITY;
      this.#trial.begin(limit, this.#rate);
    }
    const left = limit * Math.max(MIN_LEFT, Math.min(MAX_LEFT, Math.exp(this.#tolerated - slower)));
    this.#set(Math.max(left, LEAST_ON_TRIAL * this.#trial.limit));
  }

  #isFound(nowMs: number): boolean {
    return nowMs - this.#foundMs <= FOUND_MS;
  }

  /** In an overload, calls are fast enough again. If a trial has found that calls queue, the next trial compares with this window. */
  #relieved(ms: number, nowMs: number): void {
    if (this.#isFound(nowMs)) this.#trial.begin(this.#limit, this.#window.answers / ms);
  }

  /** In an overload, calls are still slow although the limit has fallen: measures whether the lower limit costs answers. */
  #tryOut(inFlight: number, ms: number, nowMs: number): void {
    const sinceMs = nowMs - this.#fellAtMs;
    if (inFlight > SETTLED * this.max) return;
    const { answers, calls } = this.#window;
    if (sinceMs < DRAIN_MS && answers < DRAINED * calls) return;
    const trial = this.#trial;
    trial.add(answers, ms, this.max);
    const verdict = trial.verdict(this.#isFound(nowMs) ? DOUBT_MS : 0, sinceMs);
    if (verdict === 'queued') {
      trial.goOn(this.#limit);
      this.#foundMs = nowMs;
    } else if (verdict === 'lost') this.#restore(nowMs);
  }

  /**
   * Restores the limit, and learns the usual latency anew, because a trial found that calls are slow for another reason than their number.
   */
  #restore(nowMs: number): void {
    this.#set(Math.max(this.#limit, this.#fellFrom));
    this.#fellFrom = 0;
    this.#usual.raise(this.#window.slower, nowMs);
  }

  #set(limit: number): void {
    this.#limit = Math.min(this.#settings.max, Math.max(this.#settings.min, limit));
    this.max = Math.round(this.#limit);
  }
}
