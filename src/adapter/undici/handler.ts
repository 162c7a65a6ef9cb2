import type { IncomingHttpHeaders } from 'node:http';
import type { Duplex } from 'node:stream';
import { type Dispatcher, errors } from 'undici';
import { coreTakesHandlerV1 } from './compatibility.js';
import { refusalOf } from './request-options.js';

type Controller = Dispatcher.DispatchController;

/** What undici 8 and the fetch of Node 26 pass to a dispatcher. */
export interface HandlerV2 {
  onRequestStart(controller: Controller, context?: unknown): void;
  onRequestUpgrade?(controller: Controller, status: number, headers: IncomingHttpHeaders, socket: Duplex): void;
  onResponseStarted?(): void;
  onResponseStart?(controller: Controller, status: number, headers: IncomingHttpHeaders, statusText?: string): void;
  onResponseData?(controller: Controller, chunk: Buffer): void;
  onResponseEnd?(controller: Controller, trailers: IncomingHttpHeaders): void;
  onResponseError?(controller: Controller, error: Error): void;
  onBodySent?(chunk: unknown): void;
  onRequestSent?(): void;
}

/**
 * The handler undici gets for each attempt of a call. It tells the call what happens, and passes the response on in the form of the
 * caller's handler.
 */
export interface AttemptHandler {
  /** Tells the caller that its request begins. The caller may abort it from within. */
  announce?(): void;
  /** Tells the caller that its request failed. May throw what the caller's code throws. */
  fail(error: Error): void;
  /** Aborts the attempt undici has begun to send; undici then reports its failure. */
  interrupt(reason: Error): void;
  /** Whether another attempt may follow. @defaultValue yes */
  readonly mayRepeat?: boolean;
}

/**
 * Checks the arguments of `dispatch` as undici's own dispatchers do, because they only see our handler, which has every method.
 * Returns the error to pass to the handler; throws if there is no handler.
 */
export function faultOf(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): Error | undefined {
  if (typeof handler !== 'object' || handler === null) {
    throw new errors.InvalidArgumentError('handler must be an object');
  }
  if (typeof options !== 'object' || options === null)
    return new errors.InvalidArgumentError('opts must be an object.');
  const upgrades = options.upgrade || options.method === 'CONNECT';
  const missing =
    typeof handler.onRequestStart === 'function' ? missingInV2(handler, upgrades) : missingInV1(handler, upgrades);
  if (missing === undefined) return undefined;
  // undici checks the options first.
  return refusalOf(options) ?? new errors.InvalidArgumentError(`invalid ${missing} method`);
}

function missingInV2(handler: Dispatcher.DispatchHandler, upgrades: unknown): string | undefined {
  // undici 7 checks none of them.
  if (!coreTakesHandlerV1) {
    if (typeof handler.onResponseError !== 'function') return 'onResponseError';
    const missing = wrongOf(handler, 'onBodySent') ?? wrongOf(handler, 'onRequestSent');
    if (missing !== undefined) return missing;
  }
  // A connection upgraded for a handler that does not accept it would have no owner, and stay open.
  if (upgrades) return typeof handler.onRequestUpgrade === 'function' ? undefined : 'onRequestUpgrade';
  if (coreTakesHandlerV1) return undefined;
  if (typeof handler.onResponseStart !== 'function') return 'onResponseStart';
  if (typeof handler.onResponseData !== 'function') return 'onResponseData';
  return typeof handler.onResponseEnd === 'function' ? undefined : 'onResponseEnd';
}

function missingInV1(handler: Dispatcher.DispatchHandler, upgrades: unknown): string | undefined {
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

/**
 * Tells a handler of either form that its request fails before it began; throws if the handler cannot be told. Returns true, as
 * `dispatch` does if nobody has to wait.
 */
export function refuse(handler: Dispatcher.DispatchHandler, error: Error): true {
  const isV2 = typeof handler.onRequestStart === 'function' || !coreTakesHandlerV1;
  if (isV2 && typeof handler.onResponseError === 'function') {
    handler.onResponseError(undefined as never, error);
  } else if (typeof handler.onError === 'function') handler.onError(error);
  else throw error;
  return true;
}

/** Tells a handler that its request failed; throws if it cannot be told. */
export function tellFailed(handler: HandlerV2, controller: Controller, error: Error): void {
  if (handler.onResponseError === undefined) throw error;
  handler.onResponseError(controller, error);
}

/** Before 7.28, undici's controllers have no raw headers, and the fetch of Node 26 reads nothing else. */
export function withRawHeaders(controller: Controller, headers: IncomingHttpHeaders): void {
  if (controller.rawHeaders === undefined) Object.assign(controller, { rawHeaders: headers });
}
