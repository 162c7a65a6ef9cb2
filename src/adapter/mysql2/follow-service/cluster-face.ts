import type { PoolCluster, PoolOptions } from 'mysql2';
import type { PoolCluster as PromisePoolCluster } from 'mysql2/promise';

/** A PoolCluster of mysql2, from `mysql2` or `mysql2/promise`. */
export type AnyPoolCluster = PoolCluster | PromisePoolCluster;

/** A connection as we use it: to give it back or to end it. */
export interface CheckedOut {
  release(): void;
  destroy(): void;
}

/** What mysql2 does with a failing node: gives it up for good, leaves it alone for a while, has it give somebody a connection again. */
type NodeEvent = 'remove' | 'offline' | 'online';

/** The types of mysql2 leave out what the promise face has (`remove`), and are silent on what `getConnection` returns. */
interface BothFaces {
  add(id: string, options: PoolOptions): void;
  remove(pattern: string): void;
  getConnection(
    pattern: string,
    selector: string,
    callback: (error: Error | null, connection?: CheckedOut) => void,
  ): Promise<CheckedOut> | undefined;
  on(event: NodeEvent, listener: (id: string) => void): unknown;
  off(event: NodeEvent, listener: (id: string) => void): unknown;
}

/** What we need of a user's cluster: its public interface, the same over callbacks and promises. */
export class ClusterFace {
  readonly #cluster: BothFaces;

  constructor(cluster: AnyPoolCluster) {
    this.#cluster = cluster as unknown as BothFaces;
  }

  add(id: string, options: PoolOptions): void {
    this.#cluster.add(id, options);
  }

  /** Ends the node's pool. A pattern for mysql2, but an id without `*` matches itself alone. */
  remove(id: string): void {
    this.#cluster.remove(id);
  }

  on(event: NodeEvent, listener: (id: string) => void): void {
    this.#cluster.on(event, listener);
  }

  off(event: NodeEvent, listener: (id: string) => void): void {
    this.#cluster.off(event, listener);
  }

  /** Takes a connection of one node, an idle one if there is any. Rejects as mysql2 says. */
  checkOut(id: string): Promise<CheckedOut> {
    return new Promise((resolve, reject) => {
      // The promise face does not know the callback and returns a promise; the other calls back and returns nothing.
      const promised = this.#cluster.getConnection(id, 'ORDER', (error, connection) => {
        if (connection === undefined) reject(error ?? new Error(`no connection of ${id}`));
        else resolve(connection);
      });
      promised?.then(resolve, reject);
    });
  }
}
