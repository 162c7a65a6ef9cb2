import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Server as GrpcServer, ServerCredentials } from '@grpc/grpc-js';
import { afterAll, describe, expect, it } from 'vitest';
import { WebSocketServer } from 'ws';
import * as mariadb from '../../support/databases/mariadb.js';
import * as postgres from '../../support/databases/postgres.js';
import * as rabbitmq from '../../support/databases/rabbitmq.js';
import * as redis from '../../support/databases/redis.js';
import { calledAfterEach } from '../../support/opened.js';
import { root } from '../../support/programs/programs.js';
import type { ServerProcess } from '../../support/programs/server-process.js';

const PROOF = process.env.EVENKEEL_PROOF === '1';
const program = fileURLToPath(new URL('support/script.mjs', import.meta.url));

const open = calledAfterEach();

/** Servers take their time, so that a process that does not wait for them has ended. In ms. */
const ANSWER_MS = 20;

interface Servers {
  readonly ports: readonly number[];
  readonly login?: object;
  /** kill -9, or for servers of this process a reset of all connections. Nothing listens afterwards. */
  readonly kill: () => Promise<unknown>;
  /** The servers close their connections in order. Nothing listens afterwards. */
  readonly stop: () => Promise<unknown>;
  /** They listen again, on the same ports. */
  readonly start: () => Promise<unknown>;
}

/** Two servers of this process. Each cuts its connections, and those of the other, when it is asked to. */
async function listenAll(make: (cutAll: () => void) => Server): Promise<Servers> {
  const sockets = new Set<Socket>();
  const each = (act: (socket: Socket) => void) => (): void => {
    for (const socket of sockets) act(socket);
  };
  const cutAll = each((socket) => socket.destroy());
  let servers: Server[] = [];
  let ports = [0, 0];
  const start = async (): Promise<void> => {
    servers = ports.map(() => make(cutAll));
    for (const server of servers) {
      server.on('connection', (socket: Socket) => {
        sockets.add(socket.on('close', () => sockets.delete(socket)).on('error', () => {}));
      });
    }
    await Promise.all(
      servers.map((server, index) => new Promise<void>((done) => server.listen(ports[index], '127.0.0.1', done))),
    );
    ports = servers.map((server) => (server.address() as AddressInfo).port);
  };
  const end = async (how: () => void): Promise<void> => {
    const closed = servers.map((server) => new Promise((resolve) => server.close(resolve)));
    how();
    await Promise.all(closed);
  };
  await start();
  open.push(() => end(cutAll));
  const kill = () => end(each((socket) => socket.resetAndDestroy()));
  return { ports, kill, stop: () => end(each((socket) => socket.end())), start };
}

const http = (): Promise<Servers> =>
  listenAll((cutAll) =>
    createHttpServer(async (request, response) => {
      await sleep(ANSWER_MS);
      response.end('ok', () => {
        if (request.url === '/cut') setImmediate(cutAll);
      });
    }),
  );

/** Answers every line with itself. */
const lines = (): Promise<Servers> =>
  listenAll((cutAll) =>
    createServer((socket) => {
      socket.on('data', async (data) => {
        await sleep(ANSWER_MS);
        if (String(data).startsWith('cut')) cutAll();
        else socket.write(`${String(data).trimEnd()}\n`);
      });
    }),
  );

const webSockets = (): Promise<Servers> =>
  listenAll((cutAll) => {
    const server = createHttpServer();
    new WebSocketServer({ server }).on('connection', (socket) => {
      socket.on('error', () => {});
      socket.on('message', async (data) => {
        await sleep(ANSWER_MS);
        if (String(data) === 'cut') cutAll();
        else socket.send(String(data));
      });
    });
    return server;
  });

