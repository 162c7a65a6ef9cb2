import type { Warnings } from '../observe/warnings.js';
import type { Timer } from '../runtime/clock.js';
import type { PoolContext } from './pool-options.js';
import type { SubchannelOwner } from './subchannel-owner.js';
import type { Connection } from './transport.js';

/** How long a connection that was cut may take to close, in ms, because a transport that hangs must not make `close` hang. */
const CUT_PATIENCE_MS = 5_000;
/** How often a connection that outlived the drain timeout is checked for whether it is still needed, at most, in ms. */
const MIN_ASK_MS = 1_000;

/** Whether calls may still run on a retiring connection. While this returns true, the connection is not cut. */
type IsNeeded = () => boolean;
const never: IsNeeded = () => false;

/** What `RetiringConnections` is given. */
type RetiringContext = Omit<PoolContext, 'rng'> & { readonly warnings: Warnings };

/** The connections that get no new calls and are not closed yet. */
export class RetiringConnections<C> {
  readonly #pool: RetiringContext;
  /** For each retiring connection, by the promise of its `close`, the controller that cuts what still runs on it. */
  readonly #limits = new Map<Promise<void>, AbortController>();
  /** The attempts to connect that were called off, and that the transport has not finished. */
  readonly #dials = new Set<Promise<unknown>>();

  constructor(pool: RetiringContext) {
    this.#pool = pool;
  }

  /** An attempt to connect was called off. Until `dial` settles, the transport may still deliver a connection. */
  calledOff(dial: Promise<unknown>): void {
    const over = (): void => void this.#dials.delete(dial);
    this.#dials.add(dial);
    dial.then(over, over);
  }

  /**
   * Lets running calls on a connection finish and then closes it, or cuts them at once. A connection that has not closed by the drain
   * timeout is cut as soon as it is no longer needed. Returns a function that cuts it.
   */
  add(connection: Connection<C>, how: 'finish' | 'cut', isNeeded: IsNeeded = never): () => void {
    const limit = new AbortController();
    const abort = (): void => limit.abort();
    // Each connection has a signal of its own, because listeners on a shared one would accumulate.
    if (how === 'cut') abort();
    const closed = this.#close(connection, { signal: limit.signal, abort, isNeeded });
    this.#limits.set(closed, limit);
    void closed.then(() => this.#limits.delete(closed));
    return abort;
  }

  cutAll(): void {
    for (const limit of this.#limits.values()) limit.abort();
  }

  /** Resolves when no retiring connection is left and none can arrive. */
  async allClosed(): Promise<void> {
    if (this.#dials.size > 0) await this.#dialsEnded();
    while (this.#limits.size > 0) await Promise.all(this.#limits.keys());
  }

  /** Resolves when the transport has finished all attempts that were called off, or after a while if it ignores that they were. */
  async #dialsEnded(): Promise<void> {
    let patience: Timer | undefined;
    const late = new Promise<void>((resolve) => {
      patience = this.#pool.clock.timer(resolve, CUT_PATIENCE_MS);
      patience.ref();
    });
    await Promise.race([Promise.allSettled(this.#dials), late]);
    patience?.cancel();
  }

  #close(connection: Connection<C>, { signal, abort, isNeeded }: Limit): Promise<void> {
    const { clock, options, warnings } = this.#pool;
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

/** What decides until when a retiring connection may finish its calls. */
interface Limit {
  readonly signal: AbortSignal;
  readonly abort: () => void;
  readonly isNeeded: IsNeeded;
}

/** Closes a connection. If its `close` throws, against the contract, the returned promise rejects. */
async function closing<C>(connection: Connection<C>, signal: AbortSignal): Promise<void> {
  await connection.close(signal);
}

/**
 * The connections of one subchannel that get no new calls and are not closed yet: replaced ones, and ones that the server is closing. Their
 * calls may take as long as they want, since the drain timeout is only for endpoints that leave.
 */
export class FinishingConnections<C> {
  readonly #owner: SubchannelOwner<C>;
  readonly #isNeeded: IsNeeded;
  /** The finishing connections, each with the function that cuts it. */
  readonly #connections = new Map<Connection<C>, () => void>();

  /** @param isNeeded Returns whether any call of the subchannel is running. */
  constructor(owner: SubchannelOwner<C>, isNeeded: IsNeeded) {
    this.#owner = owner;
    this.#isNeeded = isNeeded;
  }

  /** Takes a connection that gets no new calls; its running calls may finish. */
  add(connection: Connection<C>): void {
    const closed = (): void => void this.#connections.delete(connection);
    this.#connections.set(connection, this.#owner.retire(connection, 'finish', this.#isNeeded));
    connection.closed.then(closed, closed);
  }

  /** Cuts the calls on all finishing connections, because their endpoint's time is over. */
  cut(): void {
    for (const cut of this.#connections.values()) cut();
  }

  /** The endpoint left the set: calls `left` of all finishing connections and of the current one. */
  left(current: Connection<C> | undefined): void {
    for (const connection of [...this.#connections.keys(), current]) this.#notify(() => connection?.left?.());
  }

  /** The endpoint is back in the set: calls `returned` of the current connection. */
  returned(current: Connection<C> | undefined): void {
    this.#notify(() => current?.returned?.());
  }

  #notify(call: () => void): void {
    this.#owner.warnings.guarded('a connection threw in left() or returned()', call, undefined);
  }
}
