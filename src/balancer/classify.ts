import { type Outcome, outcomes } from '../endpoint/outcome.js';
import { isConnectError, outcomeOfSystemError } from '../endpoint/system-errors.js';
import { isEvenkeelError } from '../errors.js';

/**
 * The outcome of a call from the error it threw, for `run` without `classify`. Knows Node's system errors; an unknown error
 * counts as a failure of the endpoint that is not retried.
 *
 * Never `not-started`: the call had its connection by then and may have used it. ECONNREFUSED may come from another service
 * that the call talked to after it had used this connection.
 */
export function classifyError(error: unknown): Outcome {
  if (typeof error !== 'object' || error === null) return outcomes.protocol;
  // From another evenkeel client the call used: says nothing about this endpoint.
  if (isEvenkeelError(error)) return error.code === 'EVENKEEL_DEADLINE' ? outcomes.timeout : outcomes.cancelled;
  const { code, name, syscall } = error as { code?: unknown; name?: unknown; syscall?: unknown };
  if (name === 'AbortError') return outcomes.cancelled;
  // A system error has a `syscall`; others come from a client.
  if (name === 'TimeoutError' || (code === 'ETIMEDOUT' && syscall === undefined)) return outcomes.timeout;
  return isConnectError(code) ? outcomes.reset : (outcomeOfSystemError(code) ?? outcomes.protocol);
}
