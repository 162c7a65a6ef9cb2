import type { PoolOptions } from 'mysql2';
import { type Connection, type Endpoint, EvenkeelError, endpointAddress, type Transport } from '../../../index.js';
import { offAbort, onAbort, optionError } from '../../kit/index.js';
import { Changes } from '../changes.js';
import { ClusterNode, type ClusterNodeOwner } from './cluster-node.js';
import { FirstNodes } from './first-nodes.js';
import type { ResolvedFollowOptions } from './options.js';
import { type AnyPoolCluster, checkRestores, type UserCluster } from './user-cluster.js';

/** Logs in to a server and out again; rejects if that fails. After an abort nothing may stay open. */
export type LogIn = (options: PoolOptions, signal: AbortSignal) => Promise<void>;

/** The nodes of a user's cluster, one for each endpoint. To the balancer they are connections. */
export class ClusterNodes implements Transport<ClusterNode> {
  readonly #options: ResolvedFollowOptions;
  readonly #logIn: LogIn;
  readonly #owner: ClusterNodeOwner;
  readonly #first: FirstNodes;
  readonly #byId = new Map<string, ClusterNode>();
  /** Of the nodes in the cluster. */
  readonly #changes = new Changes();
  /** Whether the cluster takes failing nodes offline; checked once, before the first node is added. */
  #isFit: Promise<void> | undefined;
  #isAbandoned = false;
  /** mysql2 gives out connections of a node again that was offline. */
  readonly #online = (id: string): void => this.#byId.get(id)?.online();

  constructor(cluster: AnyPoolCluster, options: ResolvedFollowOptions, logIn: LogIn) {
    this.#options = options;
    this.#logIn = logIn;
    const { clock, rng, connectTimeoutMs } = options;
    this.#first = new FirstNodes(clock, rng, connectTimeoutMs);
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

  /** Rejects with EVENKEEL_OPTION if the cluster was found unfit. */
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
    await this.#first.during(this.#probe(node, signal));
    if (this.#byId.size === 0) await this.#first.turn(beganMs);
    // Looked up again: a pod's successor may have the same id while the pod itself is leaving.
    await this.#idFree(id, endpoint, signal);
    signal.throwIfAborted();
    if (this.#isAbandoned) throw new EvenkeelError('EVENKEEL_CLOSED', 'the follower was closed');
    const connection = node.stay();
    this.#byId.set(id, node);
    return connection;
  }

  /** From now on the nodes are the cluster owner's. They stay; only those that are leaving still leave. */
  abandon(): void {
    this.#isAbandoned = true;
    for (const node of this.#byId.values()) node.abandon();
    this.#changes.happened();
  }

  /** Resolves once no node is leaving. */
  async left(): Promise<void> {
    while (this.#leaving().length > 0) await this.#changes.next();
    this.#owner.cluster.off('online', this.#online);
  }

  /** Cuts the leaving nodes when `signal` aborts. */
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
    // mysql2 removes by pattern: an id with a star in it would remove others, too.
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
    try {
      await this.#logIn(node.options, signal);
    } catch (error) {
      const endpoint = endpointAddress(node.endpoint);
      const reason = error instanceof Error ? error.message : String(error);
      throw new EvenkeelError('EVENKEEL_CONNECT', `cannot log in to ${endpoint}: ${reason}`, {
        cause: error,
        endpoint,
      });
    }
  }

  /** Waits until no node has this id: mysql2 ignores a second one. */
  async #idFree(id: string, endpoint: Endpoint, signal: AbortSignal): Promise<void> {
    for (let present = this.#byId.get(id); present !== undefined; present = this.#byId.get(id)) {
      if (!present.isLeaving) {
        const both = `${endpointAddress(present.endpoint)} and ${endpointAddress(endpoint)}`;
        throw new EvenkeelError('EVENKEEL_OPTION', `id() must tell endpoints apart: ${both} are both "${id}"`);
      }
      // The pod that had the id is gone for good.
      present.cut();
      await this.#changes.next(signal);
    }
  }
}
