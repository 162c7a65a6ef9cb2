import type { Outcome } from '../endpoint/outcome.js';

/** One attempt that ended, as far as the retry policy needs to know. */
export interface EndedAttempt {
  /** The outcome by which the retry rules decide. */
  readonly outcome: Outcome;
  /** Whether the call may safely run twice (RFC 9110, 9.2.2) AND can be sent again (its body is still available). */
  readonly idempotent: boolean;
  /** Whether any part of the response reached the caller. */
  readonly answered: boolean;
  /** How many attempts were made so far, including this one. */
  readonly tried: number;
  /** The HTTP method; undefined if the call has none. */
  readonly method?: string | undefined;
  /** The status of the response; undefined if there was no response. */
  readonly status?: number | undefined;
  /** Returns a header of the response, by its lower-case name; undefined if there was no response. */
  readonly header?: ((name: string) => unknown) | undefined;
  /** The error of the attempt; undefined if there was a response. */
  readonly error?: unknown;
}

/** The argument of `retry.when`: an attempt after which the call can be sent again, because no part of a response reached the caller. */
export interface RetryCandidate {
  /** How the attempt ended; `outcome.retryAfterMs` comes from the response's `Retry-After`. */
  readonly outcome: Outcome;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** Whether the call may run twice. If not, no part of it was sent in this attempt. */
  readonly idempotent: boolean;
  /** The HTTP method; undefined in calls that have none (`balancer.run`). */
  readonly method: string | undefined;
  /** The status of the response, 400 or above; undefined if there was none. */
  readonly status: number | undefined;
  /** Returns a header of the response; undefined if there is none. */
  header(name: string): string | undefined;
  /** The error of the attempt; undefined if there was a response. */
  readonly error: unknown;
  /** The `code` of the attempt's error, such as `ECONNRESET`. */
  readonly code: string | undefined;
  /** Whether the attempt would be retried without the option `when`. */
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
