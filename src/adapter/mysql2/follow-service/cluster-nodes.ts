import type { PoolOptions } from 'mysql2';
import {
  type Clock,
  type Connection,
  type Endpoint,
  EvenkeelError,
  endpointAddress,
  type Rng,
  type Timer,
  type Transport,
} from '../../../index.js';
import { drawIndex, offAbort, onAbort, optionError } from '../../kit/index.js';
import { Changes } from '../changes.js';
import { ClusterNode, type ClusterNodeOwner } from './cluster-node.js';
import { type AnyPoolCluster, checkRestores, type UserCluster } from './user-cluster.js';

/** How long the first nodes wait for each other before they are added to the cluster, in ms. */
const COLLECT_MS = 200;
/** The share of a connect timeout that a node may spend waiting to be added, so that its attempt does not time out. */
const ATTEMPT_RATIO = 0.9;

/** How nodes of the cluster are made, and how long leaving nodes may stay. */
export interface ClusterNodesOptions {
  readonly node: (endpoint: Endpoint) => PoolOptions;
  readonly id: (endpoint: Endpoint) => string;
  readonly drainTimeoutMs: number;
  readonly clock: Clock;
  readonly rng: Rng;
  /** The time limit of one connection attempt, in ms. */
  readonly connectTimeoutMs: number;
}

/** Logs in to a server and out again; rejects if that fails. After an abort, no connection may stay open. */
export type LogIn = (options: PoolOptions, signal: AbortSignal) => Promise<void>;

/**
 * The nodes of a user's cluster, one for each endpoint. The balancer sees them as connections.
 *
 * The first nodes are added together, in random order: mysql2 starts with the node that was added first, so the first query of every
 * process would go to the server that answers log-ins fastest.
 */
export class ClusterNodes implements Transport<ClusterNode> {
  readonly #options: ClusterNodesOptions;
  readonly #logIn: LogIn;
  readonly #owner: ClusterNodeOwner;
  readonly #byId = new Map<string, ClusterNode>();
  /** Notifies waiters when nodes are added to the cluster or removed. */
  readonly #changes = new Changes();
  /** Settles when it is known that the cluster takes failing nodes offline; this is checked once, before the first node is added. */
  #isFit: Promise<void> | undefined;
  #isAbandoned = false;
  /** How many log-ins to servers are running. */
  #logins = 0;
  /** Functions that release the nodes waiting to be added together as the first ones. */
  #first: (() => void)[] = [];
  #firstTimer: Timer | undefined;
  /** Called when mysql2 gives out connections of a node again that was offline. */
  readonly #online = (id: string): void => this.#byId.get(id)?.online();

  constructor(cluster: AnyPoolCluster, options: ClusterNodesOptions, logIn: LogIn) {
    this.#options = options;
    this.#logIn = logIn;
    const users = cluster as unknown as UserCluster;
    this.#owner = {
      cluster: users,
      clock: options.clock,
      drainTimeoutMs: options.drainTimeoutMs,
      removed: (node) => {
        this.#byId.delete(node.id);
        this.#changes.happened();
      },
    };
    users.on('online', this.#online);
  }

