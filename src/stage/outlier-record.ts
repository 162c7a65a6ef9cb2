import type { Endpoint } from '../endpoint/endpoint.js';
import type { Outcome, OutcomeCause } from '../endpoint/outcome.js';
import { notify } from '../observe/observer.js';
import type { Timer } from '../runtime/clock.js';
import { jittered } from '../runtime/rng.js';
import type { StageContext, Tracker } from './stage.js';

/** The checked options of outlier ejection. */
export interface OutlierRules {
  readonly consecutiveFailures: number;
  readonly failureRatio: number;
  readonly timesWorse: number;
  readonly minCalls: number;
  readonly baseEjectionMs: number;
  readonly maxEjectionMs: number;
  readonly maxEjectedRatio: number;
  readonly causes: ReadonlySet<OutcomeCause | undefined>;
}

/** Why an endpoint was ejected, in the words of the event `ejected`. */
type Criterion = 'consecutive' | 'unanswered' | 'ratio' | 'probation';

/** Ejection times vary at random by this share, so that clients do not all return to an endpoint at once. */
const JITTER_RATIO = 0.1;
/** A failure ratio of an endpoint below this counts as 0. */
const FORGOTTEN_RATIO = 0.0001;
/**
 * The next ejection of an endpoint that has worked for this long, and for as long as its last ejection, is of the shortest length again. In
 * ms.
 */
const FORGIVE_AFTER_MS = 10_000;
/** If a probation has had no result for this long, in ms, and for as long as the ejection was, one more call is allowed. */
const PROBATION_PATIENCE_MS = 10_000;

/**
 * What outlier ejection knows about one endpoint, and the endpoint's state.
 *
 * ```
 * good → over-limit → ejected ⇄ probation → good
 * ```
 * `over-limit`: the endpoint meets a criterion but may not be ejected, because the maximum number is ejected already or because of a panic;
 * a success ends this state.
 */
export class OutlierRecord implements Tracker {
  state: 'good' | 'over-limit' | 'ejected' | 'probation' = 'good';
  /** In which round of its probation the endpoint is, counting rounds without a result. */
  round = 0;
  readonly #endpoint: Endpoint;
  readonly #rules: OutlierRules;
  readonly #context: StageContext;
  /** The sum of `#failing` over all records, and how many records there are. */
  readonly #totals: { failing: number; records: number };
  readonly #forget: () => void;
  readonly #maxCalls: number;
  /** How many calls on the endpoint count, up to `#maxCalls`, and the share of them that failed. Beyond `#maxCalls`, old calls fade. */
  #calls = 0;
  #failing = 0;
  #consecutive = 0;
  #reason = '';
  #cause: Criterion = 'consecutive';
  #lastCause: OutcomeCause | undefined;
  #retryAfterMs = 0;
  /** How many times in close succession the endpoint was ejected. */
  #ejections = 0;
  #durationMs = 0;
  #restoredAtMs = Number.NEGATIVE_INFINITY;
  /** When the probation after the endpoint's last ejection began, in ms on the balancer's clock. */
  #probationSinceMs = 0;
  /** Whether observers were notified of the endpoint's ejection, and not yet of its end. */
  #announced = false;
  /** Whether the endpoint's connection was lost with an error, and no other was opened since. */
  #lost = false;
  /** Whether a new connection or a probe began probation early, and no call has succeeded since. */
  #usedEarlyProbation = false;
  #timer: Timer | undefined;

  constructor(
    endpoint: Endpoint,
    rules: OutlierRules,
    context: StageContext,
    totals: { failing: number; records: number },
    forget: () => void,
  ) {
    this.#endpoint = endpoint;
    this.#rules = rules;
    this.#context = context;
    this.#totals = totals;
    this.#forget = forget;
    this.#maxCalls = rules.minCalls * 2;
    totals.records++;
  }

  /** Whether the endpoint works and no failures of it are remembered, so that successes need only be counted. */
  get ignoresSuccess(): boolean {
    return this.state === 'good' && this.#failing === 0 && this.#consecutive === 0;
  }

