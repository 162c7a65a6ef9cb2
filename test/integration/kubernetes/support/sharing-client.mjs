// A client in a worker of a cluster or in a thread: follows a Service, and says what it has, with its number.
import { isMainThread, parentPort, threadId, workerData } from 'node:worker_threads';
import { systemClock, systemRng } from 'evenkeel';
import { endpointSlices } from 'evenkeel/kubernetes';

/** @type {import('evenkeel/kubernetes').EndpointSlicesOptions} */
const options = isMainThread ? JSON.parse(process.argv[2] ?? '{}') : workerData;
const number = isMainThread ? process.pid : threadId;
let set = '';
let isFailing = false;
const warnings = [];
const resolution = endpointSlices({ namespace: 'shop', service: 'orders', shareWatch: true, ...options }).watch(
  {
    update: (endpoints) => {
      set = endpoints
        .map(({ address }) => address)
        .sort()
        .join(' ');
      isFailing = false;
      say();
    },
    fail: () => {
      isFailing = true;
      say();
    },
    fresh: () => {
      isFailing = false;
      say();
    },
  },
  { clock: systemClock, rng: systemRng, observer: { warned: ({ message }) => warnings.push(message) } },
);

function say() {
  const message = { number, set, isFailing, watch: resolution.watch, warnings };
  if (isMainThread) process.send?.(message, undefined, undefined, () => {});
  else parentPort?.postMessage(message);
}
const interval = setInterval(say, 50);

/** @type {Record<string, (ms: number) => void>} */
const orders = {
  exit: () => process.exit(0),
  block: (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms),
  close: () => {
    resolution.close();
    clearInterval(interval);
    say();
  },
  // What others send, and what only looks like ours.
  forge: () => {
    for (const message of [null, 'text', { evenkeel: 'group' }, { evenkeel: 'group', group: 'x', member: -1 }]) {
      process.send?.({ foreign: number, message });
      process.send?.(message ?? { evenkeel: null });
    }
    for (let index = 0; index < 20_000; index++) {
      process.send?.({ evenkeel: 'group', group: 'x', member: index, does: 'join' });
    }
  },
};
const heard = (/** @type {{ order?: string, ms?: number }} */ { order, ms }) => orders[order ?? '']?.(ms ?? 0);
if (isMainThread) process.on('message', heard);
else parentPort?.on('message', heard);