  get ids(): readonly string[] {
    return [...this.#byId.keys()];
  }

  /** Resolves if the cluster takes failing nodes offline. Rejects with EVENKEEL_OPTION if it does not. */
  async fit(): Promise<void> {
    await this.#isFit;
  }

  async connect(endpoint: Endpoint, signal: AbortSignal): Promise<Connection<ClusterNode>> {
    const id = this.#idOf(endpoint);
    const present = this.#byId.get(id);
    if (present?.isLeaving && present.endpoint.key === endpoint.key) return present.stay();
    const node = new ClusterNode(id, endpoint, this.#optionsFor(endpoint), this.#owner);
    this.#isFit ??= checkRestores(this.#owner.cluster);
    await this.#isFit;
    const beganMs = this.#options.clock.now();
    await this.#probe(node, signal);
    if (this.#byId.size === 0) await this.#turn(beganMs);
    // The node with this id is looked up again: a pod's successor may have the pod's id while the pod itself is leaving.
    await this.#idFree(id, endpoint, signal);
    signal.throwIfAborted();
    if (this.#isAbandoned) throw new EvenkeelError('EVENKEEL_CLOSED', 'the follower was closed');
    const connection = node.stay();
    this.#byId.set(id, node);
    return connection;
  }

  /** Leaves the nodes to the cluster's owner: they stay in the cluster, except that leaving nodes still leave. */
  abandon(): void {
    this.#isAbandoned = true;
    for (const node of this.#byId.values()) node.abandon();
    this.#changes.happened();
  }

  /** Resolves once no node is leaving any longer. */
  async left(): Promise<void> {
    while (this.#leaving().length > 0) await this.#changes.next();
    this.#owner.cluster.off('online', this.#online);
  }

  /** Cuts the leaving nodes of the cluster when `signal` aborts. */
  cutLeavingOn(signal: AbortSignal): void {
    const cut = (): void => {
      for (const node of this.#leaving()) node.cut();
    };
    if (signal.aborted) {
      cut();
      return;
    }
    onAbort(signal, cut);
    void this.left().then(() => offAbort(signal, cut));
  }

  #leaving(): ClusterNode[] {
    return [...this.#byId.values()].filter(({ isLeaving }) => isLeaving);
  }

  #idOf(endpoint: Endpoint): string {
    const id = this.#options.id(endpoint);
    // mysql2 removes nodes by pattern, so an id with a star in it would remove other nodes too.
    if (typeof id !== 'string' || id === '' || id.includes('*')) {
      throw optionError(`id() of ${endpointAddress(endpoint)}`, "a non-empty string without '*'", id);
    }
    return id;
  }

  #optionsFor(endpoint: Endpoint): PoolOptions {
    const options = this.#options.node(endpoint);
    if (typeof options !== 'object' || options === null) {
      throw optionError(`node() of ${endpointAddress(endpoint)}`, 'pool options of mysql2', options);
    }
    return options;
  }

  async #probe(node: ClusterNode, signal: AbortSignal): Promise<void> {
    this.#logins++;
    try {
      await this.#logIn(node.options, signal);
      this.#logins--;
    } catch (error) {
      this.#logins--;
      if (this.#logins === 0) this.#releaseFirst();
      const endpoint = endpointAddress(node.endpoint);
      const reason = error instanceof Error ? error.message : String(error);
      throw new EvenkeelError('EVENKEEL_CONNECT', `cannot log in to ${endpoint}: ${reason}`, {
        cause: error,
        endpoint,
      });
    }
  }

  /** Resolves when one of the first nodes may be added. The node's connection attempt began at `beganMs`, and its log-in is done. */
  #turn(beganMs: number): Promise<void> {
    const { clock, connectTimeoutMs } = this.#options;
    return new Promise((resolve) => {
      this.#first.push(resolve);
      const leftMs = beganMs + connectTimeoutMs * ATTEMPT_RATIO - clock.now();
      // The first nodes are added later in this turn, so that the last of them takes part in the draw.
      if (this.#logins === 0 || leftMs <= 0) clock.defer(() => this.#releaseFirst());
      else this.#firstTimer ??= clock.timer(() => this.#releaseFirst(), Math.min(COLLECT_MS, leftMs));
    });
  }

  #releaseFirst(): void {
    this.#firstTimer?.cancel();
    this.#firstTimer = undefined;
    const waitingNodes = this.#first;
    this.#first = [];
    while (waitingNodes.length > 0) {
      const [drawn] = waitingNodes.splice(drawIndex(this.#options.rng, waitingNodes.length), 1);
      drawn?.();
    }
  }

  /** Waits until no node has this id, because mysql2 ignores a second node with the same id. */
  async #idFree(id: string, endpoint: Endpoint, signal: AbortSignal): Promise<void> {
    for (let present = this.#byId.get(id); present !== undefined; present = this.#byId.get(id)) {
      if (!present.isLeaving) {
        const addresses = `${endpointAddress(present.endpoint)} and ${endpointAddress(endpoint)}`;
        throw new EvenkeelError('EVENKEEL_OPTION', `id() must tell endpoints apart: ${addresses} are both "${id}"`);
      }
      // The pod that had this id is gone for good.
      present.cut();
      await this.#changes.next(signal);
    }
  }
}
