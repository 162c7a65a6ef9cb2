import type { IncomingHttpHeaders } from 'node:http';
import type { Duplex } from 'node:stream';
import { type Dispatcher, errors } from 'undici';
import { loadReportHeader, reportsHeader } from '../kit/index.js';
import {
  type AttemptHandler,
  type CallersRequest,
  type HandlerV2,
  markCallersError,
  tellFailed,
  withRawHeaders,
} from './handler.js';
import { noContext } from './internals.js';
import type { PodClient } from './pod-pool.js';

type Controller = Dispatcher.DispatchController;

/** Headers or trailers in the raw forms that undici's controllers expose. */
type RawHeaders = Buffer[] | string[] | IncomingHttpHeaders | null;

/**
 * The caller's side of a request. It is the controller that the caller gets, and also the handler that undici gets for each attempt, which
 * passes the response on to the caller's own handler.
 *
 * The caller gets its controller before it is known which attempt will answer, so that it can abort while the request waits or a connection
 * opens. Until then the controller remembers whether the caller paused or aborted.
 */
export class Caller implements HandlerV2, Dispatcher.DispatchController, AttemptHandler {
  readonly handler: HandlerV2;
  readonly #request: CallersRequest;
  /** The controller of the attempt whose response the caller gets, once that attempt has begun. */
  #answering: Controller | undefined = undefined;
  #pausedEarly = false;

  constructor(handler: HandlerV2, request: CallersRequest) {
    this.handler = handler;
    this.#request = request;
  }

  /** Notifies the caller that its request begins. The caller may abort the request in that very call. */
  announce(): void {
    this.handler.onRequestStart(this, noContext);
  }

  /** Notifies the caller that its request failed. Throws what the caller's handler throws. */
  fail(error: Error): void {
    tellFailed(this.handler, this, error);
  }

  /** Aborts an attempt that undici has begun to send; undici then reports the attempt's failure. */
  interrupt(reason: Error): void {
    this.#answering?.abort(reason);
  }

  /** Whether an attempt has begun whose response the caller will get. */
  get isAnswered(): boolean {
    return this.#answering !== undefined;
  }

  /** Connects the caller to the controller of the attempt that answers it: from now on, pauses and aborts go there. */
  answeredBy(controller: Controller | undefined): void {
    this.#answering = controller;
    if (this.#pausedEarly) controller?.pause();
  }

  // The methods that follow are those of an undici handler; undici calls them.

  onRequestStart(controller: Controller): void {
    const request = this.#request;
    if (request.done) {
      controller.abort(request.abortReason ?? new errors.RequestAbortedError());
      return;
    }
    request.began?.();
    this.answeredBy(controller);
  }

  onResponseStarted(): void {
    this.#request.responded?.();
    this.handler.onResponseStarted?.();
  }

  onResponseStart(controller: Controller, status: number, headers: IncomingHttpHeaders, statusText?: string): void {
    const request = this.#request;
    request.responded?.(status);
    if (controller.rawHeaders === undefined) withRawHeaders(controller, headers);
    const isReporting = headers[loadReportHeader] !== undefined || headers[reportsHeader] !== undefined;
    if (status >= 500 || status === 429 || isReporting) {
      request.judged?.(status, (name) => headers[name]);
      if (request.isDiscarding === true) {
        this.#endPause(controller);
        return;
      }
    }
    try {
      this.handler.onResponseStart?.(this, status, headers, statusText);
    } catch (error) {
      markCallersError(error);
      throw error;
    }
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    const request = this.#request;
    if (request.isDiscarding === true) {
      request.discards?.(chunk.length);
      return;
    }
    try {
      this.handler.onResponseData?.(this, chunk);
    } catch (error) {
      markCallersError(error);
      throw error;
    }
  }

  onResponseEnd(_controller: Controller, trailers: IncomingHttpHeaders): void {
    const request = this.#request;
    if (request.isDiscarding === true) {
      request.discarded?.();
      return;
    }
    request.completed?.();
    this.handler.onResponseEnd?.(this, trailers);
  }

  onRequestUpgrade(_controller: Controller, status: number, headers: IncomingHttpHeaders, socket: Duplex): void {
    const request = this.#request;
    // The caller's handler is called first: undici's own handlers abort here if the upgrade was refused, and over HTTP/2 every response
    // arrives this way.
    try {
      this.handler.onRequestUpgrade?.(this, status, headers, socket);
    } catch (error) {
      markCallersError(error);
      throw error;
    }
    if (!this.aborted) request.upgraded?.(status, socket);
  }

  onResponseError(_controller: Controller, error: Error): void {
    const request = this.#request;
    if (request.isDiscarding === true) request.discarded?.(error);
    else request.attemptFailed?.(error);
  }

  onBodySent(chunk: unknown): void {
    this.handler.onBodySent?.(chunk);
  }

  onRequestSent(): void {
    this.handler.onRequestSent?.();
  }

  onClient(client: PodClient): void {
    this.#request.client = client;
  }

  // The methods that follow are those of an undici controller; the caller calls them.

  get aborted(): boolean {
    return this.#request.abortReason !== undefined;
  }

  get reason(): Error | null {
    return this.#request.abortReason ?? null;
  }

  get paused(): boolean {
    return this.#answering?.paused ?? this.#pausedEarly;
  }

  get rawHeaders(): RawHeaders {
    return this.#answering?.rawHeaders ?? null;
  }

  /** Passes raw headers on to the attempt's controller, for interceptors that change a response. */
  set rawHeaders(headers: RawHeaders) {
    if (this.#answering !== undefined) this.#answering.rawHeaders = headers;
  }

  get rawTrailers(): RawHeaders {
    return this.#answering?.rawTrailers ?? null;
  }

  set rawTrailers(trailers: RawHeaders) {
    if (this.#answering !== undefined) this.#answering.rawTrailers = trailers;
  }

  abort(reason?: Error): void {
    this.#request.abort(reason);
  }

  pause(): void {
    if (this.#answering === undefined || this.#request.isDiscarding === true) this.#pausedEarly = true;
    else this.#answering.pause();
  }

  resume(): void {
    this.#pausedEarly = false;
    this.#answering?.resume();
  }

  /** Resumes a discarded response, which has to come to its end, and keeps the caller's pause for the response that the caller gets. */
  #endPause(controller: Controller): void {
    if (!controller.paused) return;
    this.#pausedEarly = true;
    controller.resume();
  }
}
