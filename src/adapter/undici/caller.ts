import type { IncomingHttpHeaders } from 'node:http';
import type { Duplex } from 'node:stream';
import { type Dispatcher, errors } from 'undici';
import { takeOwnHeaders, withoutOwnHeaders } from '../http/answer.js';
import type { HeaderOf } from '../http/pod-signals.js';
import type { SharedTimers } from '../kit/index.js';
import { AttemptHandlerV1 } from './attempt-v1.js';
import { DiscardedResponse } from './discarded-response.js';
import {
  type AttemptHandler,
  type AttemptOwner,
  type HandlerV1,
  HandlerV1AsV2,
  type HandlerV2,
  markCallersError,
  mayBeGivenUp,
  tellFailed,
  withRawHeaders,
} from './handler.js';
import { coreTakesHandlerV1, noContext } from './internals.js';
import type { PodClient } from './pod-pool.js';

type Controller = Dispatcher.DispatchController;

/** Headers or trailers in the raw forms that undici's controllers expose. */
type RawHeaders = Buffer[] | string[] | IncomingHttpHeaders | null;

/** A request that its caller may give up. */
export interface Abortable {
  /** The reason with which the caller gave the request up. */
  readonly abortReason: Error | undefined;
  abort(reason?: Error): void;
}

/** The caller of a request, whichever form its handler has. */
export interface CallersSide {
  /** Notifies the caller that its request begins. The caller may abort the request in that very call. */
  announce(): void;
  /** Notifies the caller that its request failed. Throws what the caller's handler throws. */
  fail(error: Error): void;
  /** Creates the handler that undici gets for an attempt of the request. */
  attempt(owner: AttemptOwner): AttemptHandler;
}

/** Returns the caller's side for a handler of either form, which stays in its form if undici takes that. */
export function callerOf(handler: Dispatcher.DispatchHandler, request: Abortable): CallersSide {
  if (typeof handler.onRequestStart === 'function') return new Caller(handler as HandlerV2, request);
  const older = handler as HandlerV1;
  return coreTakesHandlerV1 ? new CallerV1(older, request) : new Caller(new HandlerV1AsV2(older), request);
}

/**
 * The caller of a request, and the controller that it gets. The caller gets it before it is known which attempt will answer, so that it can
 * abort while the request waits or a connection opens. Until then the controller remembers whether the caller paused.
 */
export class Caller implements CallersSide, Controller {
  readonly handler: HandlerV2;
  readonly #request: Abortable;
  /** The controller of the attempt whose response the caller gets, once that attempt has begun. */
  #answering: Controller | undefined = undefined;
  #isPaused = false;

  constructor(handler: HandlerV2, request: Abortable) {
    this.handler = handler;
    this.#request = request;
  }

  announce(): void {
    this.handler.onRequestStart(this, noContext);
  }

  fail(error: Error): void {
    tellFailed(this.handler, this, error);
  }

  attempt(owner: AttemptOwner): AttemptHandlerV2 {
    return new AttemptHandlerV2(this, owner);
  }

