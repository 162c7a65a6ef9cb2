import { connect, createServer, type Server, type Socket } from 'node:net';
import { seededRng } from '../../../src/testing/seeded-rng.js';
import type { Pod } from './pods.js';

/** Acts like a cluster IP: every new connection goes to a random pod and stays there. */
export class ServiceAddress implements AsyncDisposable {
  /** Connections so far. */
  connections = 0;
  pods: readonly Pod[];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(pods: readonly Pod[], seed: number) {
    this.pods = pods;
    const rng = seededRng(seed);
    this.#server = createServer((client) => {
      this.connections++;
      const pod = this.pods[Math.floor(rng.next() * this.pods.length)] as Pod;
      const upstream = connect(pod.port, '127.0.0.1');
      for (const [from, to] of [
        [client, upstream],
        [upstream, client],
      ] as const) {
        this.#sockets.add(from);
        from.pipe(to);
        from.on('error', () => to.destroy());
        from.on('close', () => {
          this.#sockets.delete(from);
          to.destroy();
        });
      }
    });
  }

  static async start(pods: readonly Pod[], seed = 1): Promise<ServiceAddress> {
    const address = new ServiceAddress(pods, seed);
    await new Promise<void>((resolve) => address.#server.listen(0, '127.0.0.1', resolve));
    return address;
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
