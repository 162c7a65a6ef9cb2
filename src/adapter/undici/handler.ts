import type { IncomingHttpHeaders } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { HeaderOf } from '../http/pod-signals.js';
import { loadReportHeader, reportsHeader, type SharedTimers } from '../kit/index.js';
import { coreTakesHandlerV1 } from './internals.js';
import type { PodRequest } from './pod-pool.js';

type Controller = Dispatcher.DispatchController;

/** The newer handler form, which undici 8 and the `fetch` of Node 26 pass to a dispatcher. */
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

/** The older handler form, which undici 6 and 7 and the `fetch` of Node 20 to 24 pass to a dispatcher. */
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

/** The handler that undici gets for one attempt. It reports what happens to the attempt's owner, and passes the response to the caller. */
export interface AttemptHandler extends PodRequest {
  /** Aborts an attempt that undici has begun to send; undici then reports the attempt's failure. */
  interrupt(reason: Error): void;
}

/** The request of an attempt. A request that only waits for its destination has none of the optional members. */
export interface AttemptOwner {
  /** Whether the caller has been notified of its request's end, so that nothing more is sent. */
  readonly done: boolean;
  /** The reason with which the caller gave the request up. */
  readonly abortReason: Error | undefined;
  /** Whether other attempts of the request run beside this one, so that the caller gets the response that `takes` chooses. */
  readonly isRaced?: boolean;
  /** Whether responses are given up for their status. */
  readonly looksAtAnswers?: boolean;
  readonly timers?: SharedTimers;
  /** The attempt begins to be sent. If this method throws, the attempt fails with its error. */
  sending?(): void;
  /** The first byte of a response arrived, or the head of a response with this status. */
  responded?(status?: number): void;
  /**
   * The head of a final response arrived, which another pod's may replace. Returns whether the caller gets this response. If not, the request continues
   * without this attempt, which is over for its owner.
   */
  takes?(status: number, header: HeaderOf): boolean;
  /** The response that the caller gets is complete. */
  completed?(): void;
  /** The connection was upgraded, and belongs to the caller from now on. */
  upgraded?(status: number, socket: Duplex): void;
  /** The attempt failed. */
  attemptFailed?(error: Error): void;
}

/** Whether the owner of an attempt has to look at the head of a response: it is no plain success, or says something about its pod. */
export function mayBeGivenUp(status: number, header: HeaderOf, owner: AttemptOwner): boolean {
  if (status < 200) return false;
  if (status >= 500 || status === 429 || owner.isRaced === true) return true;
  if (status >= 400 && owner.looksAtAnswers === true) return true;
  return header(loadReportHeader) !== undefined || header(reportsHeader) !== undefined;
}

/** Errors that callers' code threw: a body while it was being sent, or a handler that got the response. */
const callersErrors = new WeakSet<object>();

/** Notes an error that a caller's code threw. undici aborts the attempt with that error, which may look like an error of the pod. */
export function markCallersError(error: unknown): void {
  if (typeof error === 'object' && error !== null) callersErrors.add(error);
}

/** Whether a caller's code threw `error`, which then does not count against the pod. */
export function isCallersError(error: unknown): boolean {
  return typeof error === 'object' && error !== null && callersErrors.has(error);
}

/** Adapts a handler of the older form to an undici that only takes the newer form. */
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

/** Converts a handler of either form to the newer form. */
export function asHandlerV2(handler: Dispatcher.DispatchHandler): HandlerV2 {
  return typeof handler.onRequestStart === 'function'
    ? (handler as HandlerV2)
    : new HandlerV1AsV2(handler as HandlerV1);
}

/**
 * Converts headers to a list of alternating names and values, as buffers. Each value of a repeated header gets an entry of its own: a list
 * in one entry would be joined into one value, which breaks Set-Cookie.
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
 * Notifies a handler of either form that its request failed before it began; throws the error if the handler has no method for that.
 * Returns true, as `dispatch` does when no caller has to wait.
 */
export function failAtOnce(handler: Dispatcher.DispatchHandler, error: Error): true {
  const isV2 = typeof handler.onRequestStart === 'function' || !coreTakesHandlerV1;
  if (isV2 && typeof handler.onResponseError === 'function') {
    handler.onResponseError(undefined as never, error);
  } else if (typeof handler.onError === 'function') handler.onError(error);
  else throw error;
  return true;
}

/** Notifies a handler that its request failed; throws the error if the handler has no method for that. */
export function tellFailed(handler: HandlerV2, controller: Controller, error: Error): void {
  if (handler.onResponseError === undefined) throw error;
  handler.onResponseError(controller, error);
}

/** Adds raw headers to a controller of undici before 7.28, which has none, because the `fetch` of Node 26 reads nothing else. */
export function withRawHeaders(controller: Controller, headers: IncomingHttpHeaders): void {
  if (controller.rawHeaders === undefined) Object.assign(controller, { rawHeaders: headers });
}
