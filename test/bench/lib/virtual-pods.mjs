/**
 * Pods of one core each in one process: real servers, a port each, whose requests share a core that is computed. A request says what work
 * it is, and is answered when that work would be done.
 *
 *   fork('virtual-pods.mjs', [count, protocol, idleMs, 'reports' or ''])
 *     protocol: 'http' (`x-work-ms` in a header), 'grpc' (the same in metadata), 'postgres' (`SELECT <ms> AS work_ms`)
 *     idleMs: after how long idle connections are closed, 0 = never; HTTP only, as are reports
 *   sends { port: 0, ports } when all listen; { late: true } is answered by { lateMs }: how late each answer was, since the last time
 */
import { createServer as createHttpServer } from 'node:http';
import { createServer as createHttp2Server } from 'node:http2';
import { createServer as createNetServer } from 'node:net';
import { createBackend } from 'evenkeel/server';
import { servePostgres } from './postgres-wire.mjs';
import { SharedCore } from './shared-core.mjs';

const [count = '1', protocol = 'http', idleMs = '0', reports = ''] = process.argv.slice(2);
/** @type {number[]} */
let lateMs = [];

/** @typedef {(workMs: number, done: () => void) => void} Work  Does the work, then calls `done`. */

/** A core. @returns {Work} */
function core() {
  const shared = new SharedCore();
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const plan = () => {
    clearTimeout(timer);
    const { nextMs } = shared;
    if (nextMs === undefined) return;
    timer = setTimeout(() => {
      shared.advance(performance.now());
      plan();
    }, nextMs - performance.now());
  };
  return (workMs, done) => {
    shared.take(performance.now(), workMs, (atMs) => {
      lateMs.push(performance.now() - atMs);
      done();
    });
    plan();
  };
}

/** @param {Work} work */
function httpServer(work) {
  const answer = (
    /** @type {import('node:http').IncomingMessage} */ request,
    /** @type {import('node:http').ServerResponse} */ response,
  ) => work(Number(request.headers['x-work-ms']), () => response.end('done'));
  const server = createHttpServer(reports === 'reports' ? createBackend().http(answer) : answer);
  server.keepAliveTimeout = Number(idleMs);
  return server;
}

/** An empty message. */
const message = Buffer.alloc(5);

/** As gRPC is on the wire. @param {Work} work */
function grpcServer(work) {
  const server = createHttp2Server();
  server.on('stream', (stream, headers) => {
    stream.on('error', () => {});
    stream.resume();
    work(Number(headers['x-work-ms']), () => {
      if (stream.destroyed) return;
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
      stream.end(message);
    });
  });
  server.on('sessionError', () => {});
  return server;
}

/** @param {Work} work */
const postgresServer = (work) =>
  createNetServer({ noDelay: true }, (socket) =>
    servePostgres(socket, (sql, answer) => {
      const workMs = /^SELECT ([\d.e-]+) AS work_ms$/.exec(sql)?.[1];
      // What a pool asks about the server itself is no work.
      if (workMs === undefined) answer(sql.includes('pg_is_in_recovery()') ? ['false', 'off'] : []);
      else work(Number(workMs), () => answer([workMs]));
    }),
  );

const servers = { http: httpServer, grpc: grpcServer, postgres: postgresServer };

function listen() {
  const server = servers[/** @type {import('./fleet-contenders.mjs').Protocol} */ (protocol)](core());
  return new Promise((resolve) =>
    server.listen(0, '127.0.0.1', () => resolve(/** @type {any} */ (server.address()).port)),
  );
}

process.on('disconnect', () => process.exit());
process.on('message', (/** @type {{ late?: boolean }} */ message) => {
  if (message.late !== true) return;
  process.send?.({ lateMs });
  lateMs = [];
});
const ports = await Promise.all(Array.from({ length: Number(count) }, listen));
process.send?.({ port: 0, ports });
