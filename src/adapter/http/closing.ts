/** `Connection.close` of an HTTP adapter: finish once, and cut when any of the signals given aborts. */
export class Closing {
  readonly #finish: () => Promise<void>;
  readonly #cut: () => void;
  #closed: Promise<void> | undefined;

  /** `finish` lets running requests end and never rejects; `cut` ends them, also when `finish` is under way. */
  constructor(finish: () => Promise<void>, cut: () => void) {
    this.#finish = finish;
    this.#cut = cut;
  }

  close(signal: AbortSignal | undefined): Promise<void> {
    this.#closed ??= this.#finish();
    if (signal?.aborted) this.#cut();
    else if (signal !== undefined) {
      const cut = this.#cut;
      signal.addEventListener('abort', cut, { once: true });
      void this.#closed.then(() => signal.removeEventListener('abort', cut));
    }
    return this.#closed;
  }
}
