import type { OutcomeCause } from '../endpoint/outcome.js';
import type { Warnings } from '../observe/warnings.js';
import { optionError } from '../runtime/check.js';
import type { Clock } from '../runtime/clock.js';
import { ignoreRejection } from '../runtime/ignore-rejection.js';
import { RetryBudget } from './budget.js';
import { candidateOf, type EndedAttempt } from './ended-attempt.js';
import { type ResolvedRetryOptions, type RetryOptions, resolveRetryOptions } from './retry-options.js';

/** Why an attempt was followed by another: how it failed, or that nothing of it was sent. */
export type RetryReason = OutcomeCause | 'not-started';

/** Counts about retries and hedges of one balancer. The numbers only grow. */
export interface RetryCounts {
  /** How many calls were started. */
  readonly calls: number;
  /** How many attempts were followed by one on another endpoint (`retrying` of `attemptEnded`), by how they ended. */
  readonly retries: Readonly<Record<RetryReason, number>>;
  /** How many attempts were started beside a slow one. */
  readonly hedges: number;
  /** How many hedges there were whose response the caller got. */
  readonly hedgesWon: number;
  /** How often the budget did not cover a retry or hedge. */
  readonly overBudget: number;
}

/** Counts retries and hedges. Counting costs one addition, and only for calls that do not succeed at once. */
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

/** Another attempt that was allowed: why, and whether the budget paid for it. */
interface AllowedAttempt {
  readonly what: RetryReason | 'hedge';
  readonly isPaid: boolean;
}

const freeMove: AllowedAttempt = Object.freeze({ what: 'not-started', isPaid: false });

/** Decides whether a call may have another attempt, and pays for it. For adapters that make attempts of their own. */
export interface RetryPolicy {
  /** How many attempts a call may have, including the first and hedges; from the option `retry`. */
  readonly maxAttempts: number;
  /** The HTTP methods of requests that may be sent twice. */
  readonly methods: ReadonlySet<string>;
  /** Whether a call that may be sent twice is repeated when its connection is lost; false if the options forbid that. */
  readonly repeatsLost: boolean;
  /** Whether a response may be discarded for another attempt; if not, every response is final. */
  readonly looksAtAnswers: boolean;
  /** The retry budget. Every call deposits in it once, however many attempts it has. */
  readonly budget: { deposit(): void };
  /** Whether the rules want another attempt after this one, whatever it costs and however many there were. */
  wants(attempt: EndedAttempt): boolean;
  /** Whether a call with `tried` attempts so far may have a hedge. If so, the hedge is paid for. */
  allowsHedge(tried: number): boolean;
  /**
   * Pays for another attempt of a protocol that has retry rules of its own. Returns false if the budget does not cover it. `followed`
   * counts the attempt.
   */
  pays(): boolean;
  /** Counts another attempt, which the caller of this method has decided on and paid for. */
  followed(what: RetryReason | 'hedge'): void;
  /** Refunds the last retry or hedge that was allowed, because no other endpoint had room for it. */
  refund(): void;
  /** The caller got the response of a hedge. */
  hedgeWon(): void;
}

/**
 * Decides about the retries of one balancer. By default, only what is provably safe is retried: calls that were never sent, and idempotent
 * ones whose connection was lost before any response. Options add responses (`statuses`, `when`). One budget per balancer limits all
 * retries. For the next attempt, callers avoid the endpoints that were tried (`TriedEndpoints`).
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
  #lastAllowed: AllowedAttempt = freeMove;

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

  /** Whether this attempt may be followed by another. If so, that attempt is paid for. */
  allows(attempt: EndedAttempt): boolean {
    return attempt.tried < this.maxAttempts && this.wants(attempt) && this.#pay(retryReason(attempt));
  }

  /**
   * Whether this attempt may be followed by another one that costs the budget nothing. False if the budget could never pay for an attempt,
   * because the options then forbid retries.
   */
  allowsFree(attempt: EndedAttempt): boolean {
    if (!this.#hasBudget || attempt.tried >= this.maxAttempts || !this.wants(attempt)) return false;
    this.#allow(retryReason(attempt), false);
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
    const { what, isPaid } = this.#lastAllowed;
    if (isPaid) this.budget.refund();
    this.#count(what, -1);
  }

  /** Counts a move of a call to another endpoint when nothing was sent. It is no retry, and free. */
  countMove(): void {
    this.#lastAllowed = freeMove;
    this.#counter.retries['not-started']++;
  }

  followed(what: RetryReason | 'hedge'): void {
    this.#count(what, 1);
  }

  hedgeWon(): void {
    this.#counter.hedgesWon++;
  }

  /** How many retries and hedges were counted so far. */
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
      ignoreRejection(verdict);
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
    this.#allow(what, true);
    return true;
  }

  #allow(what: RetryReason | 'hedge', isPaid: boolean): void {
    this.#lastAllowed = { what, isPaid };
    this.#count(what, 1);
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
  // `retry.when` may also discard a response that the rules would accept, so there may be no cause.
  return outcome.cause ?? (status === undefined ? 'not-started' : 'status');
}
