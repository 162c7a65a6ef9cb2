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

/** Opens the socket of one connection, in the form of mysql2's option `stream`. */
type StreamFactory = (config: unknown) => Socket;

/**
 * Milliseconds between two rounds in which the idle connections of a leaving node are ended: callers may have given back more connections
 * meanwhile.
 */
const NEXT_ROUND_MS = 1_000;
/** How often one node may refuse connections in a row. mysql2 gives up after `removeNodeErrorCount` failures, which is not public. */
const MAX_REFUSALS = 100;
/** How long a connection must be without traffic before it is cut, in ms, when its node's drain time is over. */
const QUIET_MS = 100;
/** How many times a node whose drain time is over is checked for connections without traffic before all are cut. */
const QUIET_ROUNDS = 50;

/** What a node of the user's cluster needs from its owner. */
export interface ClusterNodeOwner {
  readonly cluster: UserCluster;
  readonly clock: Clock;
  readonly drainTimeoutMs: number;
  /** The node was removed from the cluster, for good. */
  removed(node: ClusterNode): void;
}

/**
 * A node of the user's cluster, for one endpoint.
 *
 * A leaving node is emptied before it is removed: if a connection of a pool that is being ended breaks, mysql2 throws where nobody can
 * catch it. First all connections of the node are checked out; once no caller has one, they are ended. If a caller keeps one, as for a
 * transaction, the node is made useless to new callers instead: it refuses new connections and ends idle ones, so mysql2 counts failures,
 * gives callers other nodes and takes this one offline. Checked-out connections work until the node's drain time is over.
 */
export class ClusterNode {
  readonly id: string;
  readonly endpoint: Endpoint;
  /** The options with which mysql2 opens the node's connections: the user's, with evenkeel's added. */
  readonly options: PoolOptions;
  readonly #owner: ClusterNodeOwner;
  readonly #open: StreamFactory;
  /** The node's sockets that are not closed yet, including refused ones, with the bytes that had passed at the last check. */
  readonly #sockets = new Map<Socket, number>();
  /**
   * The error with which the node refuses new connections; unset while it accepts them. mysql2 counts a refusal as a failure of the node
   * and tries another node.
   */
  #refusal: Error | undefined;
  #state: 'new' | 'added' | 'leaving' | 'abandoned' | 'removed' = 'new';
  /** Stops the checkout of all connections of the node; set while they are being checked out. */
  #stopCheckout: ((disposal: Disposal) => void) | undefined;
  #isEndingIdle = false;
  /** The timer for the node's drain time, and after that for the checks for traffic. */
  #limit: Timer | undefined;
  #roundTimer: Timer | undefined;
  /** Settles `closed` of the connection that represents this node to the balancer. */
  #endStay: (() => void) | undefined;

  constructor(id: string, endpoint: Endpoint, options: PoolOptions, owner: ClusterNodeOwner) {
    this.id = id;
    this.endpoint = endpoint;
    this.#owner = owner;
    const { stream, enableKeepAlive = true, keepAliveInitialDelay = 0, localAddress } = options;
    if (stream !== undefined && typeof stream !== 'function') {
      throw optionError('node().stream', 'a function that opens a stream for each connection', stream);
    }
    // These are the TCP options that mysql2 sets on sockets that it opens itself.
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

  /** Adds the node to the cluster, or stops it from leaving. The node stays until `closed` of the returned connection settles. */
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

  /** Lets the node leave: it takes no new callers, and is removed once no caller uses it or its drain time is over. */
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

  /** Ends all connections of a leaving node immediately, even those in use. */
  cut(): void {
    if (this.#state !== 'leaving') return;
    this.#refuse();
    this.#stopCheckout?.('destroy');
    this.#cutAll();
    this.#removeIfEmpty();
  }

  /** Leaves the node in the cluster, for the cluster's owner to end; a node that is leaving still leaves. */
  abandon(): void {
    if (this.#state === 'added') this.#state = 'abandoned';
  }

  /** Called when mysql2 gives out the node's connections again, after the node was offline. */
  online(): void {
    if (this.#stopCheckout === undefined) this.#endIdle();
  }

  #checkOutAll(): void {
    const { cluster, clock } = this.#owner;
    const { connectionLimit = 10 } = this.options;
    this.#stopCheckout = exclusiveCheckout({ cluster, clock, id: this.id, connectionLimit }, (gotAll) => {
      this.#stopCheckout = undefined;
      this.#refuse();
      if (gotAll) this.#cutAll();
      // The connections that were checked out are ended first, so that none is opened in their place.
      else clock.defer(() => this.#endIdle());
    });
  }

  #removeIfEmpty(): void {
    if (this.#state !== 'leaving' || this.#sockets.size > 0) return;
    this.#state = 'removed';
    this.#limit?.cancel();
    this.#roundTimer?.cancel();
    this.#owner.cluster.remove(this.id);
    this.#owner.removed(this);
  }

  #stopLeaving(): void {
    this.#limit?.cancel();
    this.#roundTimer?.cancel();
    this.#stopCheckout?.('release');
    this.#stopCheckout = undefined;
    this.#refusal = undefined;
  }

  /** The node's drain time is over. Short queries still get time to end; transactions have had theirs. */
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

  /** Ends the idle connections of a leaving node, repeatedly, because callers give back more of them. */
  #endIdle(): void {
    if (this.#isEndingIdle || this.#state !== 'leaving') return;
    this.#isEndingIdle = true;
    this.#roundTimer?.cancel();
    void this.#goOffline().then(() => {
      this.#isEndingIdle = false;
      this.#removeIfEmpty();
      if (this.#state === 'leaving') this.#roundTimer = this.#owner.clock.timer(() => this.#endIdle(), NEXT_ROUND_MS);
    });
  }

  /** Ends idle connections, and lets mysql2 count refusals until it takes the node offline. */
  async #goOffline(): Promise<void> {
    for (let round = 0; round < MAX_REFUSALS && this.#state === 'leaving' && this.#sockets.size > 0; round++) {
      // All idle connections are ended at once, because callers would get the remaining ones meanwhile.
      const attempts = Array.from({ length: this.#sockets.size + 1 }, () => this.#endOne());
      if ((await Promise.all(attempts)).includes('offline')) return;
    }
  }

  /** Checks out one idle connection of the node and ends it. */
  async #endOne(): Promise<'ended' | 'refused' | 'offline'> {
    try {
      (await checkOut(this.#owner.cluster, this.id)).destroy();
      return 'ended';
    } catch (error) {
      return this.#refusal !== undefined && error === this.#refusal ? 'refused' : 'offline';
    }
  }
  /** Opens a socket for one more connection of the node; the socket fails if the node refuses connections. */
  #stream(config: unknown): Socket {
    // A destroyed socket emits its error later in this turn, when mysql2 listens.
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

  /** Destroys the node's sockets that had no traffic since the last call: no short query is running on them. */
  #cutQuiet(): void {
    for (const [socket, before] of this.#sockets) {
      const passed = (socket.bytesRead ?? 0) + (socket.bytesWritten ?? 0);
      if (passed === before) socket.destroy();
      else this.#sockets.set(socket, passed);
    }
  }
}
