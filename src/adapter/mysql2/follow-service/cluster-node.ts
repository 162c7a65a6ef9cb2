import { Socket } from 'node:net';
import type { PoolOptions } from 'mysql2';
import {
  type Clock,
  type Connection,
  type Endpoint,
  EvenkeelError,
  endpointAddress,
  type Timer,
} from '../../../index.js';
import { optionError } from '../../kit/index.js';
import { dial } from '../server/opening.js';
import { checkOut, type Disposal, exclusiveCheckout, type UserCluster } from './user-cluster.js';

/** Opens the stream of one connection, as mysql2's option `stream` does. */
type StreamFactory = (config: unknown) => Socket;

/**
 * Milliseconds between two rounds in which the idle connections of a leaving node are ended: callers may have given back others meanwhile.
 */
const LOOK_AFTER_MS = 1_000;
/** How often one node may refuse in a row. mysql2 gives up after `removeNodeErrorCount`, which is not public. */
const MAX_REFUSALS = 100;
/** How long a connection of a node whose drain time is over must be without traffic before it is cut, in ms. */
const QUIET_MS = 100;
/** How many times a node whose drain time is over is checked for connections without traffic before all are cut. */
const QUIET_ROUNDS = 50;

/** What a node needs from its owner. */
export interface ClusterNodeOwner {
  readonly cluster: UserCluster;
  readonly clock: Clock;
  readonly drainTimeoutMs: number;
  /** The node was removed from the cluster, for good. */
  removed(node: ClusterNode): void;
}

/**
 * One endpoint as a node of the user's cluster.
 *
 * A leaving node is emptied before it is removed: if a connection of a pool that is being ended breaks, mysql2 throws where nobody
 * can catch it. First all its connections are checked out; once nobody has one, they are ended. If a caller keeps one, as for a
 * transaction, the node is made useless to new callers instead: it refuses new connections and ends idle ones, so mysql2 counts
 * failures, gives callers other nodes and takes this one offline. Checked-out connections work until the node's time is up.
 */
export class ClusterNode {
  readonly id: string;
  readonly endpoint: Endpoint;
  /** The user's options with ours added: mysql2 opens its connections with them. */
  readonly options: PoolOptions;
  readonly #owner: ClusterNodeOwner;
  readonly #open: StreamFactory;
  /** The sockets that are not closed yet, refused ones included, with the bytes that had passed at the last check. */
  readonly #sockets = new Map<Socket, number>();
  /**
   * The error with which the node refuses new connections, while it does: mysql2 counts that as failures of the node and tries another one.
   */
  #refusal: Error | undefined;
  #state: 'new' | 'added' | 'leaving' | 'abandoned' | 'removed' = 'new';
  /** Stops the checkout of all the node's connections; set while they are being checked out. */
  #stopCheckout: ((disposal: Disposal) => void) | undefined;
  #isEndingIdle = false;
  /** The timer for the node's time to leave, and after that for the checks for traffic. */
  #limit: Timer | undefined;
  #lookAfter: Timer | undefined;
  /** Settles `closed` of the connection by which the balancer knows this node. */
  #endStay: (() => void) | undefined;

  constructor(id: string, endpoint: Endpoint, options: PoolOptions, owner: ClusterNodeOwner) {
    this.id = id;
    this.endpoint = endpoint;
    this.#owner = owner;
    const { stream, enableKeepAlive = true, keepAliveInitialDelay = 0, localAddress } = options;
    if (stream !== undefined && typeof stream !== 'function') {
      throw optionError('node().stream', 'a function that opens a stream for each connection', stream);
    }
    // These are the options that mysql2 would set on a socket of its own.
    const dialOptions = { keepAlive: enableKeepAlive, keepAliveDelayMs: keepAliveInitialDelay, localAddress };
    this.#open = (stream as StreamFactory | undefined) ?? (() => dial(endpoint, dialOptions).ref());
    const { address, port } = endpoint;
    this.options = {
      ...options,
      host: options.host ?? address,
      port,
      stream: (config: unknown) => this.#stream(config),
    };
  }

  get isLeaving(): boolean {
    return this.#state === 'leaving';
  }