  /** Connects the caller to the attempt that answers it: from now on, pauses go there. */
  answeredBy(controller: Controller): void {
    this.#answering = controller;
    if (this.#isPaused) controller.pause();
  }

  /** The response of an attempt is given up, for that of another. */
  leftBy(controller: Controller): void {
    if (this.#answering === controller) this.#answering = undefined;
  }

  // The members that follow are those of an undici controller; the caller uses them.

  get aborted(): boolean {
    return this.#request.abortReason !== undefined;
  }

  get reason(): Error | null {
    return this.#request.abortReason ?? null;
  }

  get paused(): boolean {
    return this.#answering?.paused ?? this.#isPaused;
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
    this.#isPaused = true;
    this.#answering?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#answering?.resume();
  }
}

/** The handler that undici gets for one attempt, in the newer form. Its response goes to the caller, or is discarded. */
export class AttemptHandlerV2 implements AttemptHandler, HandlerV2 {
  readonly #caller: Caller;
  readonly #owner: AttemptOwner;
  #controller: Controller | undefined = undefined;
  #client: PodClient | undefined = undefined;
  #discarded: DiscardedResponse | undefined = undefined;

  constructor(caller: Caller, owner: AttemptOwner) {
    this.#caller = caller;
    this.#owner = owner;
  }

  get hasBegun(): boolean {
    return this.#controller !== undefined;
  }

  interrupt(reason: Error): void {
    this.#controller?.abort(reason);
  }

  onRequestStart(controller: Controller): void {
    const owner = this.#owner;
    if (owner.done) {
      controller.abort(owner.abortReason ?? new errors.RequestAbortedError());
      return;
    }
    owner.sending?.();
    this.#controller = controller;
    if (owner.isRaced !== true) this.#caller.answeredBy(controller);
  }

  onResponseStarted(): void {
    this.#owner.responded?.();
    if (this.#owner.isRaced !== true) this.#caller.handler.onResponseStarted?.();
  }

  onResponseStart(controller: Controller, status: number, headers: IncomingHttpHeaders, statusText?: string): void {
    const owner = this.#owner;
    const caller = this.#caller;
    owner.responded?.(status);
    withRawHeaders(controller, headers);
    const header = (name: string): unknown => headers[name];
    if (mayBeGivenUp(status, header, owner)) {
      if (owner.takes?.(status, header) === false) {
        this.#discard(controller, header);
        return;
      }
      if (owner.isRaced === true) {
        caller.answeredBy(controller);
        caller.handler.onResponseStarted?.();
      }
    }
    hideOwnHeaders(controller, headers);
    try {
      caller.handler.onResponseStart?.(caller, status, headers, statusText);
    } catch (error) {
      markCallersError(error);
      throw error;
    }
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    if (this.#discarded !== undefined) {
      this.#discarded.add(chunk.length);
      return;
    }
    try {
      this.#caller.handler.onResponseData?.(this.#caller, chunk);
    } catch (error) {
      markCallersError(error);
      throw error;
    }
  }

  onResponseEnd(_controller: Controller, trailers: IncomingHttpHeaders): void {
    this.#client?.responseEnded();
    if (this.#discarded !== undefined) {
      this.#discarded.over();
      return;
    }
    this.#owner.completed?.();
    this.#caller.handler.onResponseEnd?.(this.#caller, trailers);
  }

  onRequestUpgrade(controller: Controller, status: number, headers: IncomingHttpHeaders, socket: Duplex): void {
    hideOwnHeaders(controller, headers);
    // The caller's handler is called first: undici's own handlers abort here if the upgrade was refused, and over HTTP/2 every response
    // arrives this way.
    try {
      this.#caller.handler.onRequestUpgrade?.(this.#caller, status, headers, socket);
    } catch (error) {
      markCallersError(error);
      throw error;
    }
    if (!this.#caller.aborted) this.#owner.upgraded?.(status, socket);
  }

  onResponseError(_controller: Controller, error: Error): void {
    if (this.#discarded !== undefined) this.#discarded.over();
    else this.#owner.attemptFailed?.(error);
  }

  #discard(controller: Controller, header: HeaderOf): void {
    const owner = this.#owner;
    this.#caller.leftBy(controller);
    // This response has to come to its end even if the caller has paused the one that it will get.
    if (controller.paused) controller.resume();
    this.#discarded = new DiscardedResponse(owner.timers as SharedTimers, (reason) => controller.abort(reason));
    this.#discarded.declared(header('content-length'));
  }

  onBodySent(chunk: unknown): void {
    if (this.#discarded === undefined) this.#caller.handler.onBodySent?.(chunk);
  }

  onRequestSent(): void {
    if (this.#discarded === undefined) this.#caller.handler.onRequestSent?.();
  }

  onClient(client: PodClient): void {
    this.#client = client;
  }
}

/** Hides evenkeel's own headers from whoever reads the response's headers in either form. */
function hideOwnHeaders(controller: Controller, headers: IncomingHttpHeaders): void {
  if (!takeOwnHeaders(headers)) return;
  const { rawHeaders } = controller;
  if (Array.isArray(rawHeaders)) controller.rawHeaders = withoutOwnHeaders<unknown>(rawHeaders) as Buffer[];
  else if (rawHeaders !== null) takeOwnHeaders(rawHeaders as IncomingHttpHeaders);
}

/** A caller with a handler of the older form, for an undici that takes that form: nothing is translated, and headers are parsed once. */
class CallerV1 implements CallersSide {
  readonly #handler: HandlerV1;
  readonly #request: Abortable;

  constructor(handler: HandlerV1, request: Abortable) {
    this.#handler = handler;
    this.#request = request;
  }

  announce(): void {
    this.#handler.onConnect?.((reason) => this.#request.abort(reason));
  }

  fail(error: Error): void {
    if (this.#handler.onError === undefined) throw error;
    this.#handler.onError(error);
  }

  attempt(owner: AttemptOwner): AttemptHandlerV1 {
    return new AttemptHandlerV1(this.#handler, owner);
  }
}
