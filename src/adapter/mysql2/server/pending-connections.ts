import type { Socket } from 'node:net';
import type { PoolConnection } from 'mysql2';
import type { Clock, Endpoint, Timer } from '../../../index.js';
import { type DialOptions, dial } from './dial.js';

/** A socket on its way to a session. */
export interface Dialled {
  readonly socket: Socket;
  readonly timer: Timer;
}

/** What it takes. */
export interface PendingConnectionsParts {
  readonly endpoint: Endpoint;
  readonly options: DialOptions;
  readonly clock: Clock;
  /** For the handshake included, in ms. */
  readonly timeoutMs: number;
  readonly address: string;
  /** One that came to nothing is closed. */
  readonly ended: () => void;
}

/** The sockets to one server whose handshakes are under way: each within its time, and none forgotten. */
export class PendingConnections {
  readonly #parts: PendingConnectionsParts;
  readonly #all = new Set<Dialled>();
  #latest: Dialled | undefined;

  constructor(parts: PendingConnectionsParts) {
    this.#parts = parts;
  }

  get size(): number {
    return this.#all.size;
  }

  /** What mysql2 asks for when it wants a connection. */
  open(): Socket {
    const { endpoint, options, clock, timeoutMs, address } = this.#parts;
    const socket = dial(endpoint, options);
    const timer = clock.timer(() => {
      const message = `${address} did not finish the handshake within ${timeoutMs} ms`;
      socket.destroy(Object.assign(new Error(message), { code: 'ETIMEDOUT', syscall: 'connect' }));
    }, timeoutMs);
    const dialled: Dialled = { socket, timer };
    this.#all.add(dialled);
    socket.once('close', () => this.#forget(dialled));
    this.#latest = dialled;
    return socket;
  }

  /** The socket `ask` made mysql2 open, if it did. */
  openedBy(ask: () => void): Dialled | undefined {
    this.#latest = undefined;
    ask();
    return this.#latest;
  }

  /** The handshake is done: the socket a connection came by, from now on its own. */
  takeFor(connection: PoolConnection): Socket | undefined {
    const { stream } = connection as unknown as { readonly stream: Socket };
    const { localAddress, localPort } = stream;
    for (const dialled of this.#all) {
      const { socket } = dialled;
      // Over TLS the stream is a layer above the socket: what both have in common is their end of the connection.
      const isIt = socket === stream || (localPort !== undefined && socket.localPort === localPort);
      if (!isIt || socket.localAddress !== localAddress) continue;
      dialled.timer.cancel();
      this.#all.delete(dialled);
      return socket;
    }
    return undefined;
  }

  /** It came to nothing. Quietly: mysql2 would tell of an error once more, and nobody hears. */
  drop(dialled: Dialled): void {
    dialled.socket.destroy();
    this.#forget(dialled);
  }

  cutAll(): void {
    for (const { socket } of this.#all) socket.destroy(new Error('called off'));
  }

  #forget(dialled: Dialled): void {
    dialled.timer.cancel();
    if (this.#all.delete(dialled)) this.#parts.ended();
  }
}
