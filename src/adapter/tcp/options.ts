import type { LookupFunction, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Balancer } from '../../index.js';
import type { PlaceOptions, SocketPlacerOptions } from '../kit/index.js';

/** Options of `createConnector`. */
export interface ConnectorOptions extends SocketPlacerOptions {
  /**
   * Closes a connection that should leave as its protocol does; whatever is still open 5 s later is destroyed.
   * @defaultValue `socket.end()`
   */
  readonly finish?: PlaceOptions['finish'];
}

/** Options of one connection. */
export interface ConnectOptions extends PlaceOptions {}

/** Connects to the pods of a Service, for any protocol. */
export interface Connector extends AsyncDisposable {
  /** State and control: `ready()`, `snapshot()`. */
  readonly balancer: Balancer<unknown>;
  /**
   * Opens a connection to the pod with the fewest connections of this process. If it cannot be connected to, others are tried.
   * With the option `tls` it resolves to a `TLSSocket` that has been verified for the Service's name. The caller handles its
   * errors. Rejects with EVENKEEL_NOT_READY (no pod could be connected to in time) and the other codes of `balancer.acquire`,
   * or with the signal's reason.
   */
  connect(options?: ConnectOptions): Promise<Socket>;
  /**
   * For libraries that take a function of this name or a stream: with a callback it is called with an error or the socket, as
   * by an `http.Agent`. Without one the stream returned connects by itself: what is written to it meanwhile is sent once it has,
   * it emits `connect` then, or `error` if it cannot. What it is called with besides is ignored: the pod, the name and the
   * certificate are those of this connector.
   */
  createConnection(options?: unknown, callback?: (error: Error | null, socket?: Socket) => void): Duplex;
  /**
   * For libraries that take nothing but the `lookup` of `net.connect`: answers with the addresses of pods, another one first each
   * time. It does not see the connections: they are not counted, told or closed, and TLS and port are the library's.
   */
  readonly lookup: LookupFunction;
  /**
   * Opens no new connection. Those that are open are told (`onLeaving`) and may stay for `pool.drainTimeoutMs`, or until
   * `signal` aborts.
   */
  close(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
}
