import { type Dispatcher, errors } from 'undici';
import { type AttemptHandlerV2, Caller } from '../caller.js';
import type { AttemptOwner, HandlerV2 } from '../handler.js';
import { unsentTeller, watchBody } from '../unsent-request.js';

/** A `dispatch` function that takes a waiting request once its destination is known. */
export type Onward = (options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler) => boolean;

/** A request whose destination is not known yet. Its caller is notified of its start immediately, and so can abort it while it waits. */
export class PendingRequest implements AttemptOwner {
  /** Whether the caller has been notified of the request's end. */
  done = false;
  abortReason: Error | undefined;
  readonly #options: Dispatcher.DispatchOptions;
  readonly #caller: Caller;
  /** What the request's destination has got; undefined while the destination is not known. */
  #attempt: AttemptHandlerV2 | undefined;
  readonly #left: () => void;
  /** Publishes a failure of the request on undici's diagnostics channels, as long as undici itself does not know of the request. */
  #publishFailure: ((error: Error) => void) | undefined;
  #unwatchBody: (() => void) | undefined;
  #isPending = true;

  /** @param left Called once, when the request's destination is known or the request has ended. */
  constructor(origin: string, options: Dispatcher.DispatchOptions, handler: HandlerV2, left: () => void) {
    this.#options = options;
    this.#caller = new Caller(handler, this);
    this.#left = left;
    this.#publishFailure = unsentTeller(origin, options);
  }

  /** Notifies the caller that its request starts; the caller may abort the request in that very call. */
  begin(): void {
    this.#unwatchBody = watchBody(this.#options, (error) => this.abort(error));
    try {
      this.#caller.announce();
    } catch (error) {
      this.fail(error as Error);
    }
  }

  /** Passes the waiting request on to its destination, unless it has ended meanwhile. */
  release(onward: Onward): void {
    if (!this.#leave()) return;
    this.#publishFailure = undefined;
    try {
      this.#attempt = this.#caller.attempt(this);
      onward(this.#options, this.#attempt as Dispatcher.DispatchHandler);
    } catch (error) {
      this.fail(error as Error);
    }
  }

  fail(error: Error): void {
    if (this.done) return;
    this.done = true;
    this.#publishFailure?.(error);
    this.#leave();
    this.#caller.fail(error);
  }

  abort(reason?: Error): void {
    if (this.done || this.abortReason !== undefined) return;
    this.abortReason = reason ?? new errors.RequestAbortedError();
    // The Service's dispatcher may still be opening a connection, and would report the end of the request only after that.
    if (this.#attempt?.hasBegun === true) this.#attempt.interrupt(this.abortReason);
    else this.fail(this.abortReason);
  }

  attemptFailed(error: Error): void {
    this.fail(error);
  }

  #leave(): boolean {
    if (!this.#isPending) return false;
    this.#isPending = false;
    this.#unwatchBody?.();
    this.#left();
    return !this.done;
  }
}
