import type { PoolOptions } from 'mysql2';
import type { Clock, Connection, Endpoint, Timer } from '../../../index.js';
import type { ClusterFace } from './cluster-face.js';
import { ExclusiveCheckout } from './exclusive-checkout.js';
import { NodeSockets } from './node-sockets.js';

/** How often the connections of a leaving node are looked after, in ms: those given back meanwhile are ended. */
const LOOK_AFTER_MS = 1_000;
/** How often one node may refuse in a row. mysql2 gives up after `removeNodeErrorCount`, which nobody can read. */
const MAX_REFUSALS = 100;
/** When the time is up: how long nothing must have passed through a connection before it is cut, in ms … */
const QUIET_MS = 100;
/** … and how many times that is waited for. */
const QUIET_ROUNDS = 50;

/** What a node needs of those who keep it. */
export interface ClusterNodeOwner {
  readonly cluster: ClusterFace;
  readonly clock: Clock;
  readonly drainTimeoutMs: number;
  /** It is out of the cluster, for good. */
  removed(node: ClusterNode): void;
}

/**
 * One endpoint as a node of the user's cluster.
 *
 * A node that leaves is emptied before it is removed: mysql2 throws, for nobody to catch, if a connection of a pool it was
 * told to end breaks. First it tries to check out all connections there may be; with none in anybody's hands they are ended
 * and that was it. If somebody holds on to one, as in a transaction, the node is made useless to new callers instead: it
 * refuses new connections and ends idle ones, so mysql2 counts failures, gives callers other nodes and takes this one
 * offline. What is checked out works on, until the node's time is up.
 */
export class ClusterNode {
  readonly id: string;
  readonly endpoint: Endpoint;
  readonly #owner: ClusterNodeOwner;
  readonly #sockets: NodeSockets;
  #state: 'new' | 'added' | 'leaving' | 'abandoned' | 'removed' = 'new';
  #checkouts: ExclusiveCheckout | undefined;
  #isEndingIdle = false;
  /** The time limit, then the looks at what is left. */
  #limit: Timer | undefined;
  #lookAfter: Timer | undefined;
  /** Ends the stay the balancer knows of. */
  #endStay: (() => void) | undefined;

  constructor(id: string, endpoint: Endpoint, options: PoolOptions, owner: ClusterNodeOwner) {
    this.id = id;
    this.endpoint = endpoint;
    this.#owner = owner;
    // Not in the middle of a socket's event: mysql2 has yet to hear that this connection is no more.
    this.#sockets = new NodeSockets(endpoint, options, () => owner.clock.defer(() => this.#removeIfEmpty()));
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
    if (this.#state === 'leaving') this.#stopLeaving();
    else this.#owner.cluster.add(this.id, this.#sockets.options);
    this.#state = 'added';
    const closed = new Promise<undefined>((resolve) => {
      this.#endStay = () => resolve(undefined);
    });
    return {
      handle: this,
      capacity: Number.POSITIVE_INFINITY,
      watchCapacity: () => {},
      closed,
      close: async () => this.leave(),
    };
  }

  /** No new callers; removed once nobody uses it, or when its time is up. */
  leave(): void {
    if (this.#state !== 'added') return;
    this.#state = 'leaving';
    this.#endStay?.();
    const { clock, drainTimeoutMs } = this.#owner;
    if (this.#sockets.size === 0) {
      this.#removeIfEmpty();
    } else if (drainTimeoutMs === 0) {
      this.cut();
    } else {
      if (drainTimeoutMs !== Number.POSITIVE_INFINITY) {
        this.#limit = clock.timer(() => this.#timeIsUp(0), drainTimeoutMs);
      }
      this.#gather();
    }
  }

  /** Ends the connections of a leaving node immediately, even those in use. */
  cut(): void {
    if (this.#state !== 'leaving') return;
    this.#sockets.refuse();
    this.#checkouts?.stop('destroy');
    this.#sockets.cut();
    this.#removeIfEmpty();
  }

  /** It stays in the cluster, whose owner it is left to; one that is leaving still leaves. */
  abandon(): void {
    if (this.#state === 'added') this.#state = 'abandoned';
  }

  /** mysql2 gave somebody a connection of it. */
  online(): void {
    if (this.#checkouts === undefined) this.#endIdle();
  }

  #gather(): void {
    const { cluster, clock } = this.#owner;
    const { connectionLimit = 10 } = this.#sockets.options;
    this.#checkouts = new ExclusiveCheckout({ cluster, clock, id: this.id, connectionLimit }, (all) => {
      this.#checkouts = undefined;
      this.#sockets.refuse();
      if (all) this.#sockets.cut();
      // What was gathered is ended first, and nothing opened in its place.
      else clock.defer(() => this.#endIdle());
    });
  }

  #removeIfEmpty(): void {
    if (this.#state !== 'leaving' || this.#sockets.size > 0) return;
    this.#state = 'removed';
    this.#limit?.cancel();
    this.#lookAfter?.cancel();
    this.#owner.cluster.remove(this.id);
    this.#owner.removed(this);
  }

  #stopLeaving(): void {
    this.#limit?.cancel();
    this.#lookAfter?.cancel();
    this.#checkouts?.stop('release');
    this.#checkouts = undefined;
    this.#sockets.accept();
  }

  /** Gives short queries the time to end; transactions have had theirs. */
  #timeIsUp(round: number): void {
    this.#sockets.refuse();
    this.#checkouts?.stop('destroy');
    if (round >= QUIET_ROUNDS) {
      this.#sockets.cut();
      return;
    }
    this.#sockets.cutQuiet();
    this.#limit = this.#owner.clock.timer(() => this.#timeIsUp(round + 1), QUIET_MS);
  }

  /** Ends the idle connections of a leaving node; again and again, as callers give theirs back. */
  #endIdle(): void {
    if (this.#isEndingIdle || this.#state !== 'leaving') return;
    this.#isEndingIdle = true;
    this.#lookAfter?.cancel();
    void this.#goOffline().then(() => {
      this.#isEndingIdle = false;
      this.#removeIfEmpty();
      if (this.#state === 'leaving') this.#lookAfter = this.#owner.clock.timer(() => this.#endIdle(), LOOK_AFTER_MS);
    });
  }

  /** Ends what is idle and has mysql2 count refusals until it gives out no more of this node. */
  async #goOffline(): Promise<void> {
    for (let round = 0; round < MAX_REFUSALS && this.#state === 'leaving' && this.#sockets.size > 0; round++) {
      // All that are idle at once: one by one, callers would get the others meanwhile.
      const attempts = Array.from({ length: this.#sockets.size + 1 }, () => this.#endOne());
      if ((await Promise.all(attempts)).includes('offline')) return;
    }
  }

  /** Ends one connection nobody uses. */
  async #endOne(): Promise<'ended' | 'refused' | 'offline'> {
    try {
      (await this.#owner.cluster.checkOut(this.id)).destroy();
      return 'ended';
    } catch (error) {
      return this.#sockets.isRefusal(error) ? 'refused' : 'offline';
    }
  }
}
