import { Client, type Dispatcher, errors } from 'undici';
import { asError } from '../kit/index.js';
import { bodyOf } from './dispatch-options.js';
import { coreTakesHandlerV1 } from './transport.js';

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
  const upgrades = options.upgrade || options.method === 'CONNECT';
  const missing =
    typeof handler.onRequestStart === 'function'
      ? missingInModern(handler, upgrades)
      : missingInLegacy(handler, upgrades);
  if (missing === undefined) return undefined;
  // undici looks at the options first.
  return refusalOf(options) ?? new errors.InvalidArgumentError(`invalid ${missing} method`);
}

function missingInModern(handler: Dispatcher.DispatchHandler, upgrades: unknown): string | undefined {
  // undici 7 looks at none of them.
  if (!coreTakesHandlerV1) {
    if (typeof handler.onResponseError !== 'function') return 'onResponseError';
    const missing = wrongOf(handler, 'onBodySent') ?? wrongOf(handler, 'onRequestSent');
    if (missing !== undefined) return missing;
  }
  // A connection that is upgraded for a handler that takes none would be nobody's, and stay open.
  if (upgrades) return typeof handler.onRequestUpgrade === 'function' ? undefined : 'onRequestUpgrade';
  if (coreTakesHandlerV1) return undefined;
  if (typeof handler.onResponseStart !== 'function') return 'onResponseStart';
  if (typeof handler.onResponseData !== 'function') return 'onResponseData';
  return typeof handler.onResponseEnd === 'function' ? undefined : 'onResponseEnd';
}

function missingInLegacy(handler: Dispatcher.DispatchHandler, upgrades: unknown): string | undefined {
  if (typeof handler.onConnect !== 'function') return coreTakesHandlerV1 ? 'onConnect' : 'onRequestStart';
  if (typeof handler.onError !== 'function') return 'onError';
  if (wrongOf(handler, 'onBodySent')) return 'onBodySent';
  if (upgrades) return typeof handler.onUpgrade === 'function' ? undefined : 'onUpgrade';
  if (typeof handler.onHeaders !== 'function') return 'onHeaders';
  if (typeof handler.onData !== 'function') return 'onData';
  return typeof handler.onComplete === 'function' ? undefined : 'onComplete';
}

/** `name`, if it is there and no function. */
function wrongOf(handler: object, name: string): string | undefined {
  const method: unknown = Reflect.get(handler, name);
  return method === undefined || typeof method === 'function' ? undefined : name;
}

/** Never connects: nothing that is given to it is taken. */
let judge: Client | undefined;
/** What undici says of a handler without methods, which it looks at last. */
const ofHandler = /^invalid on\w+ method$/;

/**
 * What undici would refuse a request for at `dispatch`. For those that do not come to it at once, since they have to wait.
 */
export function refusalOf(options: Dispatcher.DispatchOptions): Error | undefined {
  judge ??= new Client('http://nobody.invalid', { connect: (_options, dialled) => dialled(new Error('none'), null) });
  // It would listen to a stream.
  const asked = bodyOf(options) === undefined ? options : { ...options, body: null };
  try {
    judge.dispatch(asked, {});
  } catch (error) {
    const refusal = asError(error);
    return ofHandler.test(refusal.message) ? undefined : refusal;
  }
  return undefined;
}
