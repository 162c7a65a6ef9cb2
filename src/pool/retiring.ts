import type { Warnings } from '../observe/warnings.js';
import type { Clock, Timer } from '../runtime/clock.js';
import type { ResolvedPoolOptions } from './pool-options.js';
import type { SubchannelOwner } from './subchannel-owner.js';
import type { Connection } from './transport.js';

/** What `Retiring` needs from its balancer. */
export interface RetiringOwner {
  readonly clock: Clock;
  readonly options: ResolvedPoolOptions;
  readonly warnings: Warnings;
}

/** How long a cut connection may take to close, in ms; a hanging transport must not hang `close`. */
const CUT_PATIENCE_MS = 5_000;
/** How far apart at least the questions are whether a connection without a time limit is still needed, in ms. */
const MIN_ASK_MS = 1_000;

/** Whether calls may still run on a retired connection. While it returns true, the connection is not cut. */
type IsNeeded = () => boolean;
const never: IsNeeded = () => false;

/** Connections that get no new calls and are not closed yet. */
export class Retiring<C> {
  readonly #owner: RetiringOwner;
  /** Each retiring connection's controller, by the promise of its close; aborting it cuts what still runs on the connection. */
  readonly #limits = new Map<Promise<void>, AbortController>();

  constructor(owner: RetiringOwner) {
    this.#owner = owner;
  }

  /**
   * Lets running calls finish on a connection, then closes it; or cuts them immediately. A connection that has not closed by the drain
   * timeout is cut, as soon as it is no longer needed. The returned function cuts it.
   */
  add(connection: Connection<C>, how: 'finish' | 'cut', isNeeded: IsNeeded = never): () => void {
    const limit = new AbortController();
    const abort = (): void => limit.abort();
    // Each connection has a signal of its own: listeners on a shared one would accumulate.
    if (how === 'cut') abort();
    const closed = this.#close(connection, { signal: limit.signal, abort, isNeeded });
    this.#limits.set(closed, limit);
    void closed.then(() => this.#limits.delete(closed));
    return abort;
  }

  cutAll(): void {
    for (const limit of this.#limits.values()) limit.abort();
  }

  /** Resolves when no retiring connection is left. */
  async allClosed(): Promise<void> {
    while (this.#limits.size > 0) await Promise.all(this.#limits.keys());
  }

  #close(connection: Connection<C>, { signal, abort, isNeeded }: Limit): Promise<void> {
    const { clock, options, warnings } = this.#owner;
    const { drainTimeoutMs } = options;
    const hasLimit = !signal.aborted && drainTimeoutMs !== Number.POSITIVE_INFINITY;
    let patience: Timer | undefined;
    const late = (): void => {
      if (isNeeded()) patience = clock.timer(late, Math.max(drainTimeoutMs, MIN_ASK_MS));
      else abort();
    };
    if (hasLimit) patience = clock.timer(late, drainTimeoutMs);
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

/** Until when a retiring connection may finish its calls. */
interface Limit {
  readonly signal: AbortSignal;
  readonly abort: () => void;
  readonly isNeeded: IsNeeded;
}

/** Closes a connection. A `close` that throws breaks the contract of transports; this function then rejects. */
async function closing<C>(connection: Connection<C>, signal: AbortSignal): Promise<void> {
  await connection.close(signal);
}

/**
 * The connections of a subchannel that get no new calls but are not closed yet: replaced ones, and ones the other side is closing.
 * Their calls may take as long as they want. The drain timeout is for endpoints that leave.
 */
export class FinishingConnections<C> {
  readonly #owner: SubchannelOwner<C>;
  readonly #isNeeded: IsNeeded;
  /** The connections, each with the function that cuts it. */
  readonly #connections = new Map<Connection<C>, () => void>();

  /** @param isNeeded Says whether any call of the subchannel is running. */
  constructor(owner: SubchannelOwner<C>, isNeeded: IsNeeded) {
    this.#owner = owner;
    this.#isNeeded = isNeeded;
  }

  /** No new call uses the connection; running ones may finish. */
  add(connection: Connection<C>): void {
    const closed = (): void => void this.#connections.delete(connection);
    this.#connections.set(connection, this.#owner.retire(connection, 'finish', this.#isNeeded));
    connection.closed.then(closed, closed);
  }

  /** The time of the endpoint is over: cuts what runs on these connections. */
  cut(): void {
    for (const cut of this.#connections.values()) cut();
  }

  /** The endpoint left the set: calls `left` on all of these connections and on the current one. */
  left(current: Connection<C> | undefined): void {
    for (const connection of [...this.#connections.keys(), current]) this.#notify(() => connection?.left?.());
  }

  /** The endpoint is back in the set: calls `returned` on the current connection. */
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
