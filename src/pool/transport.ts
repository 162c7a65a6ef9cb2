import type { Endpoint } from '../endpoint/endpoint.js';

/** Opens connections: the interface between a balancer and a protocol's adapter. `C` is the object that callers use. */
export interface Transport<C> {
  /**
   * Opens a connection to an endpoint. Rejects if that fails, or when `signal` aborts (timeout, endpoint gone, balancer closed); after an
   * abort nothing may stay open.
   *
   * @param failures How many attempts and connections in a row failed on this endpoint recently; 0 = nothing is known against it.
   */
  connect(endpoint: Endpoint, signal: AbortSignal, failures?: number): Promise<Connection<C>>;
}

/** An open connection, or a small pool of them, to one endpoint. */
export interface Connection<C> {
  /** The object that a lease gives its caller, such as an HTTP pool, a channel or a client. */
  readonly handle: C;
  /**
   * How many concurrent calls the connection can carry now; Infinity = no limit. Read at every pick, unless the connection has
   * `watchCapacity`.
   */
  readonly capacity: number;
  /**
   * Registers a function to call whenever `capacity` changes, so that picks among thousands of connections need not read each one. Called
   * at most once, when the connection is taken into use.
   */
  watchCapacity?(changed: () => void): void;
  /** Resolves when the connection accepts no new calls while running ones finish (GOAWAY, `Connection: close`). Never rejects. */
  readonly leaving?: Promise<void>;
  /**
   * Resolves when the connection works but should be replaced, for example because its certificate was renewed. Another connection is
   * opened first; then new calls go to that one, and running calls finish here. If no other can be opened, this connection stays in use,
   * and the attempt is repeated later. Never rejects.
   */
  readonly outdated?: Promise<void>;
  /** Resolves once when the connection is closed, with the error that ended it, or with undefined after a clean end. Never rejects. */
  readonly closed: Promise<Error | undefined>;
  /** How many network connections this object has open, for snapshots and metrics. Absent = one. */
  readonly sockets?: number;
  /**
   * The endpoint left the set, and there may be other endpoints: calls that wait in this object for a network connection and were not sent
   * should fail at once as not started. Not called when the balancer closes. Must not throw.
   */
  left?(): void;
  /** The endpoint is back in the set after `left`, and this connection is used again. Must not throw. */
  returned?(): void;
  /** Checks whether the server responds on this connection; rejects if it does not. */
  ping?(signal: AbortSignal): Promise<void>;
  /**
   * Lets running calls finish and then closes the connection; cuts the calls when `signal` aborts. Never rejects. May be called several
   * times.
   */
  close(signal?: AbortSignal): Promise<void>;
}
