import { type Outcome, outcomes } from './outcome.js';

/** Codes of system errors that end an open connection: what was sent on it may have been processed. */
const lost: ReadonlySet<string> = new Set([
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ENETDOWN',
  'ENETRESET',
  'EHOSTDOWN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  // ETIMEDOUT on an open connection: the kernel gave up on the peer.
  'ETIMEDOUT',
  // EPROTO is an error of TLS: the other side sent an alert, or something that is not TLS.
  'EPROTO',
]);

/** Codes of system errors of opening a connection. An open connection never ends with them. */
const notReached: ReadonlySet<string> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN']);

/**
 * The outcome of a running call that ended with a system error, by its code; the one table for all adapters. Either the connection
 * is lost (`outcomes.reset`), or the code is not a system error. Never "nothing was sent": an adapter knows that only about
 * connections it opened itself.
 */
export function outcomeOfSystemError(code: unknown): Outcome | undefined {
  if (typeof code !== 'string') return undefined;
  return lost.has(code) || code.startsWith('ERR_SSL_') ? outcomes.reset : undefined;
}

/** Whether a system error's code is one of opening a connection. */
export function isConnectError(code: unknown): boolean {
  return typeof code === 'string' && notReached.has(code);
}
