import { type Endpoint, endpointAddress } from '../../index.js';

/** How HTTP clients say that the pod closed the connection. */
const ended: ReadonlySet<string> = new Set(['other side closed', 'socket hang up']);

/**
 * Says what is likely where a pod closed a plain connection on which it had never sent a byte: servers that speak TLS do that
 * when they are sent plain HTTP. The code stays.
 */
export function explainSilentEnd(error: Error, endpoint: Endpoint, bytesRead: number | undefined): void {
  if (bytesRead !== 0 || !ended.has(error.message)) return;
  const hint = `${endpointAddress(endpoint)} closed it without a byte; if it speaks TLS, use https://`;
  error.message = `${error.message} (${hint})`;
}
