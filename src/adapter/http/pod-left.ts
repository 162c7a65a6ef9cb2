import { type Endpoint, endpointAddress } from '../../index.js';

const podLeftErrors = new WeakSet<Error>();

/** Marks an error: the pod left the Service before anything of the request was sent. */
export function asPodLeftError<E extends Error>(error: E): E {
  podLeftErrors.add(error);
  return error;
}

/** Whether `error` is marked so: nothing of the request was sent. */
export function isPodLeftError(error: Error): boolean {
  return podLeftErrors.has(error);
}

export function podLeftMessage(endpoint: Endpoint): string {
  return `${endpointAddress(endpoint)} left the Service before the request was sent`;
}

/** The error of a dial that was canceled because its pod has left. */
export function dialLeftError(endpoint: Endpoint): Error {
  // A system error code: after an error of its own kind undici would dial again.
  return asPodLeftError(Object.assign(new Error(podLeftMessage(endpoint)), { code: 'ECONNABORTED' }));
}
