import type { IncomingHttpHeaders } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Dispatcher } from 'undici';
import { loadReportHeader } from '../kit/index.js';
import type { Call } from './call.js';
import { markCallersError } from './callers-errors.js';
import type { AttemptHandler, HandlerV2 } from './handler.js';
import type { PodClient, PodRequest } from './pod-pool.js';

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

/** Adapts a handler of the older form to an undici that only takes the newer one. */
export class HandlerV1AsV2 implements HandlerV2 {
  readonly #handler: HandlerV1;

  constructor(handler: HandlerV1) {
    this.#handler = handler;
  }

  onRequestStart(controller: Dispatcher.DispatchController, context?: unknown): void {
    this.#handler.onConnect?.((reason) => controller.abort(reason as Error), context);
  }

  onResponseStarted(): void {
    this.#handler.onResponseStarted?.();
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    statusText = '',
  ): void {
    const raw = rawList(controller.rawHeaders, headers);
    if (this.#handler.onHeaders?.(status, raw, () => controller.resume(), statusText) === false) controller.pause();
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#handler.onData?.(chunk) === false) controller.pause();
  }

  onResponseEnd(controller: Dispatcher.DispatchController, trailers: IncomingHttpHeaders): void {
    this.#handler.onComplete?.(rawList(controller.rawTrailers, trailers));
  }

  onRequestUpgrade(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    socket: Duplex,
  ): void {
    this.#handler.onUpgrade?.(status, rawList(controller.rawHeaders, headers), socket);
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
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

/**
 * The caller's side of a request if both the caller and undici (7) use the older form: nothing is translated, and headers are not
 * parsed twice. `Caller` is the same for the newer form.
 */
export class CallerV1 implements HandlerV1, AttemptHandler, PodRequest {
  readonly #handler: HandlerV1;
  readonly #call: Call;
  #abort: ((reason: Error) => void) | undefined = undefined;
  /** Nobody wants the response to the attempt under way. */
  #isDiscarding = false;

  constructor(handler: HandlerV1, call: Call) {
    this.#handler = handler;
    this.#call = call;
  }

  announce(): void {
    this.#handler.onConnect?.((reason) => this.#call.abort(reason));
  }

  fail(error: Error): void {
    if (this.#handler.onError === undefined) throw error;
    this.#handler.onError(error);
  }

  interrupt(reason: Error): void {
    this.#abort?.(reason);
  }

  onConnect(abort: (reason?: Error) => void): void {
    const call = this.#call;
    if (call.done) {
      abort(call.abortReason);
      return;
    }
    call.began();
    this.#isDiscarding = false;
    this.#abort = abort;
  }

  onResponseStarted(): void {
    this.#call.responded();
    this.#handler.onResponseStarted?.();
  }

  onHeaders(status: number, headers: unknown, resume: () => void, statusText: string): boolean {
    const call = this.#call;
    call.responded(status);
    if (status >= 500 || status === 429 || rawHeader(headers, loadReportHeader) !== undefined) {
      this.#isDiscarding = call.judged(status, (name) => rawHeader(headers, name));
      if (this.#isDiscarding) return true;
    }
    try {
      return this.#handler.onHeaders!(status, headers, resume, statusText);
    } catch (error) {
      markCallersError(error);
      throw error;
    }
  }

  onData(chunk: Buffer): boolean {
    if (this.#isDiscarding) return true;
    try {
      return this.#handler.onData!(chunk);
    } catch (error) {
      markCallersError(error);
      throw error;
    }
  }

  onComplete(trailers: unknown): void {
    if (this.#isDiscarding) {
      this.#move();
      return;
    }
    this.#call.completed();
    this.#handler.onComplete!(trailers);
  }

  onUpgrade(status: number, headers: unknown, socket: Duplex): void {
    this.#call.upgraded(status, socket);
    this.#handler.onUpgrade!(status, headers, socket);
  }

  onError(error: Error): void {
    if (this.#isDiscarding) this.#move(error);
    else this.#call.attemptFailed(error);
  }

  /** The next attempt may fail before undici tells that it begins. */
  #move(error?: Error): void {
    this.#isDiscarding = false;
    this.#call.moved(error);
  }

  onBodySent(chunk: unknown): void {
    this.#handler.onBodySent?.(chunk);
  }

  onRequestSent(): void {
    this.#handler.onRequestSent?.();
  }

  onClient(client: PodClient): void {
    this.#call.client = client;
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

/** The value of one header in undici's raw form, `[name, value, …]` of buffers or strings. */
export function rawHeader(headers: unknown, wanted: string): string | undefined {
  if (!Array.isArray(headers)) return undefined;
  for (let index = 0; index + 1 < headers.length; index += 2) {
    const name = headers[index] as Buffer | string;
    if (name.length === wanted.length && name.toString().toLowerCase() === wanted) return String(headers[index + 1]);
  }
  return undefined;
}
