import type { Outcome } from '../endpoint/outcome.js';

/** One attempt that ended, as the retry policy sees it. */
export interface EndedAttempt {
  readonly outcome: Outcome;
  /** Whether the call may be done twice without harm (RFC 9110, 9.2.2) AND can be repeated (its body is still there). */
  readonly idempotent: boolean;
  /** Whether any part of the answer reached the caller. */
  readonly answered: boolean;
  /** Attempts made so far, this one included. */
  readonly tried: number;
  /** The HTTP method, where there is one. */
  readonly method?: string | undefined;
  /** The status of the answer, if it ended with one. */
  readonly status?: number | undefined;
  /** The headers of that answer, by name in lower case. */
  readonly header?: ((name: string) => unknown) | undefined;
  /** What it failed with, if it did not end with an answer. */
  readonly error?: unknown;
}

/** What `retry.when` is told of an attempt that can be repeated: nothing of it reached the caller. */
export interface RetryCandidate {
  /** How it ended; `outcome.retryAfterMs` is the `Retry-After` of the answer. */
  readonly outcome: Outcome;
  /** Which attempt of the call it was, from 1. */
  readonly attempt: number;
  /** Whether the call may be done twice. Where not, nothing of it was sent. */
  readonly idempotent: boolean;
  /** The HTTP method; undefined in calls that have none (`balancer.run`). */
  readonly method: string | undefined;
  /** The status of the answer, 400 or above; undefined if there was none. */
  readonly status: number | undefined;
  /** One header of the answer. */
  header(name: string): string | undefined;
  /** What it failed with; undefined if it ended with an answer. */
  readonly error: unknown;
  /** The `code` of that error, such as `ECONNRESET`. */
  readonly code: string | undefined;
  /** What would be done without `when`. */
  readonly usual: boolean;
}

export function candidateOf(attempt: EndedAttempt, usual: boolean): RetryCandidate {
  const { outcome, idempotent, tried, method, status, header, error } = attempt;
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return {
    outcome,
    attempt: tried,
    idempotent,
    method,
    status,
    header: (name) => {
      const value = header?.(name.toLowerCase());
      if (Array.isArray(value)) return value.join(', ');
      return value === undefined ? undefined : String(value);
    },
    error,
    code: typeof code === 'string' ? code : undefined,
    usual,
  };
}
