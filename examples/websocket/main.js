// @ts-check
/**
 * Everything on one machine: three pods, an API server for tests in place of Kubernetes, thirty WebSockets that reconnect.
 *
 *   node examples/websocket/main.js
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { endpointSlices } from 'evenkeel/kubernetes';
import { createWebSockets } from 'evenkeel/ws';
import { createApiServer } from '../../test/servers/index.js';

const api = await createApiServer();
const service = api.service('shop', 'chat', { ports: [{ name: 'ws', port: 8080, targetPort: 'ws' }] });
/** @type {Map<string, import('node:child_process').ChildProcess>} */
const processes = new Map();

/** Starts a pod and adds it to the Service once it listens. @param {string} name */
async function startPod(name) {
  const child = fork(new URL('pod.js', import.meta.url), { env: { ...process.env, POD_NAME: name, PORT: '0' } });
  const [port] = await once(child, 'message');
  processes.set(name, child);
  service.putPod({ name, address: '127.0.0.1', ports: { ws: port } });
}

const chat = createWebSockets('ws://chat.shop:8080', {
  // These clients reconnect by themselves, so their sockets are closed one by one, here within half a second.
  closeLeaving: true,
  leaveSpreadMs: 500,
  // Much faster than you would want outside an example.
  rebalance: { ratioPerMinute: 20 },
  // Leave this line out in a pod: evenkeel finds the API server by itself.
  resolver: endpointSlices({
    apiServer: api.url,
    namespace: 'shop',
    service: 'chat',
    port: 'ws',
    allowAddresses: ['loopback'],
  }),
});

/** How often a socket was closed with which code. @type {Record<number, number>} */
const codes = {};
let isOver = false;

function join() {
  const socket = new chat.WebSocket('ws://chat.shop:8080/rooms/7');
  socket.on('error', () => {});
  socket.on('close', (code) => {
    if (isOver) return;
    codes[code] = (codes[code] ?? 0) + 1;
    join();
  });
}

const shares = () =>
  Object.fromEntries(
    chat.balancer
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
for (let made = 0; made < 30; made++) join();
await until((counts) => total(counts) === 30);
console.log('three pods:     ', shares());

await startPod('dora');
await until((counts) => counts.length === 4 && Math.max(...counts) <= 9 && total(counts) === 30);
console.log('dora joins:     ', shares());

// A rollout: the pod's slice says terminating, its process gets SIGTERM. It exits when its last WebSocket has left.
const anna = processes.get('anna');
const exited = anna && once(anna, 'exit');
service.updatePod('anna', { terminating: true });
anna?.kill('SIGTERM');
await exited;
service.removePod('anna');
await until((counts) => counts.length === 3 && total(counts) === 30);
console.log('anna has left:  ', shares());
console.log('closed with:    ', Object.keys(codes));

isOver = true;
await chat.close({ signal: AbortSignal.abort() });
for (const child of processes.values()) if (child.connected) child.disconnect();
await api.close();
