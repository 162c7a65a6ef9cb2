import { type Endpoint, endpointAddress } from '../endpoint/endpoint.js';
import { asError, EvenkeelError } from '../errors.js';

/** A value, or a function that returns it and is called for each new connection, because certificates are renewed and tokens expire. */
export type PerEndpoint<T> = T | ((endpoint: Endpoint) => T | Promise<T>);

const perEndpointErrors = new WeakSet<Error>();

/**
 * Whether `error` comes from an application's function that returns a value per endpoint. Such an error says nothing about the endpoint.
 */
export function isPerEndpointError(error: Error): boolean {
  return perEndpointErrors.has(error);
}

/**
 * Creates the EVENKEEL_OPTION error for the application's function in the option `name`. Its message contains no value, which may be
 * secret.
 */
export function perEndpointError(name: string, endpoint: Endpoint, why: string, cause?: unknown): EvenkeelError {
  const error = new EvenkeelError('EVENKEEL_OPTION', `the function given as "${name}" ${why}`, {
    cause,
    endpoint: endpointAddress(endpoint),
  });
  perEndpointErrors.add(error);
  return error;
}

/**
 * Calls the application's function in the option `name` and passes its result through `check`, which may throw for an invalid one. Whatever
 * either of them throws becomes EVENKEEL_OPTION. If the result is no promise, this function returns synchronously.
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
