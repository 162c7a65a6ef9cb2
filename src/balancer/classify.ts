import { type Outcome, outcomes } from '../endpoint/outcome.js';
import { isEvenkeelError } from '../errors.js';

const notConnectedCodes = new Set(['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOTFOUND', 'EAI_AGAIN']);
const resetCodes = new Set(['ECONNRESET', 'EPIPE', 'ECONNABORTED']);

/**
 * The outcome of a call from what it threw, for `run` without a `classify` of its own. Knows Node's system errors;
 * an error it does not know counts as a failure of the endpoint that is not repeated.
 */
export function classifyError(error: unknown): Outcome {
  if (typeof error !== 'object' || error === null) return outcomes.protocol;
  if (isEvenkeelError(error)) {
    if (error.code === 'EVENKEEL_CONNECT') return outcomes.notConnected;
    return error.code === 'EVENKEEL_DEADLINE' ? outcomes.timeout : outcomes.notStarted;
  }
  const { code, name } = error as { code?: unknown; name?: unknown };
  if (name === 'AbortError') return outcomes.cancelled;
  if (name === 'TimeoutError' || code === 'ETIMEDOUT') return outcomes.timeout;
  if (typeof code !== 'string') return outcomes.protocol;
  if (notConnectedCodes.has(code)) return outcomes.notConnected;
  return resetCodes.has(code) ? outcomes.reset : outcomes.protocol;
}
