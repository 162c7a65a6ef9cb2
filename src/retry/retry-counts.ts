import type { OutcomeCause } from '../endpoint/outcome.js';
import type { EndedAttempt } from './ended-attempt.js';

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

/** Each count costs one addition, and only if a call does not simply succeed. */
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
  // `retry.when` may also discard a response that the rules would accept.
  return outcome.cause ?? (status === undefined ? 'not-started' : 'status');
}
