import { type Dispatcher, errors } from 'undici';
import { noContext } from '../compatibility.js';
import { type HandlerV2, tellFailed } from '../handler.js';
import { Relay, RelayedController } from '../relay.js';
import { bodyOf } from '../request-body.js';
import { unsentTeller } from '../unsent-request.js';

/** Takes the request once it is known where it goes; a `dispatch`. */
export type Onward = (options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler) => boolean;

/**
 * A request whose destination is not known yet. Its caller is told of its start immediately, so that it can also abort the
 * request while it waits. Later it is between the caller and the handler of the request: it does not tell of the start again,
 * and passes the caller's wishes on.
 */
export class PendingRequest extends RelayedController {
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
      const relay = new Relay(this.#handler, {
        controller: this,
        started: (controller) => this.#started(controller),
        failed: (error) => this.fail(error),
      });
      onward(this.#options, relay as Dispatcher.DispatchHandler);
    } catch (error) {
      this.fail(error as Error);
    }
  }

  fail(error: Error): void {
    if (this.done) return;
    this.done = true;
    this.#tellUnsent?.(error);
    this.#leave();
    tellFailed(this.#handler, this, error);
  }

  protected override giveUp(reason: Error): void {
    // Its handler may be opening a connection, and would report only then.
    if (this.answering === undefined) this.fail(reason);
    else this.answering.abort(reason);
  }

  #started(controller: Dispatcher.DispatchController): void {
    if (this.done) controller.abort(this.abortReason ?? new errors.RequestAbortedError());
    else this.answeredBy(controller);
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
