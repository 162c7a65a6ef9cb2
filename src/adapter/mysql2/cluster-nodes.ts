import type { PoolOptions } from 'mysql2';
import {
  type Connection,
  type Endpoint,
  EvenkeelError,
  endpointAddress,
  notify,
  type Observer,
  optionError,
  type Transport,
} from '../../index.js';
import { type AnyPoolCluster, ClusterFace } from './cluster-face.js';
import { ClusterNode, type ClusterNodeOwner } from './cluster-node.js';
import type { ResolvedFollowOptions } from './follow-options.js';

/** Logs in to a server and out again; rejects when it cannot. After an abort nothing may stay open. */
export type LogIn = (options: PoolOptions, signal: AbortSignal) => Promise<void>;

/** The nodes of a user's cluster, one for each endpoint: what a balancer holds for connections. */
export class ClusterNodes implements Transport<ClusterNode> {
  readonly #options: ResolvedFollowOptions;
  readonly #logIn: LogIn;
  readonly #owner: ClusterNodeOwner;
  readonly #byId = new Map<string, ClusterNode>();
  /** Those who wait until no node is leaving. */
  readonly #waiting = new Set<() => void>();
  readonly #removedByCluster = (id: string): void => this.#byId.get(id)?.removedByCluster();
  #isAbandoned = false;
  #toldOfCutShort = false;

  /** @param observer Hears once of transactions mysql2 cuts short. */
  constructor(cluster: AnyPoolCluster, options: ResolvedFollowOptions, logIn: LogIn, observer: Observer) {
    this.#options = options;
    this.#logIn = logIn;
    const face = new ClusterFace(cluster);
    this.#owner = {
      cluster: face,
      clock: options.clock,
      drainTimeoutMs: options.drainTimeoutMs,
      cutShort: ({ endpoint }) => this.#tellOfCutShort(endpoint, observer),
      removed: (node) => {
        this.#byId.delete(node.id);
        this.#wake();
      },
    };
    face.onRemoved(this.#removedByCluster);
  }

  get ids(): readonly string[] {
    return [...this.#byId.keys()];
  }

  async connect(endpoint: Endpoint, signal: AbortSignal): Promise<Connection<ClusterNode>> {
    const id = this.#idOf(endpoint);
    const present = this.#byId.get(id);
    if (present?.isLeaving && present.endpoint.key === endpoint.key) return present.stay();
    const node = new ClusterNode(id, endpoint, this.#optionsFor(endpoint), this.#owner);
    await this.#probe(node, signal);
    if (this.#isAbandoned) throw new EvenkeelError('EVENKEEL_CLOSED', 'the follower was closed');
    // Looked up again: a pod's successor of the same name comes while the pod itself leaves.
    this.#giveWay(id, endpoint);
    const connection = node.stay();
    this.#byId.set(id, node);
    return connection;
  }

  /** From now on the cluster is its owner's: nodes stay in it, only those that are leaving still leave. */
  abandon(): void {
    this.#isAbandoned = true;
    for (const node of this.#byId.values()) node.abandon();
    this.#wake();
  }

  /** Resolves when no node is leaving any more. */
  async left(): Promise<void> {
    while (this.#leaving().length > 0) await new Promise<void>((resolve) => this.#waiting.add(resolve));
    this.#owner.cluster.offRemoved(this.#removedByCluster);
  }

  /** Gives those that are leaving no more time than `signal` does. */
  removeLeavingOn(signal: AbortSignal): void {
    const remove = (): void => {
      for (const node of this.#leaving()) node.remove();
    };
    signal.addEventListener('abort', remove, { once: true });
    if (signal.aborted) remove();
    else void this.left().then(() => signal.removeEventListener('abort', remove));
  }

  #leaving(): ClusterNode[] {
    return [...this.#byId.values()].filter(({ isLeaving }) => isLeaving);
  }

  #wake(): void {
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }

  #idOf(endpoint: Endpoint): string {
    const id = this.#options.id(endpoint);
    // mysql2 removes by pattern: with a star in it, an id would take others along.
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
    signal.throwIfAborted();
  }

  /** Only one node of an id can be in the cluster: mysql2 ignores another one. */
  #giveWay(id: string, endpoint: Endpoint): void {
    const present = this.#byId.get(id);
    if (present === undefined) return;
    if (!present.isLeaving) {
      const both = `${endpointAddress(present.endpoint)} and ${endpointAddress(endpoint)}`;
      throw new EvenkeelError('EVENKEEL_OPTION', `id() must tell endpoints apart: ${both} are both "${id}"`);
    }
    present.remove();
  }

  #tellOfCutShort(endpoint: Endpoint, observer: Observer): void {
    if (this.#toldOfCutShort) return;
    this.#toldOfCutShort = true;
    const message =
      `mysql2 ended connections of ${endpointAddress(endpoint)} that were in use when it left; ` +
      'a cluster made with restoreNodeTimeout lets them finish';
    notify(observer, 'warned', { message });
  }
}
