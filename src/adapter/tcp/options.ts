import type { LookupFunction, Socket } from 'node:net';
import type { Balancer } from '../../index.js';
import {
  type Filled,
  functionOption,
  type OptionTable,
  optionTable,
  type PlaceOptions,
  type SocketPlacerOptions,
} from '../kit/index.js';

/** How the pod of each socket is found and picked, and what happens to open ones when their pod leaves. All may be left out. */
export interface ConnectorOptions extends SocketPlacerOptions {
  /**
   * Closes a connection that should leave, as its protocol does: `(socket) => socket.end('QUIT\r\n')`. If it is still open 5 s
   * later it is destroyed. @defaultValue `socket.end()`
   */
  readonly finish?: PlaceOptions['finish'];
}

export const connectorTable: OptionTable<Filled<Pick<ConnectorOptions, 'finish'>, 'finish'>> = optionTable('options', {
  finish: functionOption<NonNullable<ConnectorOptions['finish']>>(),
});

/** What one `connect` does otherwise than its connector. */
export interface ConnectOptions extends PlaceOptions {}

/** Connects to the pods of a Service, for any protocol. */
export interface Connector extends AsyncDisposable {
  /** State and control of the connector's balancer: `ready()`, `snapshot()`. */
  readonly balancer: Balancer<unknown>;
  /**
   * Opens a connection to the pod with the fewest connections of this process. If that fails, others are tried.
   * With the option `tls` it resolves to a `TLSSocket` that has been verified for the Service's name. The caller handles its
   * errors. Rejects with EVENKEEL_NOT_READY (no pod could be connected to in time) and the other codes of `balancer.acquire`,
   * or with the signal's reason.
   */
  connect(options?: ConnectOptions): Promise<Socket>;
  /**
   * For libraries that take a function of this name, or a stream. With a callback, it calls that with an error or the socket, like an
   * `http.Agent`. Without one it returns a stream that connects by itself, buffers writes until then, and emits `connect`, or `error`
   * if it cannot connect. It has the properties and methods of a `net.Socket`, but is no instance of it. Other arguments are ignored:
   * pod, name and certificate are the connector's.
   */
  createConnection(options?: unknown, callback?: (error: Error | null, socket?: Socket) => void): Socket;
  /**
   * For libraries that only take the `lookup` of `net.connect`: returns the addresses of pods, with a different one first each time.
   * evenkeel does not see these connections: they are not counted, told to leave or closed. TLS and port are up to the library.
   */
  readonly lookup: LookupFunction;
  /**
   * Opens no new connection. Open ones are told to leave (`onLeaving`) and may stay for `pool.drainTimeoutMs`, or until `signal`
   * aborts.
   */
  close(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
}
