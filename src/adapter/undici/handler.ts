import type { IncomingHttpHeaders } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { HeaderOf } from '../http/answer.js';
import { coreTakesHandlerV1 } from './internals.js';
import type { PodClient, PodRequest } from './pod-pool.js';

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

/** What undici 6 and 7, and the fetch of Node 20 to 24, pass to a dispatcher. */
export interface HandlerV1 {
  onConnect?(abort: (reason?: Error) => void, context?: unknown): void;
  onResponseStarted?(): void;
  onHeaders?(status: number, headers: unknown, resume: () => void, statusText: string): boolean;
  onData?(chunk: Buffer): boolean;
  onComplete?(trailers: unknown): void;
  onUpgrade?(status: number, headers: unknown, socket: Duplex): void;
  onError?(error: Error): void;
  onBodySent?(chunk: unknown): void;
  onRequestSent?(): void;
}

/** The handler undici gets for each attempt of a call. It tells the call what happens, and passes the response on to the caller. */
export interface AttemptHandler extends PodRequest {
  /** Tells the caller that its request begins. The caller may abort it from within. */
  announce?(): void;
  /** Tells the caller that its request failed. May throw what the caller's code throws. */
  fail(error: Error): void;
  /** Aborts the attempt undici has begun to send; undici then reports its failure. */
  interrupt(reason: Error): void;
  /** Whether another attempt may follow. @defaultValue yes */
  readonly mayRepeat?: boolean;
}

/** The request behind a caller's side. It implements the optional methods it needs. */
export interface CallersRequest {
  /** Whether the caller has been told how its request ended: an abort then comes too late. */
  readonly done: boolean;
  /** The reason that the caller gave for giving the request up. */
  readonly abortReason: Error | undefined;
  abort(reason?: Error): void;
  /** An attempt begins. If this throws, the attempt fails with the error. */
  began?(): void;
  /** The first byte of a response arrived, or its head with a status. */
  responded?(status?: number): void;
  /** The head of the response may say something other than a plain success: then `isGivenUp` may be set. */
  judged?(status: number, header: HeaderOf): void;
  /** The request goes to another pod when the response to the running attempt is over, which the caller does not get. */
  readonly isGivenUp?: boolean;
  /** This many bytes of the discarded response have arrived. */
  discards?(bytes: number): void;
  /** The discarded response is complete, or broke off. */
  discarded?(error?: Error): void;
  /** The response is complete. */
  completed?(): void;
  /** The connection is the caller's own from now on. */
  upgraded?(status: number, socket: Duplex): void;
  /** The attempt failed. */
  attemptFailed?(error: Error): void;
  /** The attempt was given to this connection. */
  client?: PodClient | undefined;
}

/** Errors that callers' code threw: a body while it was sent, a handler while it got the response. */
const callersErrors = new WeakSet<object>();

/** Notes what a caller's code threw. undici aborts the attempt with it, and it may look like an error of the pod. */
export function markCallersError(error: unknown): void {
  if (typeof error === 'object' && error !== null) callersErrors.add(error);
}

/** Whether a caller's code threw `error`, which then says nothing about the pod. */
export function isCallersError(error: unknown): boolean {
  return typeof error === 'object' && error !== null && callersErrors.has(error);
}

/** Adapts a handler of the older form to an undici that only takes the newer one. */
export class HandlerV1AsV2 implements HandlerV2 {
  readonly #handler: HandlerV1;

  constructor(handler: HandlerV1) {
    this.#handler = handler;
  }

  onRequestStart(controller: Controller, context?: unknown): void {
    this.#handler.onConnect?.((reason) => controller.abort(reason as Error), context);
  }

  onResponseStarted(): void {
    this.#handler.onResponseStarted?.();
  }

  onResponseStart(controller: Controller, status: number, headers: IncomingHttpHeaders, statusText = ''): void {
    const raw = rawList(controller.rawHeaders, headers);
    if (this.#handler.onHeaders?.(status, raw, () => controller.resume(), statusText) === false) controller.pause();
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    if (this.#handler.onData?.(chunk) === false) controller.pause();
  }

  onResponseEnd(controller: Controller, trailers: IncomingHttpHeaders): void {
    this.#handler.onComplete?.(rawList(controller.rawTrailers, trailers));
  }

  onRequestUpgrade(controller: Controller, status: number, headers: IncomingHttpHeaders, socket: Duplex): void {
    this.#handler.onUpgrade?.(status, rawList(controller.rawHeaders, headers), socket);
  }

  onResponseError(_controller: Controller, error: Error): void {
    if (this.#handler.onError === undefined) throw error;
    this.#handler.onError(error);
  }

  onBodySent(chunk: unknown): void {
    this.#handler.onBodySent?.(chunk);
  }

  onRequestSent(): void {
    this.#handler.onRequestSent?.();
  }
}

/** Converts a handler of either form to the newer one. */
export function asHandlerV2(handler: Dispatcher.DispatchHandler): HandlerV2 {
  return typeof handler.onRequestStart === 'function'
    ? (handler as HandlerV2)
    : new HandlerV1AsV2(handler as HandlerV1);
}

/**
 * Headers as `[name, value, …]` of buffers. From an object, each value of a repeated header gets a pair of its own:
 * a list in one element would come out as one joined value, which breaks Set-Cookie.
 */
function rawList(raw: unknown, headers: IncomingHttpHeaders | undefined): unknown[] {
  if (Array.isArray(raw)) return raw;
  const list: Buffer[] = [];
  for (const [name, value] of Object.entries((raw ?? headers ?? {}) as IncomingHttpHeaders)) {
    if (value === undefined) continue;
    for (const item of Array.isArray(value) ? value : [value]) {
      list.push(Buffer.from(name, 'latin1'), Buffer.from(item, 'latin1'));
    }
  }
  return list;
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
