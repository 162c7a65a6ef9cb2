/**
 * A pod of several clients: `node sharing-pod.mjs '{"kind":"workers","count":8,"client":{"apiServer":"http://…"}}'`, kind `threads` likewise.
 * It passes on what they say. Told `{ to, order }` it passes that on to one, and does `kill` and `terminate` and `block` itself.
 */
import cluster from 'node:cluster';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';

const { kind, count, client, loadsEvenkeel = true, replaces = true } = JSON.parse(process.argv[2] ?? '{}');
const program = new URL('sharing-client.mjs', import.meta.url);
const say = (/** @type {object} */ message) => process.send?.(message, undefined, undefined, () => {});
/** @type {Map<number, Worker>} */
const threads = new Map();
let isEnding = false;

if (kind === 'workers') {
  if (loadsEvenkeel) await import('evenkeel');
  cluster.setupPrimary({ exec: fileURLToPath(program), args: [JSON.stringify(client)], execArgv: [] });
  cluster.on('message', (_worker, message) => {
    if (message?.number !== undefined || message?.foreign !== undefined) say(message);
  });
  cluster.on('exit', () => {
    if (!isEnding && replaces) cluster.fork();
  });
  for (let index = 0; index < count; index++) cluster.fork();
} else {
  for (let index = 0; index < count; index++) {
    const thread = new Worker(program, { workerData: client });
    const { threadId } = thread;
    threads.set(threadId, thread);
    thread.on('message', say);
    thread.on('exit', () => threads.delete(threadId));
  }
}

process.on('message', (/** @type {{ to?: number, order: string, ms?: number }} */ { to, order, ms }) => {
  if (to === undefined && order === 'block') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  else if (order === 'kill' && to !== undefined) process.kill(to, 'SIGKILL');
  else if (order === 'terminate') void threads.get(to ?? 0)?.terminate();
  else {
    threads.get(to ?? 0)?.postMessage({ order, ms });
    for (const worker of Object.values(cluster.workers ?? {}))
      if (worker?.process.pid === to) worker.send({ order, ms });
  }
});
process.on('disconnect', () => {
  isEnding = true;
  for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill('SIGKILL');
  process.exit();
});
