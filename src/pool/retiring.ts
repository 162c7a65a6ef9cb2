import type { Warnings } from '../observe/warnings.js';
import type { Clock, Timer } from '../runtime/clock.js';
import type { ResolvedPoolOptions } from './pool-options.js';
import type { SubchannelOwner } from './subchannel-owner.js';
import type { Connection } from './transport.js';

/** What `Retiring` needs. */
export interface RetiringOwner {
  readonly clock: Clock;
  readonly options: ResolvedPoolOptions;
  readonly warnings: Warnings;
}

/** How long a cut connection may take to close, in ms; a hanging transport must not hang `close`. */
const CUT_PATIENCE_MS = 5_000;

/** Connections that get no new calls and are not closed yet. */
export class Retiring<C> {
  readonly #owner: RetiringOwner;
  /** Aborting one cuts what still runs on its connection. */
  readonly #limits = new Map<Promise<void>, AbortController>();

  constructor(owner: RetiringOwner) {
    this.#owner = owner;
  }

  /** Lets running calls finish within the drain timeout, then closes; or cuts immediately. */
  add(connection: Connection<C>, how: 'finish' | 'cut'): void {
    const limit = new AbortController();
    // One signal each: listeners on a shared one would accumulate.
    if (how === 'cut') limit.abort();
    const closed = this.#close(connection, { signal: limit.signal, abort: () => limit.abort() });
    this.#limits.set(closed, limit);
    void closed.then(() => this.#limits.delete(closed));
  }

  cutAll(): void {
    for (const limit of this.#limits.values()) limit.abort();
  }

  /** Resolves when none is left. */
  async allClosed(): Promise<void> {
    while (this.#limits.size > 0) await Promise.all(this.#limits.keys());
  }

  #close(connection: Connection<C>, { signal, abort }: { signal: AbortSignal; abort: () => void }): Promise<void> {
    const { clock, options, warnings } = this.#owner;
    const { drainTimeoutMs } = options;
    const hasLimit = !signal.aborted && drainTimeoutMs !== Number.POSITIVE_INFINITY;
    const patience = hasLimit ? clock.timer(abort, drainTimeoutMs) : undefined;
    return new Promise((resolve) => {
      let lastPatience: Timer | undefined;
      const over = (trouble?: string, error?: unknown): void => {
        patience?.cancel();
        lastPatience?.cancel();
        if (trouble !== undefined) warnings.warn(trouble, error);
        resolve();
      };
      const wasCut = (): void => {
        lastPatience = clock.timer(() => over('a connection did not close though it was cut'), CUT_PATIENCE_MS);
        lastPatience.ref();
      };
      if (signal.aborted) wasCut();
      else signal.addEventListener('abort', wasCut, { once: true });
      closing(connection, signal).then(
        () => over(),
        (error: unknown) => over('a connection could not be closed', error),
      );
    });
  }
}

/** A `close` that throws breaks its contract; it then rejects. */
async function closing<C>(connection: Connection<C>, signal: AbortSignal): Promise<void> {
  await connection.close(signal);
}

/** The connections of a subchannel that get no new calls but are not closed yet: replaced ones, and ones the other side is closing. */
export class FinishingConnections<C> {
  readonly #owner: SubchannelOwner<C>;
  readonly #connections = new Set<Connection<C>>();

  constructor(owner: SubchannelOwner<C>) {
    this.#owner = owner;
  }

  /** No new calls use it; running ones may finish. */
  add(connection: Connection<C>): void {
    this.#connections.add(connection);
    const closed = (): void => void this.#connections.delete(connection);
    connection.closed.then(closed, closed);
    this.#owner.retire(connection, 'finish');
  }

  /** Their endpoint left: calls `left` on all of them and on the current one. */
  left(current: Connection<C> | undefined): void {
    for (const connection of [...this.#connections, current]) this.#notify(() => connection?.left?.());
  }

  /** The endpoint is back: calls `returned` on the current one. */
  returned(current: Connection<C> | undefined): void {
    this.#notify(() => current?.returned?.());
  }

  #notify(call: () => void): void {
    try {
      call();
    } catch (error) {
      this.#owner.warnings.warn('a connection threw in left() or returned()', error);
    }
  }
}
