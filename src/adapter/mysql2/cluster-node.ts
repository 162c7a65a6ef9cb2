import type { PoolOptions } from 'mysql2';
import { type Clock, type Connection, type Endpoint, EvenkeelError, endpointAddress, type Timer } from '../../index.js';
import type { ClusterFace } from './cluster-face.js';
import { NodeSockets } from './node-sockets.js';

/** How often the connections of a leaving node are looked after, in ms: those given back meanwhile are ended. */
const LOOK_AFTER_MS = 1_000;
/** How long what still runs may take once mysql2 was told to end the pool, in ms; after that its server is taken for dead. */
const LAST_WORDS_MS = 5_000;
/** How often one node may refuse in a row. mysql2 gives up after `removeNodeErrorCount`, which nobody can read. */
const MAX_REFUSALS = 100;

/** What a node needs of those who keep it. */
export interface ClusterNodeOwner {
  readonly cluster: ClusterFace;
  readonly clock: Clock;
  readonly drainTimeoutMs: number;
  /** mysql2 ended the pool of a leaving node while connections were in use. */
  cutShort(node: ClusterNode): void;
  /** It is out of the cluster, for good. */
  removed(node: ClusterNode): void;
}

/**
 * One endpoint as a node of the user's cluster.
 *
 * A node that leaves is first made useless to new callers, then removed: it refuses new connections and its idle ones are
 * ended, so mysql2 counts failures, tries other nodes and, in a cluster with `restoreNodeTimeout`, takes this one offline.
 * What is checked out works on. It is removed when its last connection is closed, or when its time is up.
 */
export class ClusterNode {
  readonly id: string;
  readonly endpoint: Endpoint;
  readonly #owner: ClusterNodeOwner;
  readonly #sockets: NodeSockets;
  #state: 'new' | 'added' | 'leaving' | 'abandoned' | 'removed' = 'new';
  #drainLimit: Timer | undefined;
  #lookAfter: Timer | undefined;
  #isPurging = false;
  /** Ends the stay the balancer knows of. */
  #endStay: ((error: Error | undefined) => void) | undefined;

  constructor(id: string, endpoint: Endpoint, options: PoolOptions, owner: ClusterNodeOwner) {
    this.id = id;
    this.endpoint = endpoint;
    this.#owner = owner;
    this.#sockets = new NodeSockets(endpoint, options, () => this.#emptied());
  }

  get isLeaving(): boolean {
    return this.#state === 'leaving';
  }

  /** What mysql2 opens connections to it with. */
  get options(): PoolOptions {
    return this.#sockets.options;
  }

  /** Adds it to the cluster, or takes back that it leaves. Until `closed` settles it is there. */
  stay(): Connection<ClusterNode> {
    const { cluster } = this.#owner;
    if (this.#state === 'leaving') this.#stopLeaving();
    else cluster.add(this.id, this.#sockets.options);
    this.#state = 'added';
    const closed = new Promise<Error | undefined>((resolve) => {
      this.#endStay = resolve;
    });
    return {
      handle: this,
      capacity: Number.POSITIVE_INFINITY,
      closed,
      close: async () => this.leave(),
    };
  }

  /** No new callers; removed once nobody uses it. */
  leave(): void {
    if (this.#state !== 'added') return;
    this.#state = 'leaving';
    this.#endStay?.(undefined);
    const { clock, drainTimeoutMs } = this.#owner;
    if (drainTimeoutMs === 0) {
      this.remove();
      return;
    }
    if (drainTimeoutMs !== Number.POSITIVE_INFINITY) {
      this.#drainLimit = clock.timer(() => this.remove(), drainTimeoutMs);
    }
    this.#sockets.refuse();
    this.#purge();
  }

  /** Takes it out now. Running queries finish; a connection that is checked out fails at its next query. */
  remove(): void {
    if (this.#state === 'removed') return;
    this.#owner.cluster.remove(this.id);
    this.#gone(undefined);
  }

  /** mysql2 took it out by itself, after too many failures. */
  removedByCluster(): void {
    if (this.#state === 'leaving' && this.#sockets.size > 0) this.#owner.cutShort(this);
    this.#gone(
      new EvenkeelError('EVENKEEL_CONNECT', `mysql2 removed ${this.id} after too many failed connections`, {
        endpoint: endpointAddress(this.endpoint),
      }),
    );
  }

  /** It stays in the cluster, whose owner it is left to; one that is leaving still leaves. */
  abandon(): void {
    if (this.#state === 'added') this.#state = 'abandoned';
  }

  #gone(error: Error | undefined): void {
    this.#state = 'removed';
    this.#drainLimit?.cancel();
    this.#lookAfter?.cancel();
    // mysql2 waits for ever for a server that does not answer.
    if (this.#sockets.size > 0) this.#drainLimit = this.#owner.clock.timer(() => this.#sockets.cut(), LAST_WORDS_MS);
    this.#endStay?.(error);
    this.#owner.removed(this);
  }

  #stopLeaving(): void {
    this.#drainLimit?.cancel();
    this.#lookAfter?.cancel();
    this.#sockets.accept();
  }

  #emptied(): void {
    if (this.#state === 'leaving') this.remove();
    else if (this.#state === 'removed') this.#drainLimit?.cancel();
  }

  /** Ends what is idle, then has mysql2 count refusals until it lets the node be; again and again, as callers give back. */
  #purge(): void {
    if (this.#isPurging || this.#state !== 'leaving') return;
    this.#isPurging = true;
    void this.#endIdle().then(() => {
      this.#isPurging = false;
      if (this.#state !== 'leaving') return;
      if (this.#sockets.size === 0) this.remove();
      else this.#lookAfter = this.#owner.clock.timer(() => this.#purge(), LOOK_AFTER_MS);
    });
  }

  async #endIdle(): Promise<void> {
    for (let refusals = 0; refusals < MAX_REFUSALS && this.#state === 'leaving'; ) {
      try {
        // Waits its turn where all are checked out.
        const connection = await this.#owner.cluster.checkOut(this.id);
        // It came back meanwhile: then this one is as good as any, but only the callback face could release it.
        connection.destroy();
      } catch (error) {
        if (!this.#sockets.isRefusal(error)) return;
        refusals++;
      }
    }
  }
}
