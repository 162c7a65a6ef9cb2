import { type Dispatcher, errors } from 'undici';

/**
 * Checks what `dispatch` was given, as undici's own dispatchers do: they get to see our handler, which has every method,
 * and not the caller's. Returns what the handler is to be told; throws where there is none.
 */
export function faultOf(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): Error | undefined {
  if (typeof handler !== 'object' || handler === null) {
    throw new errors.InvalidArgumentError('handler must be an object');
  }
  if (typeof options !== 'object' || options === null)
    return new errors.InvalidArgumentError('opts must be an object.');
  if (!options.upgrade && options.method !== 'CONNECT') return undefined;
  // A connection that is upgraded for a handler that takes none would be nobody's, and stay open.
  const method = typeof handler.onRequestStart === 'function' ? 'onRequestUpgrade' : 'onUpgrade';
  return typeof handler[method] === 'function'
    ? undefined
    : new errors.InvalidArgumentError(`invalid ${method} method`);
}
