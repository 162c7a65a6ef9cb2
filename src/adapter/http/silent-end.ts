import { type Endpoint, endpointAddress } from '../../index.js';

/** The messages of HTTP clients for a connection the pod closed. */
const ended: ReadonlySet<string> = new Set(['other side closed', 'socket hang up']);

/**
 * Adds a likely reason if a pod closed a plain connection without ever having sent a byte: TLS servers do that when they get plain
 * HTTP. The code stays.
 */
export function explainSilentEnd(error: Error, endpoint: Endpoint, bytesRead: number | undefined): void {
  if (bytesRead !== 0 || !ended.has(error.message)) return;
  const hint = `${endpointAddress(endpoint)} closed it without a byte; if it speaks TLS, use https://`;
  error.message = `${error.message} (${hint})`;
}