async function grpc(): Promise<Servers> {
  const asIs = (bytes: Buffer): Buffer => bytes;
  const method = (path: string) => ({
    ...{ path, requestStream: false, responseStream: false, requestSerialize: asIs, requestDeserialize: asIs },
    ...{ responseSerialize: asIs, responseDeserialize: asIs },
  });
  let servers: GrpcServer[] = [];
  let ports = [0, 0];
  const start = async (): Promise<void> => {
    servers = ports.map(() => new GrpcServer());
    ports = await Promise.all(
      servers.map((server, index) => {
        server.addService({ call: method('/s/call'), cut: method('/s/cut') } as never, {
          call: async (call: { request: Buffer }, answer: (error: null, value: Buffer) => void) => {
            await sleep(ANSWER_MS);
            answer(null, call.request);
          },
          cut: (_: unknown, answer: (error: null, value: Buffer) => void) => {
            answer(null, Buffer.from('cut'));
            for (const [at, one] of servers.entries()) one.drain(`127.0.0.1:${ports[at]}`, 0);
          },
        });
        return new Promise<number>((resolve, reject) => {
          server.bindAsync(`127.0.0.1:${ports[index]}`, ServerCredentials.createInsecure(), (error, port) =>
            error ? reject(error) : resolve(port),
          );
        });
      }),
    );
  };
  await start();
  const kill = async (): Promise<void> => {
    for (const server of servers) server.forceShutdown();
  };
  open.push(kill);
  const stop = () => Promise.all(servers.map((server) => new Promise((done) => server.tryShutdown(done))));
  return { ports, kill, stop, start };
}

const toClose: (() => Promise<void>)[] = [];
afterAll(async () => {
  await Promise.all(toClose.map((close) => close()));
});

/** Started once: after each loss they are started again anyway. */
function startedOnce<Value>(start: () => Promise<Value>): () => Promise<Value> {
  let started: Promise<Value> | undefined;
  return () => (started ??= start());
}

/** Real servers, each a process of its own. */
function real(world: Real, login?: object): Servers {
  toClose.push(() => world.close());
  const all = (act: (server: ServerProcess) => Promise<void>) => () => Promise.all(world.all.map(act));
  return {
    ports: world.endpoints.map(({ port }) => port),
    ...(login !== undefined && { login }),
    kill: all((server) => server.kill()),
    stop: all((server) => server.stop()),
    start: all((server) => server.start()),
  };
}

interface Real {
  readonly all: readonly ServerProcess[];
  readonly endpoints: readonly { readonly port: number }[];
  close(): Promise<void>;
}

const mysql = startedOnce(async () => real(await mariadb.startMariadbs(2), mariadb.application));

const postgresql = startedOnce(async () => {
  const world = await postgres.startPostgres(0);
  const servers = real(world, postgres.application);
  await world.at(0).sql(`GRANT pg_signal_backend TO ${(postgres.application as { user: string }).user}`);
  return servers;
});

const redisServers = startedOnce(async () => real(await redis.startRedis(1)));

/** A broker takes long to start again: elsewhere than in the proof its clients lose it by what stands between. */
const brokers = startedOnce(async () => {
  const world = await rabbitmq.startBrokers(1);
  const servers = real(world);
  if (PROOF) return servers;
  return listenAll(() =>
    createServer((client) => {
      const broker = connect(servers.ports[0] as number, '127.0.0.1').on('error', () => {});
      client.pipe(broker).pipe(client);
      client.on('close', () => broker.destroy());
      broker.on('close', () => client.destroy());
    }),
  );
});

interface Row {
  readonly name: string;
  /** Of `entryPoints` in the script; several share servers that take long to start, at the same time. @defaultValue its name */
  readonly entryPoints?: readonly string[];
  readonly start: () => Promise<Servers>;
  /** Says why it does not run. */
  readonly titled?: (title: string) => string;
  readonly skip?: boolean;
  /** Whether a call can have all connections cut. @defaultValue true */
  readonly cuts?: boolean;
}

