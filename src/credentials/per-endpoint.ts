import { type Endpoint, endpointAddress } from '../endpoint/endpoint.js';
import { asError, EvenkeelError } from '../errors.js';

/**
 * A value, or a function called for each new connection whose result may change over time (certificates that are renewed,
 * tokens that expire).
 */
export type PerEndpoint<T> = T | ((endpoint: Endpoint) => T | Promise<T>);

const perEndpointErrors = new WeakSet<Error>();

/** Whether `error` comes from a function that returns a value per endpoint, and so says nothing about the endpoint. */
export function isPerEndpointError(error: Error): boolean {
  return perEndpointErrors.has(error);
}

/** The EVENKEEL_OPTION error for a faulty function passed as the option `name`. Messages contain no values. */
export function perEndpointError(name: string, endpoint: Endpoint, why: string, cause?: unknown): EvenkeelError {
  const error = new EvenkeelError('EVENKEEL_OPTION', `the function given as "${name}" ${why}`, {
    cause,
    endpoint: endpointAddress(endpoint),
  });
  perEndpointErrors.add(error);
  return error;
}

/**
 * Calls the function passed as the option `name`; `check` may throw for an invalid result. Anything either of them throws or
 * rejects with becomes EVENKEEL_OPTION. A result that is not a promise is returned synchronously.
 */
export function valueFor<T, R>(
  name: string,
  wanted: (endpoint: Endpoint) => T | Promise<T>,
  endpoint: Endpoint,
  check: (answer: T) => R,
): R | Promise<R> {
  const failed = (error: unknown): never => {
    throw perEndpointError(name, endpoint, `failed: ${asError(error).message}`, error);
  };
  try {
    const answer = wanted(endpoint);
    return isPromise(answer) ? Promise.resolve(answer).then(check).catch(failed) : check(answer);
  } catch (error) {
    return failed(error);
  }
}

/** Whether a function's result is a promise. */
export function isPromise<T>(answer: T | Promise<T>): answer is Promise<T> {
  return typeof (answer as { readonly then?: unknown } | null | undefined)?.then === 'function';
}
