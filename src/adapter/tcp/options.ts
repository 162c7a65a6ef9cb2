import type { Socket } from 'node:net';
import type { Balancer } from '../../index.js';
import {
  type Filled,
  functionOption,
  type OptionTable,
  optionTable,
  type PlaceOptions,
  type SocketPlacerOptions,
} from '../kit/index.js';

/**
 * Options of a connector: how the pod of each socket is found and picked, and what happens to open sockets when their pod leaves. All are
 * optional.
 */
export interface ConnectorOptions extends SocketPlacerOptions {
  /**
   * Closes a connection that should leave its pod, in the way of its protocol: `(socket) => socket.end('QUIT\r\n')`. A connection that is
   * still open 5 s later is destroyed. @defaultValue `socket.end()`
   */
  readonly finish?: PlaceOptions['finish'];
}

export const connectorTable: OptionTable<Filled<Pick<ConnectorOptions, 'finish'>, 'finish'>> = optionTable('options', {
  finish: functionOption<NonNullable<ConnectorOptions['finish']>>(),
});

/** Options of one `connect`, which take precedence over those of its connector. */
export interface ConnectOptions extends PlaceOptions {}

/** Opens connections to the pods of a Service, for any protocol over TCP or TLS. */
export interface Connector extends AsyncDisposable {
  /** The connector's balancer: `ready()` waits for a pod, `snapshot()` returns the current state. */
  readonly balancer: Balancer<unknown>;
  /**
   * Opens a connection to the pod with the fewest connections of this process; if that fails, others are tried. With the option `tls`,
   * resolves to a `TLSSocket` that has been verified for the Service's name. The caller handles the socket's errors. Rejects with
   * EVENKEEL_NOT_READY (no pod could be connected to in time), the other codes of `balancer.acquire`, or the signal's reason.
   */
  connect(options?: ConnectOptions): Promise<Socket>;
  /**
   * Opens a connection for libraries that take a function of this name, or a stream. With a callback, calls it with an error or the socket,
   * as an `http.Agent` does. Without one, returns a stream that connects by itself, buffers writes until then, and emits `connect`, or
   * `error` if it cannot connect. The stream has the properties and methods of a `net.Socket`, but is not an instance of it. Other
   * arguments are ignored: pod, name and certificate are the connector's.
   */
  createConnection(options?: unknown, callback?: (error: Error | null, socket?: Socket) => void): Socket;
  /**
   * Opens no new connection. Open ones are told to leave (`onLeaving`) and may stay for `pool.drainTimeoutMs`, or until `signal` aborts.
   */
  close(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
}
