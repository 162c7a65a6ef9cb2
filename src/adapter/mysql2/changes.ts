import { offAbort, onAbort } from '../kit/index.js';

/** Lets any number of waiters wait for the next change of some state. */
export class Changes {
  readonly #waiting = new Set<() => void>();

  happened(): void {
    for (const wake of [...this.#waiting]) wake();
  }

  /** Resolves at the next change; rejects with the signal's reason if the signal aborts first. */
  next(signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const over = (settle: () => void) => (): void => {
        this.#waiting.delete(changed);
        offAbort(signal, aborted);
        settle();
      };
      const changed = over(resolve);
      const aborted = over(() => reject(signal?.reason));
      this.#waiting.add(changed);
      onAbort(signal, aborted);
      if (signal?.aborted) aborted();
    });
  }
}
