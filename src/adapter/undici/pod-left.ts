import { errors } from 'undici';
import { type Endpoint, endpointAddress } from '../../index.js';

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
