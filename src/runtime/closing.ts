import { offAbort, onAbort } from './abort-listeners.js';

/** A `close` that may be called again and again: it finishes once, and cuts when any of the signals given aborts. */
export class Closing {
  readonly #finish: () => Promise<void>;
  readonly #cut: () => void;
  #closed: Promise<void> | undefined;

  /** `finish` lets what runs end and never rejects; `cut` ends it, also when `finish` is under way. */
  constructor(finish: () => Promise<void>, cut: () => void) {
    this.#finish = finish;
    this.#cut = cut;
  }

  /** `close` was called. */
  get hasBegun(): boolean {
    return this.#closed !== undefined;
  }

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
    // Before anything else: who hears of the end from within `finish` may call `close` again.
    this.#closed = new Promise((resolve) => {
      finished = resolve;
    });
    const closed = this.#closed;
    void this.#finish().then(finished);
    return closed;
  }
}
