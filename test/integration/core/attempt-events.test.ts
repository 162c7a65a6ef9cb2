import { once } from 'node:events';
import { createServer, get, type Server as HttpServer } from 'node:http';
import { type AddressInfo, createConnection, createServer as createTcpServer, type Socket } from 'node:net';
import { Client, credentials, Metadata, Server, ServerCredentials } from '@grpc/grpc-js';
import { createBalancer, type ObserverEvents, staticEndpoints, type Transport } from 'evenkeel';
import { serviceChannelOptions, serviceTarget } from 'evenkeel/grpc-js';
import { createPoolCluster } from 'evenkeel/mysql2';
import { createAgent } from 'evenkeel/node-http';
import { createPool } from 'evenkeel/pg';
import { createReplicas } from 'evenkeel/redis';
import { createDispatcher } from 'evenkeel/undici';
import { Redis } from 'ioredis';
import { request } from 'undici';
import { afterEach, describe, expect, it } from 'vitest';
import { scriptedPostgres, scriptedRedis } from '../../support/databases/scripted-databases.js';
import { ScriptedMysql } from '../../support/databases/scripted-mysql.js';
import { asIs, bytesMethod } from '../../support/pods/grpc-method.js';
import { until } from '../../support/until.js';

type AttemptEnded = ObserverEvents['attemptEnded'];

/** One server, and a client of one entry point that observes its attempts. */
interface EntryPoint {
  /** Sends a call that the server answers, answers never, or answers by hanging up. Rejects when it fails. */
  call(what: 'answer' | 'hang' | 'cut', signal?: AbortSignal): Promise<unknown>;
  /** Whether the server has got a call that it does not answer. */
  readonly holds: () => boolean;
  close(): Promise<unknown>;
}

type Open = (observer: { attemptEnded(event: AttemptEnded): void }) => Promise<EntryPoint>;

const portOf = (server: { address(): AddressInfo | string | null }): number => (server.address() as AddressInfo).port;
const endpoint = (port: number) => staticEndpoints([{ address: '127.0.0.1', port }]);

