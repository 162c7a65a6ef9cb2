import {
  type Balancer,
  type BalancerSnapshot,
  combineObservers,
  createBalancer,
  type Observer,
  outcomes,
} from '../../../index.js';
import { checkKeys, offAbort, onAbort } from '../../kit/index.js';
import { logIn } from '../server/log-in.js';
import type { AnyPoolCluster } from './cluster-face.js';
import type { ClusterNode } from './cluster-node.js';
import { ClusterNodes } from './cluster-nodes.js';
import { type FollowServiceOptions, resolveFollowOptions } from './follow-options.js';

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
   * Stops following. Nodes stay in the cluster, which is the caller's to end; those that were leaving are waited for, at
   * most `drainTimeoutMs`, or until `signal` aborts; then they are cut. Idempotent.
   */
  close(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
}

/**
 * Adds a node to `cluster` for every endpoint of a Service whose server takes log-ins, and removes those that leave, for as
 * long as it lives. Uses mysql2's public interface alone, so the cluster still chooses by RR, RANDOM or ORDER and knows
 * nothing of ejection, weights or limits on waiting; `createPoolCluster` does.
 *
 * The cluster must be made with `restoreNodeTimeout`, and keep `canRetry`. Without the one, mysql2 ends the pools of failing
 * nodes for good, and throws for nobody to catch what connections still opening then fail with; without the other, callers
 * would see that a node is leaving. Throws EVENKEEL_OPTION.
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
  return new Follower(cluster, options);
}

/** What `ready` and `close` take. */
const signalOnly = ['signal'] as const;

class Follower implements ServiceFollower {
  readonly #balancer: Balancer<ClusterNode>;
  readonly #nodes: ClusterNodes;
  /** Those who wait for something to change. */
  readonly #waiting = new Set<() => void>();
  #closing: Promise<void> | undefined;

  constructor(cluster: AnyPoolCluster, options: FollowServiceOptions) {
    const resolved = resolveFollowOptions(cluster, options);
    this.#nodes = new ClusterNodes(cluster, resolved, logIn);
    const ours: Observer = {
      subchannelChanged: () => {
        for (const wake of this.#waiting) wake();
      },
    };
    this.#balancer = createBalancer({
      ...resolved.balancing,
      observer: combineObservers([ours, resolved.observer]),
      transport: this.#nodes,
    });
  }

  get nodeIds(): readonly string[] {
    return this.#nodes.ids;
  }

  async ready(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    checkKeys('ready', options, signalOnly);
    const { signal } = options;
    await this.#balancer.ready({ signal });
    // A cluster with some of its nodes would send them everything at first.
    while (this.#balancer.snapshot().endpoints.some(({ state }) => state === 'idle' || state === 'connecting')) {
      await this.#change(signal);
    }
    await this.#nodes.fit();
    // Acquired only for its errors; the lease itself is not used.
    const lease = await this.#balancer.acquire({ signal });
    lease.end(outcomes.notStarted);
  }

  snapshot(): BalancerSnapshot {
    return this.#balancer.snapshot();
  }

  close(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    try {
      checkKeys('close', options, signalOnly);
    } catch (error) {
      return Promise.reject(error);
    }
    const { signal } = options;
    this.#closing ??= this.#close();
    if (signal !== undefined) this.#nodes.cutLeavingOn(signal);
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.#nodes.abandon();
    await this.#balancer.close();
    await this.#nodes.left();
  }

  /** Resolves at the next change of any endpoint's state; rejects with the signal's reason. */
  #change(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const over = (settle: () => void) => (): void => {
        this.#waiting.delete(changed);
        offAbort(signal, aborted);
        settle();
      };
      const changed = over(resolve);
      const aborted = over(() => reject(signal?.reason));
      this.#waiting.add(changed);
      onAbort(signal, aborted);
      if (signal?.aborted) aborted();
    });
  }
}
