import type { Endpoint } from '../endpoint/endpoint.js';
import type { Protocol } from '../observe/live-balancers.js';

/** How an adapter opens connections: the interface for every protocol. `C` is what callers use. */
export interface Transport<C> {
  /** The protocol, for metrics. Absent: there are no metrics with the names of conventions. */
  readonly protocol?: Protocol | undefined;
  /**
   * Opens a connection. Rejects if it cannot, or when `signal` aborts (timeout, endpoint gone, balancer closed); after an abort
   * nothing may stay open.
   *
   * @param failures How many attempts and connections to this endpoint failed recently, one after the other; 0 = nothing is known
   * against it.
   */
  connect(endpoint: Endpoint, signal: AbortSignal, failures?: number): Promise<Connection<C>>;
}

/** An open connection, or a small pool of them, to one endpoint. */
export interface Connection<C> {
  /** What a lease gives its caller. */
  readonly handle: C;
  /** How many concurrent calls it can carry now; Infinity = no limit. Read at every pick, unless there is `watchCapacity`. */
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
   * Settles when another connection should replace it although it works, for example because its certificate was renewed. The new one
   * is opened first; then new calls go there, and running ones finish here. If it cannot be opened, this one stays in use, and the
   * attempt is repeated later. Never rejects.
   */
  readonly outdated?: Promise<void>;
  /** Settles once when it is closed, with the error that ended it, or undefined for a clean end. Never rejects. */
  readonly closed: Promise<Error | undefined>;
  /** How many network connections it has open. For snapshots and metrics. Absent: it is one. */
  readonly sockets?: number;
  /**
   * The endpoint left the set, and others may be in it: unsent calls waiting here for a connection should fail immediately as
   * not started. Not called when the balancer closes. Must not throw.
   */
  left?(): void;
  /** The endpoint is back in the set (after `left`), and this connection is used again. Must not throw. */
  returned?(): void;
  /** Checks whether the other side is alive. */
  ping?(signal: AbortSignal): Promise<void>;
  /** Lets running calls finish, then closes; cuts them when `signal` aborts. Never rejects. Idempotent. */
  close(signal?: AbortSignal): Promise<void>;
}
