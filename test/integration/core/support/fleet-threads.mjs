/** Starts clients as threads: `node fleet-threads.mjs '{"workers":4,"ports":[…],"size":3}'`. Passes on what they say. */
import { Worker } from 'node:worker_threads';

const { workers, ...workerData } = JSON.parse(process.argv[2] ?? '{}');
const threads = Array.from({ length: workers }, () => {
  const thread = new Worker(new URL('fleet-worker.mjs', import.meta.url), { workerData });
  thread.on('message', (message) => process.send?.(message));
  return thread;
});
process.on('message', (/** @type {{ kill: number }} */ { kill }) => {
  for (const thread of threads) if (thread.threadId === kill) void thread.terminate();
});
process.on('disconnect', () => process.exit());
