import { connect, createServer, type Server, type Socket } from 'node:net';
import { networkInterfaces } from 'node:os';

/** Whether this machine has the loopback address of IPv6. */
export const hasIpv6: boolean = Object.values(networkInterfaces()).some((list) =>
  list?.some(({ address }) => address === '::1'),
);

export const needsIpv6 = 'it needs ::1 on the loopback interface';

/** Makes a server on 127.0.0.1 reachable at the same port of ::1, for servers that listen on IPv4 alone. */
export class Ipv6Door implements AsyncDisposable {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Connections accepted so far. */
  accepted = 0;

  private constructor(port: number) {
    this.#server = createServer((socket) => {
      this.accepted++;
      const behind = connect(port, '127.0.0.1');
      for (const [one, other] of [
        [socket, behind],
        [behind, socket],
      ] as const) {
        this.#sockets.add(one);
        one.on('error', () => other.destroy());
        one.on('close', () => {
          this.#sockets.delete(one);
          other.destroy();
        });
      }
      socket.pipe(behind).pipe(socket);
    });
  }

  static async open(port: number): Promise<Ipv6Door> {
    const door = new Ipv6Door(port);
    await new Promise<void>((resolve, reject) => {
      door.#server.once('error', reject).listen(port, '::1', () => resolve());
    });
    return door;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }
}
