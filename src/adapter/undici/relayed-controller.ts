import { type Dispatcher, errors } from 'undici';
import type { RawHeaders } from './raw-headers.js';

/**
 * The controller a caller has before it is known which attempt answers. It keeps the caller's requests until then, and passes
 * them on. (A `CallV2` does the same for itself: it answers most requests, and one object less is allocated.)
 */
export abstract class RelayedController implements Dispatcher.DispatchController {
  /** That of who answers. */
  #answering: Dispatcher.DispatchController | undefined;
  #pausedEarly = false;
  /** The caller's reason for giving up. */
  protected abortReason: Error | undefined;
  /** The caller heard of the end. */
  protected done = false;

  /** Ends the request with `abortReason`, which the caller has just given for the first time. */
  protected abstract giveUp(reason: Error): void;

  /** An attempt answers; its controller gets the caller's requests from now on. */
  protected answeredBy(controller: Dispatcher.DispatchController | undefined): void {
    this.#answering = controller;
    if (this.#pausedEarly) controller?.pause();
  }

  /** The controller of who answers, once there is one. */
  protected get answering(): Dispatcher.DispatchController | undefined {
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
