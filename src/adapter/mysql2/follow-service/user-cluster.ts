import { randomUUID } from 'node:crypto';
import { Socket } from 'node:net';
import type { PoolCluster, PoolOptions } from 'mysql2';
import type { PoolCluster as PromisePoolCluster } from 'mysql2/promise';
import { EvenkeelError } from '../../../index.js';

/** A PoolCluster of mysql2, from `mysql2` or `mysql2/promise`. */
export type AnyPoolCluster = PoolCluster | PromisePoolCluster;

/** A connection of a node. */
export interface CheckedOut {
  release(): void;
  destroy(): void;
}

/** What mysql2 does with a failing node: removes it for good, leaves it alone for a while, gives out its connections again. */
type NodeEvent = 'remove' | 'offline' | 'online';

/**
 * What `followService` uses of a user's cluster: its public interface, the same with callbacks and promises. mysql2's types lack
 * `remove` of the promise form, and what its `getConnection` returns.
 */
export interface UserCluster {
  /** Adds a node, unless there is one with this id. */
  add(id: string, options: PoolOptions): void;
  /** Ends the pools of all nodes the pattern matches; an id without `*` matches only itself. */
  remove(pattern: string): void;
  getConnection(
    pattern: string,
    selector: string,
    callback: (error: Error | null, connection?: CheckedOut) => void,
  ): Promise<CheckedOut> | undefined;
  on(event: NodeEvent, listener: (id: string) => void): unknown;
  off(event: NodeEvent, listener: (id: string) => void): unknown;
}

/** Checks out a connection of one node, an idle one if there is any. Rejects as mysql2 does. */
export function checkOut(cluster: UserCluster, id: string): Promise<CheckedOut> {
  return new Promise((resolve, reject) => {
    // The promise form ignores the callback and returns a promise; the other form calls back and returns nothing.
    const promised = cluster.getConnection(id, 'ORDER', (error, connection) => {
      if (connection === undefined) reject(error ?? new Error(`no connection of ${id}`));
      else resolve(connection);
    });
    promised?.then(resolve, reject);
  });
}

/** mysql2 gives up after `removeNodeErrorCount` failures, 5 by default. */
const MAX_FAILURES = 1_000;

/**
 * Rejects with EVENKEEL_OPTION unless the cluster has a `restoreNodeTimeout`. That is not public, but it shows in what mysql2 does
 * with a node that always fails: it takes it offline, or removes it. The node added for this never connects to anything, and is gone
 * when this settles.
 */
export async function checkRestores(cluster: UserCluster): Promise<void> {
  // Unique, because several followers may try the same cluster at once.
  const probe = `evenkeel:probe:${randomUUID()}`;
  let verdict: 'offline' | 'remove' | undefined;
  const offline = (id: string): void => {
    if (id === probe) verdict = 'offline';
  };
  const removed = (id: string): void => {
    if (id === probe) verdict = 'remove';
  };
  cluster.on('offline', offline);
  cluster.on('remove', removed);
  const failure = new EvenkeelError('EVENKEEL_CONNECT', 'evenkeel tries what this cluster does with a node that fails');
  cluster.add(probe, { connectionLimit: 1, stream: () => new Socket().destroy(failure) });
  try {
    for (let count = 0; count < MAX_FAILURES && verdict === undefined; count++) {
      await checkOut(cluster, probe).catch(() => {});
    }
  } finally {
    cluster.off('offline', offline);
    cluster.off('remove', removed);
    cluster.remove(probe);
  }
  if (verdict === 'offline') return;
  throw new EvenkeelError(
    'EVENKEEL_OPTION',
    'the cluster must be made with restoreNodeTimeout, such as 1000: without it mysql2 removes nodes that fail for good',
  );
}
