/**
 * One client of a fleet, in a worker process or a thread: calls pods at `ports`, and says every 100 ms which of them it is connected
 * to, and of what it was warned.
 */

import { parentPort, threadId, workerData } from 'node:worker_threads';
import { conditions, outlierEjection, panic, pushback, staticEndpoints, subset } from 'evenkeel';
import { createDispatcher } from 'evenkeel/undici';

const { ports, size } = workerData ?? JSON.parse(process.argv[2] ?? '{}');
/** @type {string[]} */
const warnings = [];
const dispatcher = createDispatcher('http://orders.shop:8080', {
  resolver: staticEndpoints(ports.map((/** @type {number} */ port) => ({ address: '127.0.0.1', port }))),
  stages: [conditions(), subset({ size }), outlierEjection(), pushback(), panic()],
  pool: { drainTimeoutMs: 0 },
  observer: { warned: ({ message }) => warnings.push(message) },
});

function say() {
  const { endpoints } = dispatcher.balancer.snapshot();
  const connected = endpoints
    .filter(({ state }) => state === 'ready')
    .map(({ key, weight }) => ({ port: Number(key.split(':').at(-1)), weight }));
  const message = { pid: parentPort === null ? process.pid : threadId, connected, warnings };
  if (parentPort === null) process.send?.(message);
  else parentPort.postMessage(message);
}
setInterval(say, 100);
