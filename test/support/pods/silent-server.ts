import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';

/** A server that accepts connections, reads what comes, and never sends anything. */
export class SilentServer implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor() {
    this.#server = createServer((socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => {}).once('close', () => this.#sockets.delete(socket));
      socket.resume();
    });
  }

  static async start(): Promise<SilentServer> {
    const silent = new SilentServer();
    await once(silent.#server.listen(0, '127.0.0.1'), 'listening');
    return silent;
  }

  get endpoint(): { readonly address: string; readonly port: number } {
    return { address: '127.0.0.1', port: (this.#server.address() as AddressInfo).port };
  }

  /** How many connections are open now. */
  get open(): number {
    return this.#sockets.size;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
