import type { StageFactory } from '../../index.js';

/**
 * Brokers that do not read what is published, since they are short of memory or disk (`connection.blocked`). Such a broker is
 * suspect, as one that fails is: it gets no new connection while at most half of all are. An alarm often holds for a whole
 * cluster; then all are used.
 */
export class BlockedBrokers {
  /** Connections that are blocked, by the key of their broker. */
  readonly #blocked = new Map<string, number>();
  #invalidate = (): void => {};
  readonly stage: StageFactory = (context) => {
    this.#invalidate = () => context.invalidate();
    return {
      apply: (set) =>
        set.map((entry) => (this.#blocked.has(entry.endpoint.key) ? { ...entry, suspect: true as boolean } : entry)),
      close: () => {
        this.#invalidate = () => {};
      },
    };
  };

  /** Returns what follows one connection to this broker. */
  watch(key: string): (isBlocked: boolean) => void {
    let was = false;
    return (is) => {
      if (is === was) return;
      was = is;
      const count = (this.#blocked.get(key) ?? 0) + (is ? 1 : -1);
      if (count === 0) this.#blocked.delete(key);
      else this.#blocked.set(key, count);
      this.#invalidate();
    };
  }
}
