import { connect, Socket } from 'node:net';
import type { PoolOptions } from 'mysql2';
import { type Endpoint, EvenkeelError, endpointAddress, optionError } from '../../index.js';

/** Makes the stream of one connection, as mysql2's option `stream` does. */
type StreamFactory = (options: unknown) => Socket;

/** The sockets mysql2 opens to one endpoint, by way of its option `stream`: counted, refused while the endpoint leaves, cut. */
export class NodeSockets {
  /** The user's options with ours in them, for `add` and `createConnection`. */
  readonly options: PoolOptions;
  readonly #endpoint: Endpoint;
  readonly #open: StreamFactory;
  readonly #sockets = new Set<Socket>();
  readonly #emptied: () => void;
  #refusal: Error | undefined;

  /** @param emptied Called when the last socket is closed. */
  constructor(endpoint: Endpoint, options: PoolOptions, emptied: () => void) {
    const { stream, enableKeepAlive = true, keepAliveInitialDelay = 0 } = options;
    if (stream !== undefined && typeof stream !== 'function') {
      throw optionError('node().stream', 'a function that opens a stream for each connection', stream);
    }
    this.#endpoint = endpoint;
    this.#emptied = emptied;
    const { address: host, port } = endpoint;
    this.#open =
      (stream as StreamFactory | undefined) ??
      // What mysql2 would set on a socket of its own.
      (() => connect({ host, port, noDelay: true, keepAlive: enableKeepAlive, keepAliveInitialDelay }));
    this.options = { ...options, host: options.host ?? host, port, stream: (given: unknown) => this.#stream(given) };
  }

  /** Sockets open or being opened. */
  get size(): number {
    return this.#sockets.size;
  }

  /** From now on no connection is opened: mysql2 counts that as a failure of the node and tries another one. */
  refuse(): void {
    this.#refusal = new EvenkeelError('EVENKEEL_CONNECT', `${endpointAddress(this.#endpoint)} is leaving the cluster`, {
      endpoint: endpointAddress(this.#endpoint),
    });
  }

  accept(): void {
    this.#refusal = undefined;
  }

  /** Whether this is what mysql2 makes of our refusal. */
  isRefusal(error: unknown): boolean {
    return this.#refusal !== undefined && error === this.#refusal;
  }

  /** Ends what is left without a goodbye. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #stream(given: unknown): Socket {
    // Destroyed with an error it tells of that later in this turn, when mysql2 listens.
    if (this.#refusal !== undefined) return new Socket().destroy(this.#refusal);
    const socket = this.#open(given);
    this.#sockets.add(socket);
    socket.once('close', () => {
      this.#sockets.delete(socket);
      if (this.#sockets.size === 0) this.#emptied();
    });
    return socket;
  }
}