async function httpServer(): Promise<{ server: HttpServer; port: number; held: () => boolean }> {
  let held = false;
  const server = createServer((asked, answer) => {
    if (asked.url === '/hang') held = true;
    else if (asked.url === '/cut') asked.socket.destroy();
    else answer.end('here');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, port: portOf(server), held: () => held };
}

const stop = (server: HttpServer): void => {
  server.closeAllConnections();
  server.close();
};

const tcp: Transport<Socket> = {
  async connect({ address, port }, signal) {
    const socket = createConnection({ host: address, port: port ?? 0 });
    await once(socket, 'connect', { signal });
    return {
      handle: socket,
      capacity: 1,
      closed: once(socket, 'close').then(() => undefined),
      close: async () => void socket.destroy(),
    };
  },
};

const entryPoints: Record<string, Open> = {
  'balancer.run': async (observer) => {
    const { server, port, held } = await httpServer();
    const balancer = createBalancer({ resolver: endpoint(port), transport: tcp, observer });
    return {
      call: (what, signal) =>
        balancer.run(
          (socket, _lease, over) =>
            new Promise<void>((resolve, reject) => {
              over?.addEventListener('abort', () => reject(over.reason));
              socket.once('data', () => resolve());
              const lost = Object.assign(new Error('cut'), { code: 'ECONNRESET' });
              socket.once('close', () => reject(lost));
              socket.write(`GET /${what} HTTP/1.1\r\nhost: a\r\n\r\n`);
            }),
          { signal },
        ),
      holds: held,
      close: async () => {
        await balancer.close({ signal: AbortSignal.abort() });
        stop(server);
      },
    };
  },
  createDispatcher: async (observer) => {
    const { server, port, held } = await httpServer();
    const dispatcher = createDispatcher('http://orders.shop:8080', { resolver: endpoint(port), observer });
    return {
      call: async (what, signal) => {
        const options = { dispatcher, method: 'POST', ...(signal && { signal }) } as const;
        const { body } = await request(`http://orders.shop:8080/${what}`, options);
        await body.dump();
      },
      holds: held,
      close: async () => {
        await dispatcher.destroy();
        stop(server);
      },
    };
  },
  createAgent: async (observer) => {
    const { server, port, held } = await httpServer();
    const agent = createAgent('http://orders.shop:8080', { resolver: endpoint(port), observer });
    return {
      call: (what, signal) =>
        new Promise<void>((resolve, reject) => {
          const options = { agent, ...(signal && { signal }) };
          get(`http://orders.shop:8080/${what}`, options, (answer) => answer.resume().on('end', resolve)).on(
            'error',
            reject,
          );
        }),
      holds: held,
      close: async () => {
        agent.destroy();
        stop(server);
      },
    };
  },
  'grpc-js': async (observer) => {
    const server = new Server();
    let held = false;
    server.addService(
      { answer: bytesMethod('/a.B/answer'), hang: bytesMethod('/a.B/hang'), cut: bytesMethod('/a.B/cut') },
      {
        answer: (_call: unknown, reply: (error: null, bytes: Buffer) => void) => reply(null, Buffer.alloc(1)),
        hang: () => {
          held = true;
        },
        cut: () => {
          for (const socket of sockets) socket.destroy();
        },
      },
    );
    const bound = await new Promise<number>((resolve, reject) => {
      const bindTo = '127.0.0.1:0';
      server.bindAsync(bindTo, ServerCredentials.createInsecure(), (error, to) =>
        error ? reject(error) : resolve(to),
      );
    });
    // grpc-js does not hand out its sockets: these can be cut.
    const sockets: Socket[] = [];
    const relay = createTcpServer((socket) => {
      const onward = createConnection({ host: '127.0.0.1', port: bound });
      sockets.push(socket, onward);
      for (const [from, to] of [
        [socket, onward],
        [onward, socket],
      ] as const)
        from.pipe(to).on('error', () => from.destroy());
    });
    relay.listen(0, '127.0.0.1');
    await once(relay, 'listening');
    const port = portOf(relay);
    const options = serviceChannelOptions({ resolver: endpoint(port), observer });
    const client = new Client(serviceTarget('orders.shop:50051'), credentials.createInsecure(), options);
    return {
      call: (what, signal) =>
        new Promise<void>((resolve, reject) => {
          const call = client.makeUnaryRequest(`/a.B/${what}`, asIs, asIs, Buffer.alloc(1), new Metadata(), (error) =>
            error ? reject(error) : resolve(),
          );
          signal?.addEventListener('abort', () => call.cancel());
        }),
      holds: () => held,
      close: async () => {
        client.close();
        server.forceShutdown();
        relay.close();
        for (const socket of sockets) socket.destroy();
      },
    };
  },
  mysql2: async (observer) => {
    const server = await ScriptedMysql.start();
    server.reaction = (sql) => (sql === 'answer' ? 'id' : 'hold');
    const resolver = staticEndpoints([server.endpoint]);
    const cluster = createPoolCluster({ resolver, user: 'u', observer, queryTimeoutMs: 60_000 });
    const heldConnection = () =>
      server.connections.find(({ statements }) => statements.some((sql) => sql !== 'answer'));
    return {
      call: async (what) => {
        const answered = cluster.query(what);
        if (what === 'cut') {
          await until('the statement is there', () => heldConnection() !== undefined);
          heldConnection()?.socket.destroy();
        }
        await answered;
      },
      holds: () => heldConnection() !== undefined,
      close: async () => {
        await cluster.end();
        await server[Symbol.asyncDispose]();
      },
    };
  },
  pg: async (observer) => {
    const server = await scriptedPostgres();
    const pool = createPool({ resolver: staticEndpoints([server.endpoint]), user: 'u', observer });
    return {
      call: (what) => pool.query(what),
      holds: () => server.holds,
      close: async () => {
        await pool.end();
        await server[Symbol.asyncDispose]();
      },
    };
  },
  redis: async (observer) => {
    const server = await scriptedRedis();
    const primary = new Redis({ lazyConnect: true });
    const replicas = createReplicas(primary, 'redis-replicas.shop:6379', {
      resolver: staticEndpoints([server.endpoint]),
      observer,
      role: 'replica',
      retry: { maxAttempts: 1 },
    });
    return {
      call: (what) => replicas.client.get(what),
      holds: () => server.holds,
      close: async () => {
        await replicas.close({ signal: AbortSignal.abort() });
        primary.disconnect();
        await server[Symbol.asyncDispose]();
      },
    };
  },
};

const open: EntryPoint[] = [];
afterEach(async () => {
  for (const entryPoint of open.splice(0)) await entryPoint.close();
});

/** What all entry points say in the same words; errors and endpoints are their own. */
const told = (attempts: readonly AttemptEnded[]) =>
  attempts.map(({ outcome, attempt, retrying }) => ({ outcome, attempt, retrying }));

describe.each(Object.entries(entryPoints))('attemptEnded of %s', (name, opened) => {
  async function start() {
    const attempts: AttemptEnded[] = [];
    const entryPoint = await opened({ attemptEnded: (event) => void attempts.push(event) });
    open.push(entryPoint);
    return { attempts, entryPoint };
  }

  it('gets one event for a call that succeeds, when its lease has ended', async () => {
    const { attempts, entryPoint } = await start();
    await entryPoint.call('answer');
    await until('it was told', () => attempts.length > 0);
    expect(told(attempts)).toEqual([{ outcome: { kind: 'success' }, attempt: 1, retrying: false }]);
    expect(attempts[0]?.endpoint.address).toBe('127.0.0.1');
    expect(attempts[0]?.error).toBeUndefined();
  });

  it('gets one event for a call whose connection is lost and that may not be sent twice', async () => {
    const { attempts, entryPoint } = await start();
    await expect(entryPoint.call('cut')).rejects.toThrow();
    await until('it was told', () => attempts.length > 0);
    expect(told(attempts)).toEqual([{ outcome: { kind: 'failure', cause: 'reset' }, attempt: 1, retrying: false }]);
    expect(attempts[0]?.error).toBeDefined();
  });

  // Statements and commands take no signal.
  if (['mysql2', 'pg', 'redis'].includes(name)) return;
  it('gets one event for a call that its caller gives up', async () => {
    const { attempts, entryPoint } = await start();
    const abort = new AbortController();
    const call = expect(entryPoint.call('hang', abort.signal)).rejects.toThrow();
    await until('the server has it', () => entryPoint.holds());
    abort.abort();
    await call;
    await until('it was told', () => attempts.length > 0);
    expect(told(attempts)).toEqual([{ outcome: { kind: 'cancelled' }, attempt: 1, retrying: false }]);
  });
});
