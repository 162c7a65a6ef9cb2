import type { Endpoint } from '../endpoint/endpoint.js';
import type { Protocol } from '../observe/live-balancers.js';

/** How an adapter opens connections: the interface for every protocol. `C` is what callers use. */
export interface Transport<C> {
  /** The protocol of the transport, for metrics. Absent: there are no metrics with the names of conventions. */
  readonly protocol?: Protocol | undefined;
  /**
   * Opens a connection to an endpoint. Rejects if it cannot, or when `signal` aborts (timeout, endpoint gone, balancer closed); after an
   * abort nothing may stay open.
   *
   * @param failures How many attempts and connections to this endpoint failed recently, one after the other; 0 = nothing is known against
   * the endpoint.
   */
  connect(endpoint: Endpoint, signal: AbortSignal, failures?: number): Promise<Connection<C>>;
}

/** An open connection, or a small pool of them, to one endpoint. */
export interface Connection<C> {
  /** What a lease on this connection gives its caller: an HTTP pool, a channel, a client. */
  readonly handle: C;
  /** How many concurrent calls the connection can carry now; Infinity = no limit. Read at every pick, unless there is `watchCapacity`. */
  readonly capacity: number;
  /**
   * Registers a callback for changes of `capacity`, so that picks among thousands of connections need not read each of them.
   * Called at most once, when the connection is taken into use.
   */
  watchCapacity?(changed: () => void): void;
  /**
   * Settles when the connection accepts no new calls while running ones finish (GOAWAY, `Connection: close`). Never rejects.
   */
  readonly leaving?: Promise<void>;
  /**
   * Settles when another connection should replace it although it works, for example because its certificate was renewed. The replacement
   * is opened first; then new calls go to it, and running ones finish on this connection. If the replacement cannot be opened, this
   * connection stays in use, and the attempt is repeated later. Never rejects.
   */
  readonly outdated?: Promise<void>;
  /** Settles once when the connection is closed, with the error that ended it, or undefined for a clean end. Never rejects. */
  readonly closed: Promise<Error | undefined>;
  /** How many network connections this object has open. For snapshots and metrics. Absent: one. */
  readonly sockets?: number;
  /**
   * The endpoint left the set, and other endpoints may be in it: unsent calls that wait in this object for a network connection should fail
   * immediately as not started. Not called when the balancer closes. Must not throw.
   */
  left?(): void;
  /** The endpoint is back in the set (after `left`), and this connection is used again. Must not throw. */
  returned?(): void;
  /** Checks whether the other side of the connection is alive; rejects if it is not. */
  ping?(signal: AbortSignal): Promise<void>;
  /** Lets running calls finish, then closes the connection; cuts the calls when `signal` aborts. Never rejects. Idempotent. */
  close(signal?: AbortSignal): Promise<void>;
}