  completed(outcome: Outcome, latencyMs: number, unanswered: number, skipped: number): void {
    // No failure was remembered before the skipped successes, so they change only the number of calls.
    if (skipped > 0) this.#calls = Math.min(this.#maxCalls, this.#calls + skipped);
    const { kind } = outcome;
    if (kind === 'success') {
      this.#consecutive = 0;
      this.#count(0);
      if (this.state !== 'good') this.#succeeded(latencyMs);
    } else if (kind === 'failure' && this.#rules.causes.has(outcome.cause))
      this.#failed(outcome, latencyMs, unanswered);
  }

  disconnected(error: Error | undefined): void {
    if (error !== undefined) this.#lost = true;
  }

  /**
   * A connection to the endpoint is open again. After a restart the endpoint deserves a probation, but only once, because an endpoint that
   * never responds accepts connections too.
   */
  connected(): void {
    const regained = this.#lost;
    this.#lost = false;
    if (regained) this.#beginEarlyProbation();
  }

  probed(): void {
    this.#beginEarlyProbation();
  }

  closed(): void {
    this.stop();
    this.#totals.records--;
    this.#totals.failing -= this.#failing;
    this.#forget();
  }

  /** Cancels the record's timer. */
  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** Ejects the endpoint for a while. If it worked only briefly since its last ejection, this one is twice as long. */
  eject(): void {
    const { rng, observer } = this.#context;
    const { baseEjectionMs, maxEjectionMs } = this.#rules;
    const doubledMs = Math.min(maxEjectionMs, baseEjectionMs * 2 ** this.#ejections);
    const durationMs = jittered(rng, Math.max(doubledMs, Math.min(this.#retryAfterMs, maxEjectionMs)), JITTER_RATIO);
    this.#ejections++;
    this.#durationMs = durationMs;
    this.#retryAfterMs = 0;
    this.state = 'ejected';
    this.#announced = true;
    this.#wake(durationMs, () => this.#beginProbation());
    notify(observer, 'ejected', { endpoint: this.#endpoint, reason: this.#reason, cause: this.#cause, durationMs });
  }

  /** Too many endpoints meet a criterion, so none is ejected. The next ejection of this endpoint will be of the shortest length. */
  forgive(): void {
    this.stop();
    this.state = 'over-limit';
    this.#ejections = 0;
  }

  /** Begins the endpoint's probation early, but only once until the next success. */
  #beginEarlyProbation(): void {
    if (this.state !== 'ejected' || this.#usedEarlyProbation) return;
    this.#usedEarlyProbation = true;
    this.#beginProbation();
  }

  #succeeded(latencyMs: number): void {
    this.#usedEarlyProbation = false;
    // On probation, a call that started before the ejection proves nothing new.
    if (this.state === 'over-limit' || this.#startedOnProbation(latencyMs)) this.#restore('a call succeeded');
  }

  #failed(outcome: Outcome, latencyMs: number, unanswered: number): void {
    this.#consecutive++;
    this.#count(1);
    this.#lastCause = outcome.cause;
    if (outcome.retryAfterMs !== undefined) this.#retryAfterMs = outcome.retryAfterMs;
    if (this.state === 'good') {
      const met = this.#criterion(unanswered);
      if (met === undefined) return;
      const goodForMs = this.#context.clock.now() - this.#restoredAtMs;
      if (goodForMs >= Math.max(FORGIVE_AFTER_MS, this.#durationMs)) this.#ejections = 0;
      this.#meetsCriterion(...met);
    } else if (this.state === 'probation' && this.#startedOnProbation(latencyMs)) {
      this.#meetsCriterion('probation', `the trial call failed (${outcome.cause})`);
    }
  }

  /** Returns the criterion that the endpoint meets, and the reason in words; undefined if it meets none. */
  #criterion(unanswered: number): readonly [Criterion, string] | undefined {
    const { consecutiveFailures, failureRatio, timesWorse, minCalls } = this.#rules;
    if (this.#consecutive >= consecutiveFailures) {
      return ['consecutive', `${this.#consecutive} failures in a row (last: ${this.#lastCause})`];
    }
    // Calls without a response count before they time out, because those that started after the first will time out too.
    if (unanswered >= consecutiveFailures) return ['unanswered', `no answer to ${unanswered} calls`];
    if (this.#calls < minCalls || this.#failing < failureRatio || this.#totals.records < 2) return undefined;
    const others = (this.#totals.failing - this.#failing) / (this.#totals.records - 1);
    if (this.#failing < others * timesWorse) return undefined;
    const percent = (share: number): string => `${Math.round(share * 100)} %`;
    const shares = `${percent(this.#failing)} of its calls failed, ${percent(others)} on other endpoints`;
    return ['ratio', `${shares} (last: ${this.#lastCause})`];
  }

  #meetsCriterion(cause: Criterion, reason: string): void {
    this.stop();
    this.#cause = cause;
    this.#reason = reason;
    this.state = 'over-limit';
    this.#context.invalidate();
  }

  #beginProbation(): void {
    if (this.state !== 'probation') this.#probationSinceMs = this.#context.clock.now();
    this.state = 'probation';
    this.round++;
    this.#wake(Math.max(PROBATION_PATIENCE_MS, this.#durationMs), () => this.#beginProbation());
    this.#context.invalidate();
  }

  #restore(reason: string): void {
    const { clock, observer, invalidate } = this.#context;
    this.stop();
    this.state = 'good';
    this.#restoredAtMs = clock.now();
    // The endpoint is judged from scratch, so failures that led to the ejection no longer count.
    this.#totals.failing -= this.#failing;
    this.#failing = 0;
    this.#calls = 0;
    if (this.#announced) notify(observer, 'restored', { endpoint: this.#endpoint, reason });
    this.#announced = false;
    invalidate();
  }

  #startedOnProbation(latencyMs: number): boolean {
    // The comparison tolerates a microsecond, because times are rounded.
    return this.state === 'probation' && this.#context.clock.now() - latencyMs >= this.#probationSinceMs - 0.001;
  }

  /** Counts one more call on the endpoint, as failed (1) or not (0). */
  #count(failed: 0 | 1): void {
    if (this.#calls < this.#maxCalls) this.#calls++;
    const share = this.#failing + (failed - this.#failing) / this.#calls;
    const change = (share < FORGOTTEN_RATIO ? 0 : share) - this.#failing;
    this.#failing += change;
    this.#totals.failing += change;
  }

  #wake(delayMs: number, fn: () => void): void {
    this.stop();
    this.#timer = this.#context.clock.timer(fn, delayMs);
  }
}
