/**
 * Pods of one core each in one process: real HTTP/1.1 servers, a port each, whose requests share a core that is computed. A request
 * says what work it is (`x-work-ms`), and is answered when that work would be done.
 *
 *   fork('virtual-pods.mjs', [count, idleMs, 'reports' or ''])    idleMs: after how long idle connections are closed, 0 = never
 *   sends { port: 0, ports } when all listen; { late: true } is answered by { lateMs }: how late each answer was, since the last time
 */
import { createServer } from 'node:http';
import { createBackend } from 'evenkeel/server';
import { SharedCore } from './shared-core.mjs';

const [count = '1', idleMs = '0', reports = ''] = process.argv.slice(2);
/** @type {number[]} */
let lateMs = [];

function listen() {
  const core = new SharedCore();
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const plan = () => {
    clearTimeout(timer);
    const { nextMs } = core;
    if (nextMs === undefined) return;
    timer = setTimeout(() => {
      core.advance(performance.now());
      plan();
    }, nextMs - performance.now());
  };
  const answer = (
    /** @type {import('node:http').IncomingMessage} */ request,
    /** @type {import('node:http').ServerResponse} */ response,
  ) => {
    core.take(performance.now(), Number(request.headers['x-work-ms']), (atMs) => {
      lateMs.push(performance.now() - atMs);
      response.end('done');
    });
    plan();
  };
  const server = createServer(reports === 'reports' ? createBackend().http(answer) : answer);
  server.keepAliveTimeout = Number(idleMs);
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