  /** Adds the node to the cluster, or stops it from leaving. It stays until `closed` of the returned connection settles. */
  stay(): Connection<ClusterNode> {
    if (this.#state === 'leaving') this.#stopLeaving();
    else this.#owner.cluster.add(this.id, this.options);
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

  /** The node takes no new callers. It is removed once nobody uses it, or when its time is up. */
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
      this.#checkOutAll();
    }
  }

  /** Ends the connections of a leaving node immediately, even those in use. */
  cut(): void {
    if (this.#state !== 'leaving') return;
    this.#refuse();
    this.#stopCheckout?.('destroy');
    this.#cutAll();
    this.#removeIfEmpty();
  }

  /** The node stays in the cluster, for its owner to end; one that is leaving still leaves. */
  abandon(): void {
    if (this.#state === 'added') this.#state = 'abandoned';
  }

  /** mysql2 gives out the node's connections again after the node was offline. */
  online(): void {
    if (this.#stopCheckout === undefined) this.#endIdle();
  }

  #checkOutAll(): void {
    const { cluster, clock } = this.#owner;
    const { connectionLimit = 10 } = this.options;
    this.#stopCheckout = exclusiveCheckout({ cluster, clock, id: this.id, connectionLimit }, (all) => {
      this.#stopCheckout = undefined;
      this.#refuse();
      if (all) this.#cutAll();
      // Connections that were checked out are ended first, and nothing is opened in their place.
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
    this.#stopCheckout?.('release');
    this.#stopCheckout = undefined;
    this.#refusal = undefined;
  }

  /** The node's time to leave is over. Gives short queries time to end; transactions have had theirs. */
  #timeIsUp(round: number): void {
    this.#refuse();
    this.#stopCheckout?.('destroy');
    if (round >= QUIET_ROUNDS) {
      this.#cutAll();
      return;
    }
    this.#cutQuiet();
    this.#limit = this.#owner.clock.timer(() => this.#timeIsUp(round + 1), QUIET_MS);
  }

  /** Ends the idle connections of a leaving node, repeatedly, as callers give theirs back. */
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

  /** Ends idle connections and lets mysql2 count refusals until it takes the node offline. */
  async #goOffline(): Promise<void> {
    for (let round = 0; round < MAX_REFUSALS && this.#state === 'leaving' && this.#sockets.size > 0; round++) {
      // All idle connections are ended at once: otherwise callers would get the others meanwhile.
      const attempts = Array.from({ length: this.#sockets.size + 1 }, () => this.#endOne());
      if ((await Promise.all(attempts)).includes('offline')) return;
    }
  }

  /** Ends one idle connection. */
  async #endOne(): Promise<'ended' | 'refused' | 'offline'> {
    try {
      (await checkOut(this.#owner.cluster, this.id)).destroy();
      return 'ended';
    } catch (error) {
      return this.#refusal !== undefined && error === this.#refusal ? 'refused' : 'offline';
    }
  }
  /** Opens a socket for one more connection of the node, or one that fails if the node refuses connections. */
  #stream(config: unknown): Socket {
    // A socket that is destroyed emits its error later in this turn, when mysql2 listens.
    const socket = this.#refusal === undefined ? this.#open(config) : new Socket().destroy(this.#refusal);
    this.#sockets.set(socket, -1);
    socket.once('close', () => {
      this.#sockets.delete(socket);
      // The node is not removed within a socket's event, because mysql2 does not know yet that the connection is gone.
      if (this.#sockets.size === 0) this.#owner.clock.defer(() => this.#removeIfEmpty());
    });
    return socket;
  }

  #refuse(): void {
    const endpoint = endpointAddress(this.endpoint);
    this.#refusal = new EvenkeelError('EVENKEEL_CONNECT', `${endpoint} is leaving the cluster`, { endpoint });
  }

  #cutAll(): void {
    for (const socket of this.#sockets.keys()) socket.destroy();
  }

  /** Ends the node's sockets without traffic since the last call: their users are not in the middle of a short query. */
  #cutQuiet(): void {
    for (const [socket, before] of this.#sockets) {
      const passed = (socket.bytesRead ?? 0) + (socket.bytesWritten ?? 0);
      if (passed === before) socket.destroy();
      else this.#sockets.set(socket, passed);
    }
  }
}
