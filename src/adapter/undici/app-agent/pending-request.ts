import { type Dispatcher, errors } from 'undici';
import { Caller } from '../caller.js';
import type { CallersRequest, HandlerV2 } from '../handler.js';
import { unsentTeller, watchBody } from '../unsent-request.js';

/** Takes the request once it is known where it goes; a `dispatch`. */
export type Onward = (options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler) => boolean;

/**
 * A request whose destination is not known yet. Its caller is told of its start immediately, so that it can also abort the
 * request while it waits.
 */
export class PendingRequest implements CallersRequest {
  /** Whether the caller has been told how the request ended. */
  done = false;
  abortReason: Error | undefined;
  readonly #options: Dispatcher.DispatchOptions;
  readonly #caller: Caller;
  readonly #left: () => void;
  /** Publishes the request's failure for tracing while undici does not know of the request. */
  #tellUnsent: ((error: Error) => void) | undefined;
  #unwatchBody: (() => void) | undefined;
  #isPending = true;

  /** @param left Called once, when the request no longer waits to learn where it goes. */
  constructor(origin: string, options: Dispatcher.DispatchOptions, handler: HandlerV2, left: () => void) {
    this.#options = options;
    this.#caller = new Caller(handler, this);
    this.#left = left;
    this.#tellUnsent = unsentTeller(origin, options);
  }

  /** Tells the caller that its request starts; the caller may abort it from within. */
  begin(): void {
    this.#unwatchBody = watchBody(this.#options, (error) => this.abort(error));
    try {
      this.#caller.announce();
    } catch (error) {
      this.fail(error as Error);
    }
  }

  /** Passes the waiting request on, unless it has ended meanwhile. */
  release(onward: Onward): void {
    if (!this.#leave()) return;
    this.#tellUnsent = undefined;
    try {
      onward(this.#options, this.#caller as Dispatcher.DispatchHandler);
    } catch (error) {
      this.fail(error as Error);
    }
  }

  fail(error: Error): void {
    if (this.done) return;
    this.done = true;
    this.#tellUnsent?.(error);
    this.#leave();
    this.#caller.fail(error);
  }

  abort(reason?: Error): void {
    if (this.done || this.abortReason !== undefined) return;
    this.abortReason = reason ?? new errors.RequestAbortedError();
    // The dispatcher of the Service may still be opening a connection, and would report the end only after that.
    if (this.#caller.isAnswered) this.#caller.interrupt(this.abortReason);
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
