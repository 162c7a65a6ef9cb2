import type { PoolCluster, PoolOptions } from 'mysql2';
import type { PoolCluster as PromisePoolCluster } from 'mysql2/promise';

/** A PoolCluster of mysql2, from `mysql2` or `mysql2/promise`. */
export type AnyPoolCluster = PoolCluster | PromisePoolCluster;

/** A connection as we use it: to end it. */
interface Destroyable {
  destroy(): void;
}

/** The types of mysql2 leave out what the promise face has (`remove`), and are silent on what `getConnection` returns. */
interface BothFaces {
  add(id: string, options: PoolOptions): void;
  remove(pattern: string): void;
  getConnection(
    pattern: string,
    selector: string,
    callback: (error: Error | null, connection?: Destroyable) => void,
  ): Promise<Destroyable> | undefined;
  on(event: 'remove', listener: (id: string) => void): unknown;
  off(event: 'remove', listener: (id: string) => void): unknown;
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

  /** mysql2 gave up a node by itself. Not called for `remove`. */
  onRemoved(listener: (id: string) => void): void {
    this.#cluster.on('remove', listener);
  }

  offRemoved(listener: (id: string) => void): void {
    this.#cluster.off('remove', listener);
  }

  /** Takes a connection of one node, an idle one if there is any. Rejects as mysql2 says. */
  checkOut(id: string): Promise<Destroyable> {
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
