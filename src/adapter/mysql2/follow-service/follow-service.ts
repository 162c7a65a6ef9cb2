import { type BalancerSnapshot, combineObservers, createBalancer, type Observer, outcomes } from '../../../index.js';
import { checkKeys } from '../../kit/index.js';
import { Changes } from '../changes.js';
import { logIn } from '../server/log-in.js';
import { ClusterNodes } from './cluster-nodes.js';
import { type FollowServiceOptions, resolveFollowOptions } from './options.js';
import type { AnyPoolCluster } from './user-cluster.js';

/** Keeps a user's own PoolCluster in step with a Service. */
export interface ServiceFollower extends AsyncDisposable {
  /**
   * Resolves once every endpoint of the first set was tried and at least one is in the cluster. Rejects with
   * EVENKEEL_OPTION (a cluster without `restoreNodeTimeout`), _NO_ENDPOINTS, _NOT_READY, _RESOLVE, _FORBIDDEN or _CLOSED, or
   * the signal's reason; following goes on.
   */
  ready(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
  /** Which endpoints there are and which of them are in the cluster (`ready`). */
  snapshot(): BalancerSnapshot;
  /** The ids of the nodes in the cluster now, those that are leaving included. */
  readonly nodeIds: readonly string[];
  /**
   * Stops following. Nodes stay in the cluster, which is the caller's to end. Waits for those that were leaving, at most
   * `drainTimeoutMs` or until `signal` aborts; then they are cut. Idempotent.
   */
  close(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
}

/**
 * Adds a node to `cluster` for every endpoint of a Service whose server takes log-ins, and removes those that leave, until it is
 * closed. It only uses mysql2's public interface, so the cluster still chooses by RR, RANDOM or ORDER and has no ejection, no
 * weights and no limit on waiting; `createPoolCluster` has.
 *
 * The cluster must be made with `restoreNodeTimeout`, and with `canRetry` on (the default). Without the first, mysql2 ends the pools
 * of failing nodes for good, and throws the errors of connections that are still being opened where nobody can catch them; without
 * the second, callers would see that a node is leaving. Throws EVENKEEL_OPTION.
 *
 * @example
 * const cluster = mysql.createPoolCluster({ restoreNodeTimeout: 1_000 });
 * const follower = followService(cluster, {
 *   resolver: 'mysql-read.shop:3306',
 *   node: () => ({ user, password, database }),
 * });
 * await follower.ready();
 */
export function followService(cluster: AnyPoolCluster, options: FollowServiceOptions): ServiceFollower {
  const resolved = resolveFollowOptions(cluster, options);
  const nodes = new ClusterNodes(cluster, resolved, logIn);
  const changes = new Changes();
  const ours: Observer = { subchannelChanged: () => changes.happened() };
  const balancer = createBalancer({
    ...resolved.balancing,
    observer: combineObservers([ours, resolved.observer]),
    transport: nodes,
  });
  let closing: Promise<void> | undefined;

  const ready = async (given: SignalOption = {}): Promise<void> => {
    checkKeys('ready', given, signalOnly);
    const { signal } = given;
    await balancer.ready({ signal });
    // A cluster with only some of its nodes would send everything to them.
    while (balancer.snapshot().endpoints.some(({ state }) => state === 'idle' || state === 'connecting')) {
      await changes.next(signal);
    }
    await nodes.fit();
    // Acquired only for its errors; the lease itself is not used.
    const lease = await balancer.acquire({ signal });
    lease.end(outcomes.notStarted);
  };
  const stop = async (): Promise<void> => {
    nodes.abandon();
    await balancer.close();
    await nodes.left();
  };
  const close = (given: SignalOption = {}): Promise<void> => {
    try {
      checkKeys('close', given, signalOnly);
    } catch (error) {
      return Promise.reject(error);
    }
    closing ??= stop();
    if (given.signal !== undefined) nodes.cutLeavingOn(given.signal);
    return closing;
  };
  return {
    ready,
    close,
    snapshot: () => balancer.snapshot(),
    get nodeIds() {
      return nodes.ids;
    },
    [Symbol.asyncDispose]: () => close(),
  };
}

/** What `ready` and `close` take. */
interface SignalOption {
  readonly signal?: AbortSignal | undefined;
}
const signalOnly = ['signal'] as const;
