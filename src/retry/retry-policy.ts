import type { OutcomeCause } from '../endpoint/outcome.js';
import type { Warnings } from '../observe/warnings.js';
import { optionError } from '../runtime/check.js';
import type { Clock } from '../runtime/clock.js';
import { RetryBudget } from './budget.js';
import { candidateOf, type EndedAttempt } from './ended-attempt.js';
import { type ResolvedRetryOptions, type RetryOptions, resolveRetryOptions } from './retry-options.js';

/** Why an attempt was followed by another: how it failed, or that it was never sent. */
export type RetryReason = OutcomeCause | 'not-started';

/** Retries and hedges of one balancer. The numbers only grow. */
export interface RetryCounts {
  /** Calls started. */
  readonly calls: number;
  /** Attempts to be followed by one on another endpoint (`retrying` of `attemptEnded`), by how they ended. */
  readonly retries: Readonly<Record<RetryReason, number>>;
  /** Attempts started in addition to a slow one. */
  readonly hedges: number;
  /** Hedges whose response the caller got. */
  readonly hedgesWon: number;
  /** How often the budget did not cover a retry or hedge. */
  readonly overBudget: number;
}

/** Counts retries and hedges. That costs one addition, and only for calls that do not succeed at once. */
export class RetryCounter {
  readonly retries: Record<RetryReason, number> = {
    'not-started': 0,
    connect: 0,
    reset: 0,
    timeout: 0,
    status: 0,
    overload: 0,
    protocol: 0,
  };
  hedges = 0;
  hedgesWon = 0;
  overBudget = 0;
}

/** Whether a call may have another attempt, and what pays for it: for adapters that make attempts of their own. */
export interface RetryPolicy {
  /** Attempts per call, the first and hedges included; from the option `retry`. */
  readonly maxAttempts: number;
  /** HTTP methods of requests that may be sent twice. */
  readonly methods: ReadonlySet<string>;
  /** Whether a call that may be sent twice is repeated when its connection dies; false if options forbid it. */
  readonly repeatsLost: boolean;
  /** Whether responses may be discarded for another attempt; if not, every response is final. */
  readonly looksAtAnswers: boolean;
  /** The retry budget. Every call deposits in it once, not per attempt. */
  readonly budget: { deposit(): void };
  /** Whether this attempt should be followed by another one, regardless of cost and number. */
  wants(attempt: EndedAttempt): boolean;
  /** Whether a call with `tried` running attempts may have one more; if so, pays for it. */
  allowsHedge(tried: number): boolean;
  /** Whether a protocol with rules of its own may make another attempt; if so, pays for it. The attempt is counted by `followed`. */
  pays(): boolean;
  /** Counts another attempt, which the caller of this method has decided on and paid for. */
  followed(what: RetryReason | 'hedge'): void;
  /** The last retry or hedge that was allowed was not possible, because no other endpoint had capacity: refunds what it cost. */
  refund(): void;
  /** The caller gets the response of a hedge. */
  hedgeWon(): void;
}

/**
 * By default only what is provably safe is retried: calls that were never sent, and idempotent ones whose connection died
 * before any response. Options add responses (`statuses`, `when`). One budget per balancer limits them all. The caller then
 * avoids the endpoints it has tried (`TriedEndpoints`).
 */
export class RetryRules implements RetryPolicy {
  readonly maxAttempts: number;
  readonly methods: ReadonlySet<string>;
  readonly budget: RetryBudget;
  readonly repeatsLost: boolean;
  readonly #options: ResolvedRetryOptions;
  readonly #hasBudget: boolean;
  readonly #statuses: ReadonlySet<number>;
  readonly #warnings: Warnings | undefined;
  readonly #counter = new RetryCounter();
  /** The reason for which an attempt was last allowed, and whether the budget paid for it. */
  #allowed: RetryReason | 'hedge' = 'hedge';
  #wasPaid = false;

