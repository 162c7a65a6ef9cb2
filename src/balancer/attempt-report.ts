import type { Outcome } from '../endpoint/outcome.js';
import { notify, observes } from '../observe/observer.js';
import type { Lease } from './lease.js';

/** What the observer hears about an attempt that ended. */
export interface AttemptReport {
  /** From 1. */
  readonly attempt: number;
  /** How it ended, if its lease continues for a while. @defaultValue how the lease ended */
  readonly outcome?: Outcome;
  /** Whether another follows or is running. @defaultValue false */
  readonly retrying?: boolean;
  /** Whether it ran beside an earlier one. @defaultValue false */
  readonly hedged?: boolean;
  readonly error?: unknown;
}

/** Tells the observer that an attempt ended. Nothing else does. */
export function reportAttempt<C>(lease: Lease<C>, report: AttemptReport): void {
  const { observer, endpoint } = lease;
  if (!observes(observer, 'attemptEnded')) return;
  const { attempt, outcome = lease.outcome as Outcome, retrying = false, hedged = false, error } = report;
  notify(observer, 'attemptEnded', {
    endpoint,
    outcome,
    attempt,
    retrying,
    ...(hedged && { hedged }),
    ...(error !== undefined && { error }),
  });
}
