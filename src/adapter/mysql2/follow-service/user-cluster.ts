/** How `followService` uses a user's cluster, by mysql2's public interface alone. */
import { randomUUID } from 'node:crypto';
import { Socket } from 'node:net';
import type { PoolCluster, PoolOptions } from 'mysql2';
import type { PoolCluster as PromisePoolCluster } from 'mysql2/promise';
import { type Clock, EvenkeelError, type Timer } from '../../../index.js';

/** A PoolCluster of `mysql2` or of `mysql2/promise`. */
export type AnyPoolCluster = PoolCluster | PromisePoolCluster;

/** A connection that was checked out of a node. */
export interface CheckedOut {
  release(): void;
  destroy(): void;
}

/** Events of mysql2's cluster about a failing node: the node was removed for good, taken offline for a while, or is online again. */
type NodeEvent = 'remove' | 'offline' | 'online';

/**
 * The part of a user's cluster that `followService` uses, the same with callbacks and promises. mysql2's types lack `remove` of the promise
 * form, and the return value of its `getConnection`.
 */
export interface UserCluster {
  /** Adds a node, unless a node has this id. */
  add(id: string, options: PoolOptions): void;
  /** Ends the pools of all nodes whose ids match the pattern; an id without `*` matches only itself. */
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
    // mysql2's promise form ignores the callback and returns a promise; its other form calls back and returns nothing.
    const promised = cluster.getConnection(id, 'ORDER', (error, connection) => {
      if (connection === undefined) reject(error ?? new Error(`no connection of ${id}`));
      else resolve(connection);
    });
    promised?.then(resolve, reject);
  });
}

/** How often a checkout of all connections checks its progress, in ms; callers may have to wait as long for a connection. */
const CHECK_INTERVAL_MS = 100;
/**
 * How many checks in a row may find no progress before a checkout of all connections ends. One would not be enough: after our own process
 * stalled, the timer fires before the servers' answers are read.
 */
const MAX_IDLE_CHECKS = 2;
/** The largest pool whose connections can all be checked out. A larger pool, or a pool without a limit, cannot be emptied so. */
const MAX_CONNECTIONS = 100;

/** The node whose connections are all to be checked out. */
export interface ExclusiveCheckoutOf {
  readonly cluster: UserCluster;
  readonly clock: Clock;
  readonly id: string;
  readonly connectionLimit: number;
}

/** What becomes of the checked-out connections when the checkout of all connections stops. */
export type Disposal = 'destroy' | 'release';

/**
 * Checks out every connection a node may have. mysql2 serves callers in order, so connections in use arrive here as soon as their queries
 * end, and no later caller gets one: once all have arrived, nobody uses the node.
 *
 * @param over Called once, unless the checkout is stopped before, with whether all connections were checked out. They are destroyed right
 * after.
 * @returns Stops the checkout without calling `over`; connections that were checked out, or still arrive, are destroyed or released.
 */
export function exclusiveCheckout(of: ExclusiveCheckoutOf, over: (all: boolean) => void): (disposal: Disposal) => void {
  const { cluster, clock, id, connectionLimit } = of;
  const isFeasible = connectionLimit > 0 && connectionLimit <= MAX_CONNECTIONS;
  const held: CheckedOut[] = [];
  let disposal: Disposal | undefined;
  let timer: Timer;
  let progress = 0;
  let idleChecks = 0;

  const stop = (how: Disposal): void => {
    if (disposal !== undefined) return;
    disposal = how;
    timer.cancel();
    for (const connection of held.splice(0)) connection[how]();
  };
  const end = (all: boolean): void => {
    if (disposal !== undefined) return;
    over(all);
    stop('destroy');
  };
  /** Checks for progress. A caller that keeps a connection usually keeps it for long, so no more connections arrive after it. */
  const check = (): void => {
    idleChecks = held.length > progress ? 0 : idleChecks + 1;
    progress = held.length;
    if (idleChecks >= MAX_IDLE_CHECKS) end(false);
    else timer = clock.timer(check, CHECK_INTERVAL_MS);
  };
  const checkOutOne = async (): Promise<void> => {
    try {
      const connection = await checkOut(cluster, id);
      if (disposal !== undefined) {
        connection[disposal]();
        return;
      }
      held.push(connection);
      if (held.length === connectionLimit) end(true);
    } catch {
      // No connection can be opened: the server is gone, or mysql2 has taken the node offline.
      end(false);
    }
  };

  timer = isFeasible ? clock.timer(check, CHECK_INTERVAL_MS) : clock.timer(() => end(false), 0);
  for (let count = 0; isFeasible && count < connectionLimit; count++) void checkOutOne();
  return stop;
}

/**
 * The number of failures after which `checkRestores` gives up. mysql2 gives up on a node after `removeNodeErrorCount` failures, 5 by
 * default.
 */
const MAX_FAILURES = 1_000;

/**
 * Rejects with EVENKEEL_OPTION unless the cluster has a `restoreNodeTimeout`. That option is not public, but it shows in what mysql2 does
 * with a node that always fails: the node is taken offline, or removed. A node that is added for this check never connects to anything, and
 * is gone when the check settles.
 */
export async function checkRestores(cluster: UserCluster): Promise<void> {
  // The id of the test node is unique, because several followers may check one cluster at once.
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
