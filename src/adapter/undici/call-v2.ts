import type { IncomingHttpHeaders } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Dispatcher } from 'undici';
import { outcomeOfAnswer } from '../http/answer.js';
import { loadReportHeader } from '../kit/index.js';
import { Call } from './call.js';
import type { CallOwner } from './call-owner.js';
import { type RawHeaders, withRawHeaders } from './raw-headers.js';
import { noContext } from './transport.js';

/** What undici 8 and the fetch of Node 26 pass to a dispatcher. */
export interface HandlerV2 {
  onRequestStart(controller: Dispatcher.DispatchController, context?: unknown): void;
  onRequestUpgrade?(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    socket: Duplex,
  ): void;
  onResponseStarted?(): void;
  onResponseStart?(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    statusText?: string,
  ): void;
  onResponseData?(controller: Dispatcher.DispatchController, chunk: Buffer): void;
  onResponseEnd?(controller: Dispatcher.DispatchController, trailers: IncomingHttpHeaders): void;
  onResponseError?(controller: Dispatcher.DispatchController, error: Error): void;
  onBodySent?(chunk: unknown): void;
  onRequestSent?(): void;
}

/** A call in the newer form. It is also the caller's controller, and passes the caller's requests on to that of the attempt. */
export class CallV2 extends Call implements Dispatcher.DispatchController {
  readonly #handler: HandlerV2;
  /** undici's controller of the attempt under way. */
  #controller: Dispatcher.DispatchController | undefined;
  /** The caller paused before there was anything to pause. */
  #pausedEarly = false;

  constructor(owner: CallOwner, options: Dispatcher.DispatchOptions, key: string | undefined, handler: HandlerV2) {
    super(owner, options, key);
    this.#handler = handler;
  }

  get aborted(): boolean {
    return this.abortReason !== undefined;
  }

  get reason(): Error | null {
    return this.abortReason ?? null;
  }

  get paused(): boolean {
    return this.#controller?.paused ?? this.#pausedEarly;
  }

  get rawHeaders(): RawHeaders {
    return this.#controller?.rawHeaders ?? null;
  }

  /** Interceptors that change an answer change these, too. */
  set rawHeaders(headers: RawHeaders) {
    if (this.#controller !== undefined) this.#controller.rawHeaders = headers;
  }

  get rawTrailers(): RawHeaders {
    return this.#controller?.rawTrailers ?? null;
  }

  set rawTrailers(trailers: RawHeaders) {
    if (this.#controller !== undefined) this.#controller.rawTrailers = trailers;
  }

  pause(): void {
    if (this.#controller === undefined) this.#pausedEarly = true;
    else this.#controller.pause();
  }

  resume(): void {
    this.#pausedEarly = false;
    this.#controller?.resume();
  }

  protected override announce(): void {
    this.#handler.onRequestStart(this, noContext);
  }

  protected override deliver(error: Error): void {
    if (this.#handler.onResponseError === undefined) throw error;
    this.#handler.onResponseError(this, error);
  }

  protected override interrupt(reason: Error): void {
    this.#controller?.abort(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.done) {
      controller.abort(this.abortReason as Error);
      return;
    }
    this.began();
    this.#controller = controller;
    if (this.#pausedEarly) controller.pause();
  }

  onResponseStarted(): void {
    this.responded();
    this.#handler.onResponseStarted?.();
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    statusText?: string,
  ): void {
    this.responded();
    withRawHeaders(controller, headers);
    const report = headers[loadReportHeader];
    if (status >= 500 || status === 429 || report !== undefined) {
      this.judged(outcomeOfAnswer(status, (name) => headers[name], report));
    }
    try {
      this.#handler.onResponseStart?.(this, status, headers, statusText);
    } catch (error) {
      this.threw(error);
      throw error;
    }
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    try {
      this.#handler.onResponseData?.(this, chunk);
    } catch (error) {
      this.threw(error);
      throw error;
    }
  }

  onResponseEnd(_controller: Dispatcher.DispatchController, trailers: IncomingHttpHeaders): void {
    this.completed();
    this.#handler.onResponseEnd?.(this, trailers);
  }

  onRequestUpgrade(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    socket: Duplex,
  ): void {
    // First, since undici's own handlers abort here what they take for refused: over HTTP/2 every answer comes this way.
    try {
      this.#handler.onRequestUpgrade?.(this, status, headers, socket);
    } catch (error) {
      this.threw(error);
      throw error;
    }
    if (!this.aborted) this.upgraded(status, socket);
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.attemptFailed(error);
  }

  onBodySent(chunk: unknown): void {
    this.#handler.onBodySent?.(chunk);
  }

  onRequestSent(): void {
    this.#handler.onRequestSent?.();
  }
}
