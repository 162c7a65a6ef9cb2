import { asError, EvenkeelError } from '../errors.js';
import { type Endpoint, endpointAddress } from './endpoint.js';

/**
 * A value, or a function that is asked for it at each new connection: what it returns may change while the process lives
 * (certificates that are renewed, tokens that last a while).
 */
export type Asked<T> = T | ((endpoint: Endpoint) => T | Promise<T>);

const askedErrors = new WeakSet<Error>();

/** Whether `error` is of a function that was asked: it says nothing about an endpoint. */
export function isAskedError(error: Error): boolean {
  return askedErrors.has(error);
}

/** What is wrong with the function given as the option `name`: EVENKEEL_OPTION. Values are in no message. */
export function askedError(name: string, endpoint: Endpoint, why: string, cause?: unknown): EvenkeelError {
  const error = new EvenkeelError('EVENKEEL_OPTION', `the function given as "${name}" ${why}`, {
    cause,
    endpoint: endpointAddress(endpoint),
  });
  askedErrors.add(error);
  return error;
}

/**
 * Asks the function given as the option `name`; `check` may throw for an answer that does not fit. What any of them throws
 * or rejects with comes as EVENKEEL_OPTION. An answer that is no promise is there at once.
 */
export function ask<T, R>(
  name: string,
  wanted: (endpoint: Endpoint) => T | Promise<T>,
  endpoint: Endpoint,
  check: (answer: T) => R,
): R | Promise<R> {
  const failed = (error: unknown): never => {
    throw askedError(name, endpoint, `failed: ${asError(error).message}`, error);
  };
  try {
    const answer = wanted(endpoint);
    return isPromise(answer) ? Promise.resolve(answer).then(check).catch(failed) : check(answer);
  } catch (error) {
    return failed(error);
  }
}

/** Whether an answer is still to come. */
export function isPromise<T>(answer: T | Promise<T>): answer is Promise<T> {
  return typeof (answer as { readonly then?: unknown } | null | undefined)?.then === 'function';
}
