import type { Outcome } from '../endpoint/outcome.js';
import { checkKeys, checkNumber } from '../runtime/check.js';
import type { Clock } from '../runtime/clock.js';
import { RetryBudget, type RetryBudgetOptions, resolveRetryBudget } from './budget.js';

/** Which failed attempts are made again, elsewhere. */
export interface RetryOptions {
  /** Attempts per call at most, the first included; 1 = no retries. @defaultValue 3 */
  readonly maxAttempts?: number;
  readonly budget?: RetryBudgetOptions;
}

export const retryDefaults: { readonly maxAttempts: number } = Object.freeze({ maxAttempts: 3 });

/** Fills in defaults. Throws EVENKEEL_OPTION for what does not fit. */
export function resolveRetryOptions(options: RetryOptions = {}): Required<RetryOptions> {
  checkKeys('retry', options, ['maxAttempts', 'budget']);
  return {
    maxAttempts: checkNumber('retry.maxAttempts', options.maxAttempts, retryDefaults.maxAttempts, {
      min: 1,
      max: 100,
      integer: true,
    }),
    budget: resolveRetryBudget(options.budget),
  };
}

/** One attempt that ended, as the retry policy sees it. */
export interface EndedAttempt {
  readonly outcome: Outcome;
  /** Whether the call may be done twice without harm (RFC 9110, 9.2.2) AND can be repeated (its body is still there). */
  readonly idempotent: boolean;
  /** Whether any part of the answer reached the caller. */
  readonly answered: boolean;
  /** Attempts made so far, this one included. */
  readonly tried: number;
}

/**
 * Only what is provably safe: calls never sent go elsewhere, idempotent ones whose connection died before any answer
 * too. All from one budget per balancer. The caller then avoids the endpoints it has tried (`TriedEndpoints`).
 */
export class RetryPolicy {
  readonly maxAttempts: number;
  readonly #budget: RetryBudget;

  constructor(options: RetryOptions, clock: Clock) {
    const { maxAttempts, budget } = resolveRetryOptions(options);
    this.maxAttempts = maxAttempts;
    this.#budget = new RetryBudget(budget, clock);
  }

  /** A call began: deposits its share in the budget. Once per call, not per attempt. */
  started(): void {
    this.#budget.deposit();
  }

  /** Whether this attempt may be followed by another; if so it is paid for. */
  allows(attempt: EndedAttempt): boolean {
    return attempt.tried < this.maxAttempts && isSafe(attempt) && this.#budget.withdraw();
  }
}

function isSafe({ outcome, idempotent, answered }: EndedAttempt): boolean {
  if (answered) return false;
  if (outcome.kind === 'not-started') return true;
  return idempotent && outcome.kind === 'failure' && (outcome.cause === 'reset' || outcome.cause === 'connect');
}
