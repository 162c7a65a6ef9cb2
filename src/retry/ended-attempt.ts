import type { Outcome } from '../endpoint/outcome.js';

/** One attempt that ended, as the retry policy sees it. */
export interface EndedAttempt {
  /** How the attempt ended, as the rules for retries see it. */
  readonly outcome: Outcome;
  /** Whether the call may safely run twice (RFC 9110, 9.2.2) AND can be repeated (the call's body is still available). */
  readonly idempotent: boolean;
  /** Whether any part of the response reached the caller. */
  readonly answered: boolean;
  /** Attempts made so far, including this one. */
  readonly tried: number;
  /** The HTTP method, if there is one. */
  readonly method?: string | undefined;
  /** The status of the response, if there was one. */
  readonly status?: number | undefined;
  /** The headers of the response to the attempt, by lower-case name. */
  readonly header?: ((name: string) => unknown) | undefined;
  /** The error of the attempt, if there was no response. */
  readonly error?: unknown;
}

/** The argument of `retry.when`: an attempt that can be repeated, because no part of its response reached the caller. */
export interface RetryCandidate {
  /** How the attempt ended; `outcome.retryAfterMs` is the response's `Retry-After`. */
  readonly outcome: Outcome;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** Whether the call may run twice. If not, no part of it was sent. */
  readonly idempotent: boolean;
  /** The HTTP method; undefined in calls that have none (`balancer.run`). */
  readonly method: string | undefined;
  /** The status of the response, 400 or above; undefined if there was none. */
  readonly status: number | undefined;
  /** A header of the response; undefined if there is none. */
  header(name: string): string | undefined;
  /** The error of the attempt; undefined if there was a response. */
  readonly error: unknown;
  /** The `code` of the attempt's error, such as `ECONNRESET`. */
  readonly code: string | undefined;
  /** Whether the attempt would be retried without `when`. */
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
