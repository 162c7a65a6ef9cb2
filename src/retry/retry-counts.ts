import type { OutcomeCause } from '../endpoint/outcome.js';
import type { EndedAttempt } from './ended-attempt.js';

/** Why an attempt was followed by another: how it failed, or that nothing of it was sent. */
export type RetryReason = OutcomeCause | 'not-started';

/** What became of the calls of one balancer that are repeated by its rules. All numbers only grow. */
export interface RetryCounts {
  /** Calls begun. */
  readonly calls: number;
  /** Attempts another was to follow elsewhere (`retrying` of `attemptEnded`), by how they ended. */
  readonly retries: Readonly<Record<RetryReason, number>>;
  /** Attempts that were begun beside one that took long. */
  readonly hedges: number;
  /** Of those, how many brought the answer the caller got. */
  readonly hedgesWon: number;
  /** How often a retry or hedge was wanted and the budget did not pay for it. */
  readonly overBudget: number;
}

/** No more than an addition each, and only where a call does not simply succeed. */
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

export function retryReason({ outcome, status }: EndedAttempt): RetryReason {
  // `retry.when` may also give up an answer the rules find nothing wrong with.
  return outcome.cause ?? (status === undefined ? 'not-started' : 'status');
}
