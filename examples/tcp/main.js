// @ts-check
/**
 * Everything on one machine: three pods, an API server for tests in place of Kubernetes, thirty connections.
 *
 *   node examples/tcp/main.js
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { endpointSlices } from 'evenkeel/kubernetes';
import { createConnector } from 'evenkeel/tcp';
import { createApiServer } from '../../test/servers/index.js';

const api = await createApiServer();
const service = api.service('shop', 'ticker', { ports: [{ name: 'ticker', port: 7000, targetPort: 'ticker' }] });
/** @type {Map<string, import('node:child_process').ChildProcess>} */
const processes = new Map();

/** Starts a pod and adds it to the Service once it listens. @param {string} name */
async function startPod(name) {
  const child = fork(new URL('pod.js', import.meta.url), { env: { ...process.env, POD_NAME: name, PORT: '0' } });
  const [port] = await once(child, 'message');
  processes.set(name, child);
  service.putPod({ name, address: '127.0.0.1', ports: { ticker: port } });
}

const ticker = createConnector('ticker.shop:7000', {
  // When a pod leaves, its connections are notified one by one, here within half a second.
  leaveSpreadMs: 500,
  onLeaving: (_leaving, socket) => socket.end(),
  // Much faster than you would want outside an example.
  rebalance: { ratioPerMinute: 20 },
  // Leave this line out in a pod: evenkeel finds the API server by itself.
  resolver: endpointSlices({
    apiServer: api.url,
    namespace: 'shop',
    service: 'ticker',
    port: 'ticker',
    allowAddresses: ['loopback'],
  }),
});

/** Connections that ended in an error. */
let lost = 0;
let isOver = false;

/** A client that reconnects, like most libraries. */
async function subscribe() {
  while (!isOver) {
    const socket = await ticker.connect();
    socket.resume();
    const hadError = await new Promise((resolve) => {
      socket.on('error', () => {});
      socket.once('close', resolve);
    });
    if (hadError) lost++;
  }
}

const shares = () =>
  Object.fromEntries(
    ticker.balancer
      .snapshot()
      .endpoints.filter(({ state }) => state === 'ready')
      .map(({ name, inFlight }) => [name, inFlight])
      .sort(),
  );

/** @param {(counts: number[]) => boolean} condition */
async function until(condition) {
  while (!condition(Object.values(shares()))) await new Promise((resolve) => setTimeout(resolve, 20));
}
/** @param {number[]} counts */
const total = (counts) => counts.reduce((sum, count) => sum + count, 0);

await Promise.all(['anna', 'bert', 'cleo'].map(startPod));
await until((counts) => counts.length === 3);
for (let made = 0; made < 30; made++) void subscribe();
await until((counts) => total(counts) === 30);
console.log('three pods:       ', shares());

await startPod('dora');
await until((counts) => counts.length === 4 && Math.max(...counts) <= 9 && total(counts) === 30);
console.log('dora joins:       ', shares());

// A rollout: the pod's slice says terminating, its process gets SIGTERM. It exits when its last connection has left.
const anna = processes.get('anna');
const exited = anna && once(anna, 'exit');
service.updatePod('anna', { terminating: true });
anna?.kill('SIGTERM');
await exited;
service.removePod('anna');
await until((counts) => counts.length === 3 && total(counts) === 30);
console.log('anna has left:    ', shares());
console.log('connections lost: ', lost);

isOver = true;
await ticker.close({ signal: AbortSignal.abort() });
for (const child of processes.values()) if (child.connected) child.disconnect();
await api.close();
