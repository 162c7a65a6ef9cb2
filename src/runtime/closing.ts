import { offAbort, onAbort } from './abort-listeners.js';

/** A `close` that may be called repeatedly: it finishes once, and cuts when any of the given signals aborts. */
export class Closing {
  readonly #finish: () => Promise<void>;
  readonly #cut: () => void;
  #closed: Promise<void> | undefined;

  /**
   * @param finish Lets running work end; never rejects.
   * @param cut Ends running work at once, even while `finish` is pending.
   */
  constructor(finish: () => Promise<void>, cut: () => void) {
    this.#finish = finish;
    this.#cut = cut;
  }

  /** `close` has been called. */
  get hasBegun(): boolean {
    return this.#closed !== undefined;
  }

  /** Ends the work in order; once `signal` aborts, by cutting it. Every call returns the same promise. */
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
    // `#closed` must be set first: code that `finish` notifies may call `close` again.
    this.#closed = new Promise((resolve) => {
      finished = resolve;
    });
    const closed = this.#closed;
    void this.#finish().then(finished);
    return closed;
  }
}
