import type { Socket } from 'node:net';
import type { PoolConnection } from 'mysql2';
import { type Clock, type Endpoint, endpointAddress, type Timer } from '../../../index.js';
import type { Credentials } from './credentials.js';
import { type DialOptions, dial } from './dial.js';

/** A socket whose handshake is under way. */
export interface PendingConnection {
  readonly socket: Socket;
  /** What it logs in with, where that is asked for. */
  readonly credentials: Credentials | undefined;
  /** Limits the time for connecting and the handshake together. */
  readonly timer: Timer;
}

/** What `PendingConnections` needs. */
export interface PendingConnectionsParts {
  readonly endpoint: Endpoint;
  readonly options: DialOptions;
  readonly clock: Clock;
  /** Time for connecting and the handshake together, in ms. */
  readonly timeoutMs: number;
  /** One failed, and is closed. */
  readonly failed: () => void;
}

/** The sockets to one server whose handshakes are under way, each with a time limit. */
export class PendingConnections {
  readonly #parts: PendingConnectionsParts;
  readonly #all = new Set<PendingConnection>();

  constructor(parts: PendingConnectionsParts) {
    this.#parts = parts;
  }

  get size(): number {
    return this.#all.size;
  }

  /** Opens a socket. */
  open(credentials: Credentials | undefined): PendingConnection {
    const { endpoint, options, clock, timeoutMs } = this.#parts;
    const socket = dial(endpoint, options);
    const timer = clock.timer(() => {
      const message = `${endpointAddress(endpoint)} did not finish the handshake within ${timeoutMs} ms`;
      socket.destroy(Object.assign(new Error(message), { code: 'ETIMEDOUT', syscall: 'connect' }));
    }, timeoutMs);
    const pending: PendingConnection = { socket, credentials, timer };
    this.#all.add(pending);
    socket.once('close', () => this.#forget(pending));
    return pending;
  }

  /** The handshake of a connection is done: what it came from is no longer pending. */
  established(connection: PoolConnection): PendingConnection | undefined {
    const { stream } = connection as unknown as { readonly stream: Socket };
    const { localAddress, localPort } = stream;
    for (const pending of this.#all) {
      const { socket } = pending;
      // With TLS the stream is a layer above the socket: what both have in common is their local address and port.
      const isIt = socket === stream || (localPort !== undefined && socket.localPort === localPort);
      if (!isIt || socket.localAddress !== localAddress) continue;
      pending.timer.cancel();
      this.#all.delete(pending);
      return pending;
    }
    return undefined;
  }

  /** The connection failed. Its socket is destroyed without an error: mysql2 would report that once more, to nobody. */
  drop(pending: PendingConnection): void {
    pending.socket.destroy();
    this.#forget(pending);
  }

  cutAll(): void {
    for (const { socket } of this.#all) socket.destroy(new Error('called off'));
  }

  #forget(pending: PendingConnection): void {
    pending.timer.cancel();
    if (this.#all.delete(pending)) this.#parts.failed();
  }
}
