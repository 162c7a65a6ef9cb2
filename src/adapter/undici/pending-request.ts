import type { IncomingHttpHeaders } from 'node:http';
import type { Duplex } from 'node:stream';
import { type Dispatcher, errors } from 'undici';
import type { HandlerV2 } from './call-v2.js';
import { bodyOf } from './dispatch-options.js';
import { withRawHeaders } from './raw-headers.js';
import { RelayedController } from './relayed-controller.js';
import { noContext } from './transport.js';
import { unsentTeller } from './unsent-request.js';

/** Takes the request once it is known where it goes; a `dispatch`. */
export type Onward = (options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler) => boolean;

/**
 * A request whose destination is not known yet. Its caller is told of its start immediately, so that it can also abort the
 * request while it waits. Later it is between the caller and the handler of the request: it does not tell of the start again,
 * and passes the caller's wishes on.
 */
export class PendingRequest extends RelayedController implements HandlerV2 {
  readonly #options: Dispatcher.DispatchOptions;
  readonly #handler: HandlerV2;
  readonly #left: () => void;
  /** Tells those who trace requests that it fails, while undici does not know of it. */
  #tellUnsent: ((error: Error) => void) | undefined;
  #isHeld = true;

  /** `left` is told once, when the request is held no longer. */
  constructor(origin: string, options: Dispatcher.DispatchOptions, handler: HandlerV2, left: () => void) {
    super();
    this.#options = options;
    this.#handler = handler;
    this.#left = left;
    this.#tellUnsent = unsentTeller(origin, options);
  }

  /** Tells the caller that its request starts; the caller may abort it from within. */
  begin(): void {
    // undici watches the body only once it has the request: nobody else would hear it fail meanwhile.
    bodyOf(this.#options)?.on('error', this.#bodyFailed);
    try {
      this.#handler.onRequestStart(this, noContext);
    } catch (error) {
      this.fail(error as Error);
    }
  }

  /** Hands the request on, unless it has ended meanwhile. */
  release(onward: Onward): void {
    if (!this.#leave()) return;
    this.#tellUnsent = undefined;
    try {
      onward(this.#options, this as Dispatcher.DispatchHandler);
    } catch (error) {
      this.fail(error as Error);
    }
  }

  fail(error: Error): void {
    if (this.done) return;
    this.done = true;
    this.#tellUnsent?.(error);
    this.#leave();
    if (this.#handler.onResponseError === undefined) throw error;
    this.#handler.onResponseError(this, error);
  }

  protected override giveUp(reason: Error): void {
    // Its handler may be opening a connection, and would report only then.
    if (this.answering === undefined) this.fail(reason);
    else this.answering.abort(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.done) {
      controller.abort(this.abortReason ?? new errors.RequestAbortedError());
      return;
    }
    this.answeredBy(controller);
  }

  onResponseStarted(): void {
    this.#handler.onResponseStarted?.();
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    statusText?: string,
  ): void {
    withRawHeaders(controller, headers);
    this.#handler.onResponseStart?.(this, status, headers, statusText);
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#handler.onResponseData?.(this, chunk);
  }

  onResponseEnd(_controller: Dispatcher.DispatchController, trailers: IncomingHttpHeaders): void {
    this.#handler.onResponseEnd?.(this, trailers);
  }

  onRequestUpgrade(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
    socket: Duplex,
  ): void {
    this.#handler.onRequestUpgrade?.(this, status, headers, socket);
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.fail(error);
  }

  onBodySent(chunk: unknown): void {
    this.#handler.onBodySent?.(chunk);
  }

  onRequestSent(): void {
    this.#handler.onRequestSent?.();
  }

  readonly #bodyFailed = (error: Error): void => this.abort(error);

  #leave(): boolean {
    if (!this.#isHeld) return false;
    this.#isHeld = false;
    bodyOf(this.#options)?.off('error', this.#bodyFailed);
    this.#left();
    return !this.done;
  }
}
