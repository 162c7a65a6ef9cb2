import type { Warnings } from '../observe/warnings.js';
import type { Clock } from '../runtime/clock.js';
import type { ResolvedPoolOptions } from './pool-options.js';
import type { Connection } from './transport.js';

/** What it takes. */
export interface RetiringOwner {
  readonly clock: Clock;
  readonly options: ResolvedPoolOptions;
  readonly warnings: Warnings;
}

/** Connections that get no new call and are not closed yet. */
export class Retiring<C> {
  readonly #owner: RetiringOwner;
  /** Aborting one cuts what still runs on its connection. */
  readonly #limits = new Map<Promise<void>, AbortController>();

  constructor(owner: RetiringOwner) {
    this.#owner = owner;
  }

  /** Lets running calls finish, within the drain time-out, then closes; or cuts at once. */
  add(connection: Connection<C>, how: 'finish' | 'cut'): void {
    const limit = new AbortController();
    // A signal of its own for each: listeners on a shared one would pile up.
    if (how === 'cut') limit.abort();
    const closing = this.#close(connection, limit);
    this.#limits.set(closing, limit);
    void closing.then(() => this.#limits.delete(closing));
  }

  cutAll(): void {
    for (const limit of this.#limits.values()) limit.abort();
  }

  /** Resolves when none is left. */
  async allClosed(): Promise<void> {
    while (this.#limits.size > 0) await Promise.all(this.#limits.keys());
  }

  async #close(connection: Connection<C>, limit: AbortController): Promise<void> {
    const { clock, options, warnings } = this.#owner;
    const { drainTimeoutMs } = options;
    const timer =
      limit.signal.aborted || drainTimeoutMs === Number.POSITIVE_INFINITY
        ? undefined
        : clock.timer(() => limit.abort(), drainTimeoutMs);
    try {
      await connection.close(limit.signal);
    } catch (error) {
      warnings.warn('a connection could not be closed', error);
    }
    timer?.cancel();
  }
}
