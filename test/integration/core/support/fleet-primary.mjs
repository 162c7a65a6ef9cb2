/**
 * A primary that forks workers and nothing else: `node fleet-primary.mjs '{"workers":4,"placesWorkers":true,"ports":[…],"size":3}'`.
 * It passes on what its workers say, and replaces those that die. Told `{ kill: pid }` it kills one.
 */
import cluster from 'node:cluster';
import { fileURLToPath } from 'node:url';
import { placeWorkers } from 'evenkeel';

const { workers, placesWorkers, ...task } = JSON.parse(process.argv[2] ?? '{}');
if (placesWorkers) placeWorkers();
cluster.setupPrimary({
  exec: fileURLToPath(new URL('fleet-worker.mjs', import.meta.url)),
  args: [JSON.stringify(task)],
  execArgv: [],
});
let isEnding = false;
cluster.on('message', (_worker, message) => {
  // Whoever listened may be gone.
  if (message.pid !== undefined) process.send?.(message, undefined, undefined, () => {});
});
cluster.on('exit', () => {
  if (!isEnding) cluster.fork();
});
for (let index = 0; index < workers; index++) cluster.fork();
process.on('message', (/** @type {{ kill: number }} */ { kill }) => process.kill(kill, 'SIGKILL'));
process.on('disconnect', () => {
  isEnding = true;
  for (const worker of Object.values(cluster.workers ?? {})) worker?.process.kill('SIGKILL');
  process.exit();
});
