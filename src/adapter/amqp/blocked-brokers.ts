import type { StageFactory } from '../../index.js';

/**
 * Brokers that do not read published messages because they are short of memory or disk (`connection.blocked`). Such a broker counts as
 * suspect, like one that fails: it gets no new connection while at most half of the brokers are suspect. Often an alarm applies to a whole
 * cluster; then all brokers are used.
 */
export class BlockedBrokers {
  /** How many connections to a broker are blocked, by the broker's key. */
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

  /** Returns a function that records whether one connection to this broker is blocked. */
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
