import { offAbort, onAbort } from '../kit/index.js';

/** Lets several waiters wait for the next change of something. */
export class Changes {
  readonly #waiting = new Set<() => void>();

  happened(): void {
    for (const wake of [...this.#waiting]) wake();
  }

  /** Resolves at the next change; rejects with the signal's reason. */
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
