import { type Outcome, outcomes } from './outcome.js';

/** The codes of system errors that end an open connection. What was sent on it may have been processed. */
const lost: ReadonlySet<string> = new Set([
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ENETDOWN',
  'ENETRESET',
  'EHOSTDOWN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  // On an open connection, ETIMEDOUT means that the kernel gave up on the peer.
  'ETIMEDOUT',
  // EPROTO comes from TLS: the other side sent an alert, or something that is not TLS.
  'EPROTO',
]);

/** The codes of system errors that occur only while a connection is opened. */
const notReached: ReadonlySet<string> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN']);

/**
 * The outcome of a running call that ended with a system error: `outcomes.reset` if the connection was lost, undefined if `code` is no
 * system error's. All adapters use this one table. It never says that nothing was sent, because an adapter can know that only about
 * connections that it opened itself.
 */
export function outcomeOfSystemError(code: unknown): Outcome | undefined {
  if (typeof code !== 'string') return undefined;
  return lost.has(code) || code.startsWith('ERR_SSL_') ? outcomes.reset : undefined;
}

/** Whether `code` is that of a system error that occurs while a connection is opened. */
export function isConnectError(code: unknown): boolean {
  return typeof code === 'string' && notReached.has(code);
}
