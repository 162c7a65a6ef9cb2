import { Socket } from 'node:net';
import type { PoolOptions } from 'mysql2';
import { type Endpoint, EvenkeelError, endpointAddress } from '../../../index.js';
import { optionError } from '../../kit/index.js';
import { dial } from '../server/dial.js';

/** Opens the stream of one connection, as mysql2's option `stream` does. */
type StreamFactory = (given: unknown) => Socket;

/** The sockets mysql2 opens to one endpoint by its option `stream`: here they are counted, refused while it leaves, and cut. */
export class NodeSockets {
  /** The user's options with ours added, for `add` and for a log-in. */
  readonly options: PoolOptions;
  readonly #endpoint: Endpoint;
  readonly #open: StreamFactory;
  /** With the bytes that had passed at the last check. */
  readonly #sockets = new Map<Socket, number>();
  readonly #emptied: () => void;
  #refusal: Error | undefined;

  /** @param emptied Called when the last socket is closed, before mysql2's listeners. */
  constructor(endpoint: Endpoint, options: PoolOptions, emptied: () => void) {
    const { stream, enableKeepAlive = true, keepAliveInitialDelay = 0, localAddress } = options;
    if (stream !== undefined && typeof stream !== 'function') {
      throw optionError('node().stream', 'a function that opens a stream for each connection', stream);
    }
    this.#endpoint = endpoint;
    this.#emptied = emptied;
    // What mysql2 would set on a socket of its own.
    const dialOptions = { keepAlive: enableKeepAlive, keepAliveDelayMs: keepAliveInitialDelay, localAddress };
    this.#open = (stream as StreamFactory | undefined) ?? (() => dial(endpoint, dialOptions).ref());
    const { address, port } = endpoint;
    this.options = { ...options, host: options.host ?? address, port, stream: (given: unknown) => this.#stream(given) };
  }

  /** Sockets not yet closed, refused ones included. */
  get size(): number {
    return this.#sockets.size;
  }

  /** Opens no more connections: mysql2 counts that as failures of the node and tries another one. */
  refuse(): void {
    const endpoint = endpointAddress(this.#endpoint);
    this.#refusal = new EvenkeelError('EVENKEEL_CONNECT', `${endpoint} is leaving the cluster`, { endpoint });
  }

  accept(): void {
    this.#refusal = undefined;
  }

  /** Whether an error is such a refusal. */
  isRefusal(error: unknown): boolean {
    return this.#refusal !== undefined && error === this.#refusal;
  }

  /** Ends all at once. */
  cut(): void {
    for (const socket of this.#sockets.keys()) socket.destroy();
  }

  /** Ends sockets without traffic since the last call: their users are not in the middle of a short query. */
  cutQuiet(): void {
    for (const [socket, before] of this.#sockets) {
      const passed = (socket.bytesRead ?? 0) + (socket.bytesWritten ?? 0);
      if (passed === before) socket.destroy();
      else this.#sockets.set(socket, passed);
    }
  }

  #stream(given: unknown): Socket {
    // A socket that is destroyed emits its error later in this turn, when mysql2 listens.
    const socket = this.#refusal === undefined ? this.#open(given) : new Socket().destroy(this.#refusal);
    this.#sockets.set(socket, -1);
    socket.once('close', () => {
      this.#sockets.delete(socket);
      if (this.#sockets.size === 0) this.#emptied();
    });
    return socket;
  }
}
