import { createServer, type Server } from 'node:net';

/** Listeners on 127.0.1.1, 127.0.1.2 … that share one port, like pods. Linux has all of 127.0.0.0/8; other systems do not. */
export class LoopbackPods implements AsyncDisposable {
  readonly addresses: readonly string[];
  readonly port: number;
  readonly #servers: readonly Server[];

  private constructor(addresses: readonly string[], port: number, servers: readonly Server[]) {
    this.addresses = addresses;
    this.port = port;
    this.#servers = servers;
  }

  static async start(count: number): Promise<LoopbackPods> {
    const addresses = Array.from({ length: count }, (_, index) => `127.0.1.${index + 1}`);
    for (let attempt = 1; ; attempt++) {
      const servers: Server[] = [];
      try {
        for (const address of addresses) servers.push(await listen(address, servers[0] ? portOf(servers[0]) : 0));
        return new LoopbackPods(addresses, portOf(servers[0] as Server), servers);
      } catch (error) {
        for (const server of servers) server.close();
        if (attempt === 10) throw error;
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#servers.map((server) => new Promise((resolve) => server.close(resolve))));
  }
}

function listen(address: string, port: number): Promise<Server> {
  const server = createServer((socket) => socket.on('error', () => {}).end());
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, address, () => resolve(server));
  });
}

function portOf(server: Server): number {
  return (server.address() as { port: number }).port;
}
