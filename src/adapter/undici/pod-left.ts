import { errors } from 'undici';
import { type Endpoint, endpointAddress } from '../../index.js';

/**
 * So often a call moves on because its pod left before it was sent. That many pods do not leave under one request: from
 * then on each move counts, and costs, as any repetition.
 */
export const MAX_MOVES = 100;

const podLeftErrors = new WeakSet<Error>();

/** What undici fails an attempt with that must not be sent any more, because its pod has left the Service. */
export function podLeftError(endpoint: Endpoint): Error {
  const error = new errors.SocketError(`${endpointAddress(endpoint)} left the Service before the request was sent`);
  podLeftErrors.add(error);
  return error;
}

/** Whether `error` says so: nothing of the request was sent. */
export function isPodLeftError(error: Error): boolean {
  return podLeftErrors.has(error);
}
