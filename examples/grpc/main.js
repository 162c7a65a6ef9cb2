// @ts-check
/**
 * Everything on one machine: three servers, an API server for tests in place of Kubernetes, one client.
 *
 *   node examples/grpc/main.js
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { endpointSlices } from 'evenkeel/kubernetes';
import { createApiServer } from '../../test/servers/index.js';
import { ordersClient } from './client.js';

const api = await createApiServer();
const service = api.service('shop', 'orders', { ports: [{ name: 'grpc', port: 50051, targetPort: 'grpc' }] });
/** @type {Map<string, import('node:child_process').ChildProcess>} */
const processes = new Map();

/** Starts a server and adds it to the Service, like a pod that became ready. @param {string} name */
async function startPod(name) {
  const env = { ...process.env, POD_NAME: name, PORT: '0', GRACE_MS: '500' };
  const child = fork(new URL('server.js', import.meta.url), { env, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  const [{ port }] = await once(child, 'message');
  processes.set(name, child);
  service.putPod({ name, address: '127.0.0.1', ports: { grpc: port } });
}

/** What a rollout does to a pod: its slice says terminating, its process gets SIGTERM. @param {string} name */
async function stopPod(name) {
  const child = processes.get(name);
  service.updatePod(name, { ready: false, terminating: true });
  child?.kill('SIGTERM');
  if (child !== undefined) await once(child, 'exit');
  service.removePod(name);
}

/** @type {import('evenkeel/grpc-js').ChannelBalancer | undefined} */
let balancer;
const client = ordersClient('orders.shop:50051', {
  // Leave this line out in a pod: evenkeel finds the API server by itself.
  resolver: endpointSlices({
    apiServer: api.url,
    namespace: 'shop',
    service: 'orders',
    port: 'grpc',
    allowAddresses: ['loopback'],
  }),
  onBalancer: (made) => {
    balancer = made;
  },
});

/** Waits until the client is connected to this many pods. @param {number} count */
async function connectedTo(count) {
  await balancer?.ready();
  const ready = () => balancer?.snapshot().endpoints.filter(({ state }) => state === 'ready').length;
  while (ready() !== count) await new Promise((resolve) => setTimeout(resolve, 10));
}

/** Asks for `count` orders, ten at a time, and counts the answers of each pod. @param {number} count */
async function ask(count) {
  /** @type {Record<string, number>} */
  const answers = {};
  for (let asked = 0; asked < count; asked += 10) {
    const orders = await Promise.all(Array.from({ length: 10 }, (_, index) => client.get(String(asked + index))));
    for (const { pod } of orders) answers[pod] = (answers[pod] ?? 0) + 1;
  }
  return Object.fromEntries(Object.entries(answers).sort());
}

await Promise.all(['anna', 'bert', 'cleo'].map(startPod));
await connectedTo(3);
console.log('three pods:             ', await ask(300));

await startPod('dora');
await connectedTo(4);
console.log('a fourth one joined:    ', await ask(400));

processes.get('bert')?.kill('SIGKILL');
console.log('one killed meanwhile:   ', await ask(300));
service.removePod('bert');

const story = (async () => {
  const steps = [];
  for await (const { state, pod } of client.follow('7')) steps.push(`${state} (${pod})`);
  return steps.join(', ');
})();
const rolled = Promise.all([startPod('emil'), stopPod('anna'), stopPod('cleo')]);
console.log('two replaced meanwhile: ', await ask(300));
console.log('a stream of that time:  ', await story);
await rolled;
await connectedTo(2);
console.log('after that:             ', await ask(300));
for (const { name, address, state } of balancer?.snapshot().endpoints ?? [])
  console.log(`  ${name} ${address} ${state}`);

client.close();
for (const child of processes.values()) if (child.connected) child.disconnect();
await api.close();