  constructor(options: RetryOptions, clock: Clock, warnings?: Warnings) {
    this.#options = resolveRetryOptions(options);
    this.maxAttempts = this.#options.maxAttempts;
    const { budget, when, methods } = this.#options;
    this.#hasBudget = budget.ratio + budget.minPerSecond > 0;
    this.repeatsLost = this.maxAttempts > 1 && when === undefined && this.#hasBudget;
    this.budget = new RetryBudget(budget, clock);
    this.methods = new Set(methods);
    this.#statuses = new Set(this.#options.statuses);
    this.#warnings = warnings;
  }

  get looksAtAnswers(): boolean {
    return this.maxAttempts > 1 && (this.#statuses.size > 0 || this.#options.when !== undefined);
  }

  /** Whether this attempt may be followed by another; if so, pays for it. */
  allows(attempt: EndedAttempt): boolean {
    return attempt.tried < this.maxAttempts && this.wants(attempt) && this.#pay(retryReason(attempt));
  }

  /**
   * Whether this attempt may be followed by another that costs the retry budget nothing. False where the budget can never pay for one: in
   * that case options forbid retries.
   */
  allowsFree(attempt: EndedAttempt): boolean {
    if (!this.#hasBudget || attempt.tried >= this.maxAttempts || !this.wants(attempt)) return false;
    this.#allowed = retryReason(attempt);
    this.#wasPaid = false;
    this.#count(this.#allowed, 1);
    return true;
  }

  allowsHedge(tried: number): boolean {
    return tried < this.maxAttempts && this.#pay('hedge');
  }

  pays(): boolean {
    const isCovered = this.budget.withdraw();
    if (!isCovered) this.#counter.overBudget++;
    return isCovered;
  }

  refund(): void {
    if (this.#wasPaid) this.budget.refund();
    this.#count(this.#allowed, -1);
  }

  /** A call moves to another endpoint without having been tried: not a retry, and free. */
  countMove(): void {
    this.#counter.retries['not-started']++;
  }

  followed(what: RetryReason | 'hedge'): void {
    this.#count(what, 1);
  }

  hedgeWon(): void {
    this.#counter.hedgesWon++;
  }

  /** The retries and hedges counted so far. */
  get counts(): RetryCounts {
    const { retries, hedges, hedgesWon, overBudget } = this.#counter;
    return { calls: this.budget.calls, retries: { ...retries }, hedges, hedgesWon, overBudget };
  }

  wants(attempt: EndedAttempt): boolean {
    const { outcome, idempotent, answered } = attempt;
    if (answered || outcome.kind === 'cancelled') return false;
    if (outcome.kind !== 'not-started' && !idempotent) return false;
    const usual = this.#isUsual(attempt);
    const { when } = this.#options;
    if (when === undefined) return usual;
    try {
      const verdict: unknown = when(candidateOf(attempt, usual));
      if (typeof verdict === 'boolean') return verdict;
      throw optionError('retry.when()', 'true or false', verdict);
    } catch (error) {
      this.#warnings?.warn('retry.when threw, or returned neither true nor false', error);
      return usual;
    }
  }

  #pay(what: RetryReason | 'hedge'): boolean {
    if (!this.budget.withdraw()) {
      this.#counter.overBudget++;
      return false;
    }
    this.#allowed = what;
    this.#wasPaid = true;
    this.#count(what, 1);
    return true;
  }

  #count(what: RetryReason | 'hedge', by: 1 | -1): void {
    if (what === 'hedge') this.#counter.hedges += by;
    else this.#counter.retries[what] += by;
  }

  #isUsual({ outcome, status }: EndedAttempt): boolean {
    if (status !== undefined) return this.#statuses.has(status);
    return outcome.kind === 'not-started' || outcome.cause === 'reset' || outcome.cause === 'connect';
  }
}

function retryReason({ outcome, status }: EndedAttempt): RetryReason {
  // `retry.when` may also discard a response that the rules would accept.
  return outcome.cause ?? (status === undefined ? 'not-started' : 'status');
}
