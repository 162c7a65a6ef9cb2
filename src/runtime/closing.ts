import { offAbort, onAbort } from './abort-listeners.js';

/**
 * The state of something that is closed gracefully. `close` may be called several times; if a signal passed to any of these calls aborts,
 * the closing is no longer graceful.
 */
export class Closing {
  readonly #finish: () => Promise<void>;
  readonly #cut: () => void;
  #closed: Promise<void> | undefined;

  /**
   * @param finish Waits until running work has ended. It never rejects.
   * @param cut Ends running work at once. It may be called while `finish` is waiting.
   */
  constructor(finish: () => Promise<void>, cut: () => void) {
    this.#finish = finish;
    this.#cut = cut;
  }

  /** Whether `close` has been called. */
  get hasBegun(): boolean {
    return this.#closed !== undefined;
  }

  /** Waits for running work to end, or ends it at once when `signal` aborts. Every call returns the same promise. */
  close(signal: AbortSignal | undefined): Promise<void> {
    const closed = this.#closed ?? this.#begin();
    if (signal?.aborted) this.#cut();
    else if (signal !== undefined) {
      const cut = this.#cut;
      onAbort(signal, cut);
      void closed.then(() => offAbort(signal, cut));
    }
    return closed;
  }

  #begin(): Promise<void> {
    let finished = (): void => {};
    // `#closed` must be set before `finish` is called: code that `finish` notifies may call `close` again.
    this.#closed = new Promise((resolve) => {
      finished = resolve;
    });
    const closed = this.#closed;
    void this.#finish().then(finished);
    return closed;
  }
}
