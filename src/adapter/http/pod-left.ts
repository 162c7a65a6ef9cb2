import { type Endpoint, endpointAddress } from '../../index.js';

const podLeftErrors = new WeakSet<Error>();

/** Marks an error that says of a request that its pod left the Service before anything of it was sent. */
export function asPodLeftError<E extends Error>(error: E): E {
  podLeftErrors.add(error);
  return error;
}

/** Whether `error` says so: nothing of the request was sent. */
export function isPodLeftError(error: Error): boolean {
  return podLeftErrors.has(error);
}

export function podLeftMessage(endpoint: Endpoint): string {
  return `${endpointAddress(endpoint)} left the Service before the request was sent`;
}

/** What a dial is given up with whose pod has left. */
export function dialLeftError(endpoint: Endpoint): Error {
  // A code of the system's: undici would dial again after an error of a socket of its own.
  return asPodLeftError(Object.assign(new Error(podLeftMessage(endpoint)), { code: 'ECONNABORTED' }));
}
