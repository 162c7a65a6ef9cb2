import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { Server as GrpcServer, ServerCredentials } from '@grpc/grpc-js';
import { afterEach, describe, expect, it } from 'vitest';
import { WebSocketServer } from 'ws';
import { runProgram } from '../../support/consumer.js';
import * as mariadb from '../../support/mariadb.js';
import * as postgres from '../../support/postgres.js';
import { root } from '../../support/programs.js';
import * as redis from '../../support/redis.js';

const program = fileURLToPath(new URL('support/script.mjs', import.meta.url));

const open: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

interface Servers {
  readonly ports: readonly number[];
  readonly login?: object;
}

/** Lets a server cut all its connections at once. */
async function listen(server: Server, cutBy: (cut: () => void) => void): Promise<number> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket.on('close', () => sockets.delete(socket)).on('error', () => {}));
  });
  cutBy(() => {
    for (const socket of sockets) socket.destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  open.push(() => {
    for (const socket of sockets) socket.destroy();
    return new Promise((resolve) => server.close(resolve));
  });
  return (server.address() as AddressInfo).port;
}

/** Both servers cut when one of them is asked to. */
async function listenAll(make: (cutAll: () => void) => Server): Promise<Servers> {
  const cuts: (() => void)[] = [];
  const cutAll = (): void => {
    for (const cut of cuts) cut();
  };
  const ports = await Promise.all([0, 1].map(() => listen(make(cutAll), (cut) => cuts.push(cut))));
  return { ports };
}

const http = (): Promise<Servers> =>
  listenAll((cutAll) =>
    createHttpServer((request, response) => {
      response.end('ok', () => {
        if (request.url === '/cut') setImmediate(cutAll);
      });
    }),
  );

/** Answers every line with itself. */
const lines = (): Promise<Servers> =>
  listenAll((cutAll) =>
    createServer((socket) => {
      socket.on('data', (data) => {
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
      socket.on('message', (data) => {
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
  const servers = [new GrpcServer(), new GrpcServer()];
  const ports = await Promise.all(
    servers.map(async (server) => {
      server.addService({ call: method('/s/call'), cut: method('/s/cut') } as never, {
        call: (call: { request: Buffer }, answer: (error: null, value: Buffer) => void) => answer(null, call.request),
        cut: (_: unknown, answer: (error: null, value: Buffer) => void) => {
          answer(null, Buffer.from('cut'));
          for (const [index, one] of servers.entries()) one.drain(`127.0.0.1:${ports[index]}`, 0);
        },
      });
      return new Promise<number>((resolve, reject) => {
        server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) =>
          error ? reject(error) : resolve(port),
        );
      });
    }),
  );
  for (const server of servers) open.push(() => server.forceShutdown());
  return { ports };
}

async function mysql(): Promise<Servers> {
  const world = await mariadb.startMariadbs(2);
  open.push(() => world.close());
  return { ports: world.endpoints.map(({ port }) => port), login: mariadb.application };
}

async function postgresql(): Promise<Servers> {
  const world = await postgres.startPostgres(0);
  open.push(() => world.close());
  await world.at(0).sql(`GRANT pg_signal_backend TO ${(postgres.application as { user: string }).user}`);
  return { ports: world.endpoints.map(({ port }) => port), login: postgres.application };
}

async function redisServers(): Promise<Servers> {
  const world = await redis.startRedis(1);
  open.push(() => world.close());
  return { ports: world.endpoints.map(({ port }) => port) };
}

interface Row {
  /** Of `entryPoints` in the script. */
  readonly name: string;
  readonly start: () => Promise<Servers>;
  /** Says why it does not run. */
  readonly titled?: (title: string) => string;
  readonly skip?: boolean;
}

const needsMariadb = { start: mysql, titled: mariadb.titled, skip: mariadb.noMariadb };
const needsPostgres = { start: postgresql, titled: postgres.titled, skip: postgres.noPostgres };
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
  { name: 'ioredis', start: redisServers, titled: redis.titled, skip: redis.noRedis },
  { name: 'ws', start: webSockets },
  { name: 'tcp', start: lines },
  { name: 'balancer.run', start: lines },
];

describe('a plain script makes all of its calls, and then ends by itself', () => {
  for (const { name, start, titled = (title: string) => title, skip = false } of rows) {
    it.skipIf(skip)(titled(name), async () => {
      const servers = await start();
      // Fewer than the connections that are allowed, and more.
      for (const parallel of [5, 40]) {
        const given = JSON.stringify({ ...servers, parallel });
        const { code, stdout, stderr } = await runProgram(process.execPath, [program, name, given], root);
        const all = `${parallel} of ${parallel}`;
        const expected = [`cold ${all}`, 'one by one', 'heard', `after a loss ${all}`];
        expect({ code, lines: stdout.trim().split('\n') }, stderr).toEqual({ code: 0, lines: expected });
      }
    });
  }
});
