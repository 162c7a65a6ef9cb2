import { type Outcome, outcomes } from '../endpoint/outcome.js';
import { isConnectError, outcomeOfSystemError } from '../endpoint/system-errors.js';
import { isEvenkeelError } from '../errors.js';

/**
 * The outcome of a call from what it threw, for `run` without a `classify` of its own. Knows Node's system errors;
 * an error it does not know counts as a failure of the endpoint that is not repeated.
 *
 * Never `not-started`: whatever it is, the call had its connection by then and may have used it. An ECONNREFUSED may be that of
 * another service it talked to after it had written here.
 */
export function classifyError(error: unknown): Outcome {
  if (typeof error !== 'object' || error === null) return outcomes.protocol;
  // Of another client of ours, which the call used: nothing against this endpoint.
  if (isEvenkeelError(error)) return error.code === 'EVENKEEL_DEADLINE' ? outcomes.timeout : outcomes.cancelled;
  const { code, name, syscall } = error as { code?: unknown; name?: unknown; syscall?: unknown };
  if (name === 'AbortError') return outcomes.cancelled;
  // The system's comes with a call of the system; the others are a client's own.
  if (name === 'TimeoutError' || (code === 'ETIMEDOUT' && syscall === undefined)) return outcomes.timeout;
  return isConnectError(code) ? outcomes.reset : (outcomeOfSystemError(code) ?? outcomes.protocol);
}
