import type { Endpoint } from '../endpoint/endpoint.js';

/** How an adapter opens connections: the one seam for every protocol. `C` is what callers get to use. */
export interface Transport<C> {
  /**
   * Opens a connection. Rejects when it cannot, or when `signal` aborts (time-out, endpoint gone, balancer closed);
   * after an abort nothing may stay open.
   */
  connect(endpoint: Endpoint, signal: AbortSignal): Promise<Connection<C>>;
}

/** A live connection, or a small pool of them, to one endpoint. */
export interface Connection<C> {
  /** What a lease hands to its caller. */
  readonly handle: C;
  /** How many calls it can carry at once, now; Infinity = no limit. Read on every pick, unless there is `watchCapacity`. */
  readonly capacity: number;
  /**
   * Asks to be called whenever `capacity` changes: then picks, which have thousands of connections to choose from, need
   * not look at each of them. Called at most once, when the connection is taken into use.
   */
  watchCapacity?(changed: () => void): void;
  /** Settles when the connection takes no new call while running ones finish (GOAWAY, `Connection: close`). Never rejects. */
  readonly leaving?: Promise<void>;
  /** Settles once when it is closed, with the error that ended it or undefined for a clean end. Never rejects. */
  readonly closed: Promise<Error | undefined>;
  /**
   * The endpoint left the set, and others may be in it: calls that wait here for something to open, of which nothing was
   * sent, had better fail at once as not started. Not said when the balancer closes. Must not throw.
   */
  left?(): void;
  /** The endpoint is back in the set (after `left`), and this connection is used again. Must not throw. */
  returned?(): void;
  /** Asks the other side whether it is alive. */
  ping?(signal: AbortSignal): Promise<void>;
  /** Lets running calls finish, then closes; when `signal` aborts they are cut. Never rejects. Idempotent. */
  close(signal?: AbortSignal): Promise<void>;
}