const needsMariadb = { start: mysql, titled: mariadb.titled, skip: mariadb.noMariadb };
const needsPostgres = { start: postgresql, titled: postgres.titled, skip: postgres.noPostgres };
const needsRedis = { start: redisServers, titled: redis.titled, skip: redis.noRedis };
const needsRabbitmq = { start: brokers, titled: rabbitmq.titled, skip: rabbitmq.noRabbitmq, cuts: false };
const rows: readonly Row[] = [
  { name: 'undici fetch', start: http },
  { name: 'undici dispatcher', start: http },
  { name: 'undici whole app', start: http },
  { name: 'node:http', start: http },
  { name: 'gRPC', start: grpc },
  { name: 'mysql2', ...needsMariadb },
  { name: 'mysql2 transactions', ...needsMariadb },
  { name: 'pg', ...needsPostgres },
  { name: 'pg transactions', ...needsPostgres },
  { name: 'pg, connections given back for good', ...needsPostgres },
  { name: 'ioredis', ...needsRedis },
  { name: 'node-redis', ...needsRedis },
  { name: 'amqp', ...needsRabbitmq, entryPoints: ['amqplib', 'amqp-connection-manager', 'rabbitmq-client'] },
  { name: 'ws', start: webSockets },
  { name: 'tcp', start: lines },
  { name: 'balancer.run', start: lines },
];

interface Round {
  readonly parallel: number;
  readonly losses: readonly ('kill' | 'stop')[];
}

/** More calls at once than the connections that are allowed; in the proof fewer, too. */
const rounds: readonly Round[] = PROOF
  ? [
      { parallel: 5, losses: ['kill'] },
      { parallel: 40, losses: ['stop'] },
    ]
  : [{ parallel: 40, losses: ['kill', 'stop'] }];

/** What brokers do after each loss is a matter for the proof. */
const roundsOfBrokers: readonly Round[] = PROOF ? rounds : [{ parallel: 5, losses: ['kill'] }];

describe('a plain script makes all of its calls, and then ends by itself', () => {
  for (const row of rows) {
    const { name, start, entryPoints = [name], titled = (title: string) => title, skip = false, cuts = true } = row;
    it.skipIf(skip)(titled(name), async () => {
      const servers = await start();
      const { ports, login } = servers;
      for (const { parallel, losses } of entryPoints.length > 1 ? roundsOfBrokers : rounds) {
        const given = JSON.stringify({ ports, login, parallel, losses: [...(cuts ? ['cut'] : []), ...losses] });
        const acts = Object.fromEntries(losses.map((loss) => [loss, onceAllAsk(entryPoints.length, servers[loss])]));
        acts.down = onceAllAsk(entryPoints.length, servers.start);
        const runs = entryPoints.map(async (entryPoint) => {
          const { code, lines, errors } = await runScript([program, entryPoint, given], acts);
          const all = `${parallel} of ${parallel}`;
          const cut = cuts ? ['heard', `after cut ${all}`] : [];
          const lost = losses.flatMap((loss) => [loss, 'down', 'heard', `after ${loss} ${all}`]);
          const expected = { entryPoint, code: 0, lines: [`cold ${all}`, 'one by one', ...cut, ...lost] };
          expect({ entryPoint, code, lines }, errors).toEqual(expected);
        });
        await Promise.all(runs);
      }
    });
  }
});

/** For scripts that share servers: does once what each of them asks for, when the last has asked. */
function onceAllAsk(scripts: number, act: () => Promise<unknown>): () => Promise<unknown> {
  let asked = 0;
  return async () => ++asked % scripts === 0 && act();
}

/** Runs a program to its end, and does what its lines ask for. */
async function runScript(
  args: readonly string[],
  acts: Readonly<Record<string, () => Promise<unknown>>>,
): Promise<{ readonly code: number | null; readonly lines: readonly string[]; readonly errors: string }> {
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
  open.push(() => child.kill('SIGKILL'));
  const lines: string[] = [];
  let errors = '';
  let acted = Promise.resolve();
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(line);
    const act = acts[line];
    if (act !== undefined) acted = acted.then(act).then(() => {});
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const [code] = (await once(child, 'close')) as [number | null];
  await acted;
  return { code, lines, errors };
}
