import { type Outcome, outcomes } from './outcome.js';

/** Errors of the system that end a connection which stood: what was sent on it may have been done. */
const lost: ReadonlySet<string> = new Set([
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ENETDOWN',
  'ENETRESET',
  'EHOSTDOWN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  // The kernel gave up on the peer.
  'ETIMEDOUT',
  // TLS: the other side sent an alert, or what is no TLS.
  'EPROTO',
]);

/** Errors of opening a connection. One that stands never ends with them. */
const notReached: ReadonlySet<string> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN']);

/**
 * What an error of the system, by its code, says of a call that was under way: the one table for all adapters. The connection
 * is lost (`outcomes.reset`), or the code is none of the system's. Never says that nothing was sent: an adapter knows that of
 * its own dials only.
 */
export function outcomeOfSystemError(code: unknown): Outcome | undefined {
  if (typeof code !== 'string') return undefined;
  return lost.has(code) || code.startsWith('ERR_SSL_') ? outcomes.reset : undefined;
}

/** Whether an error of this code is one of opening a connection. */
export function isConnectError(code: unknown): boolean {
  return typeof code === 'string' && notReached.has(code);
}
