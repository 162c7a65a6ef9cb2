import type { IncomingHttpHeaders } from 'node:http';
import type { Duplex } from 'node:stream';
import { type Dispatcher, errors } from 'undici';
import { type HandlerV2, tellFailed, withRawHeaders } from './handler.js';

type Controller = Dispatcher.DispatchController;

/** What controllers of undici show of the head and the end of an answer. */
type RawHeaders = Buffer[] | string[] | IncomingHttpHeaders | null;

/** Where a `Relay` does something of its own. */
export interface RelayHooks {
  /** The controller the caller has. @defaultValue the one that is passed */
  readonly controller?: Controller;
  /** Told in place of the caller's handler. */
  started?(controller: Controller): void;
  failed?(error: Error): void;
  /** Before the caller's handler is told. */
  upgraded?(): void;
}

/** Passes what it is told on to the handler of a caller. */
export class Relay implements HandlerV2 {
  readonly #handler: HandlerV2;
  readonly #hooks: RelayHooks;

  constructor(handler: HandlerV2, hooks: RelayHooks) {
    this.#handler = handler;
    this.#hooks = hooks;
  }

  onRequestStart(controller: Controller, context?: unknown): void {
    if (this.#hooks.started !== undefined) this.#hooks.started(controller);
    else this.#handler.onRequestStart(controller, context);
  }

  onRequestUpgrade(controller: Controller, status: number, headers: IncomingHttpHeaders, socket: Duplex): void {
    this.#hooks.upgraded?.();
    this.#handler.onRequestUpgrade?.(this.#controllerOr(controller), status, headers, socket);
  }

  onResponseStarted(): void {
    this.#handler.onResponseStarted?.();
  }

  onResponseStart(controller: Controller, status: number, headers: IncomingHttpHeaders, statusText?: string): void {
    withRawHeaders(controller, headers);
    this.#handler.onResponseStart?.(this.#controllerOr(controller), status, headers, statusText);
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    this.#handler.onResponseData?.(this.#controllerOr(controller), chunk);
  }

  onResponseEnd(controller: Controller, trailers: IncomingHttpHeaders): void {
    this.#handler.onResponseEnd?.(this.#controllerOr(controller), trailers);
  }

  onResponseError(controller: Controller, error: Error): void {
    if (this.#hooks.failed !== undefined) this.#hooks.failed(error);
    else tellFailed(this.#handler, this.#controllerOr(controller), error);
  }

  onBodySent(chunk: unknown): void {
    this.#handler.onBodySent?.(chunk);
  }

  onRequestSent(): void {
    this.#handler.onRequestSent?.();
  }

  #controllerOr(controller: Controller): Controller {
    return this.#hooks.controller ?? controller;
  }
}

/**
 * The controller a caller has before it is known which attempt answers. It keeps the caller's requests until then, and passes
 * them on. A call is the controller of its own caller: one object less is allocated.
 */
export abstract class RelayedController implements Dispatcher.DispatchController {
  /** That of the attempt, once it has begun. */
  #answering: Controller | undefined;
  #pausedEarly = false;
  /** The caller's reason for giving up. */
  protected abortReason: Error | undefined;
  /** The caller heard of the end. */
  protected done = false;

  /** Ends the request with `reason`, which the caller has just given for the first time. */
  protected abstract giveUp(reason: Error): void;

  /** An attempt answers; its controller gets the caller's requests from now on. */
  protected answeredBy(controller: Controller | undefined): void {
    this.#answering = controller;
    if (this.#pausedEarly) controller?.pause();
  }

  get answering(): Controller | undefined {
    return this.#answering;
  }

  get aborted(): boolean {
    return this.abortReason !== undefined;
  }

  get reason(): Error | null {
    return this.abortReason ?? null;
  }

  get paused(): boolean {
    return this.#answering?.paused ?? this.#pausedEarly;
  }

  get rawHeaders(): RawHeaders {
    return this.#answering?.rawHeaders ?? null;
  }

  /** Interceptors that change an answer change these, too. */
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
    if (this.done || this.abortReason !== undefined) return;
    this.abortReason = reason ?? new errors.RequestAbortedError();
    this.giveUp(this.abortReason);
  }

  pause(): void {
    if (this.#answering === undefined) this.#pausedEarly = true;
    else this.#answering.pause();
  }

  resume(): void {
    this.#pausedEarly = false;
    this.#answering?.resume();
  }
}
