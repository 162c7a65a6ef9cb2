import { createServer, type Server as NetServer, type Socket } from 'node:net';
import { createEndpoint, systemClock, systemRng } from 'evenkeel';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { type OpenClient, Server } from '../../../src/adapter/redis/connection.js';
import { openIoredis } from '../../../src/adapter/redis/ioredis-client.js';
import { openNodeRedis } from '../../../src/adapter/redis/node-redis.js';
import { replicasSettings } from '../../../src/adapter/redis/options.js';
import { transportContract } from '../../contract/transport.js';
import { refusingEndpoint } from '../../support/pods/hanging-endpoint.js';

const INFO = 'role:slave\r\nmaster_link_status:up\r\nmaster_replid:a\r\nslave_repl_offset:1\r\nloading:0\r\n';

/** Speaks enough of Redis for a client to become ready. It answers GET only when told to. */
class ScriptedRedis {
  readonly sockets = new Set<Socket>();
  readonly held: (() => void)[] = [];
  readonly #server: NetServer;
  #heard = (): void => {};

  constructor(isSilent = false) {
    this.#server = createServer((socket) => {
      this.sockets.add(socket);
      socket.on('error', () => {});
      socket.once('close', () => this.sockets.delete(socket));
      socket.on('data', (data) => {
        // Commands are not split over packets this small.
        for (const command of isSilent
          ? []
          : String(data)
              .split(/^\*\d+\r\n/m)
              .slice(1))
          this.#answer(socket, command);
      });
    });
  }

  async listen(): Promise<{ address: string; port: number }> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return { address: '127.0.0.1', port: (this.#server.address() as { port: number }).port };
  }

  /** Resolves once a GET is held; answers it when called. */
  async next(): Promise<() => void> {
    while (this.held.length === 0) {
      await new Promise<void>((resolve) => {
        this.#heard = resolve;
      });
    }
    return this.held.shift() as () => void;
  }

  async close(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer(socket: Socket, command: string): void {
    const name = command.split('\r\n')[1]?.toLowerCase();
    if (name === 'get') {
      this.held.push(() => socket.write('$5\r\nseven\r\n'));
      this.#heard();
    } else socket.write(name === 'info' ? `$${INFO.length}\r\n${INFO}\r\n` : '+OK\r\n');
  }
}

const settings = replicasSettings('redis-replicas.shop:6379', {});
const libraries: readonly [string, () => OpenClient, (client: never) => Promise<unknown>][] = [
  ['ioredis', () => openIoredis(new Redis({ lazyConnect: true }), settings, {}), (client: Redis) => client.get('item')],
  [
    'node-redis',
    () => openNodeRedis(createClient(), settings, {}),
    (client: ReturnType<typeof createClient>) => client.get('item'),
  ],
];

for (const [library, opener, get] of libraries) {
  transportContract<Server>({
    name: `Redis, ${library}`,
    open: async () => {
      const server = new ScriptedRedis();
      const silent = new ScriptedRedis(true);
      const open = opener();
      const parts = {
        ...{ open, clock: systemClock, rng: systemRng, probeIntervalMs: 3_600_000 },
        ...{ changed: () => {}, learned: () => {}, warned: () => {} },
      };
      return {
        transport: {
          connect: async (endpoint, signal) => {
            const connection = new Server({ ...parts, endpoint });
            await connection.connect(signal);
            return connection;
          },
        },
        endpoint: createEndpoint(await server.listen()),
        refusing: createEndpoint(await refusingEndpoint()),
        hanging: createEndpoint(await silent.listen()),
        open: () => server.sockets.size + silent.sockets.size,
        end: (how) => {
          for (const socket of server.sockets) how === 'cleanly' ? socket.end() : socket.resetAndDestroy();
        },
        call: async (connection) => {
          const read = { sentMs: performance.now(), unanswered: () => {} };
          connection.callBegins(read);
          const ended = get(connection.client as never)
            .then(
              () => 'finished' as const,
              () => 'cut' as const,
            )
            .finally(() => connection.callEnds(read, true));
          return { ended, finish: await server.next() };
        },
        close: async () => {
          await server.close();
          await silent.close();
        },
      };
    },
  });
}
