// @ts-check
/**
 * Everything on one machine: three pods, an API server for tests in place of Kubernetes, one axios client.
 *
 *   node examples/axios/main.js
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { roundRobin } from 'evenkeel';
import { endpointSlices } from 'evenkeel/kubernetes';
import { createApiServer } from '../../test/servers/index.js';
import { ordersClient } from './orders-client.js';

const api = await createApiServer();
const service = api.service('shop', 'orders', { ports: [{ name: 'http', port: 8080, targetPort: 'http' }] });
/** @type {Map<string, import('node:child_process').ChildProcess>} */
const processes = new Map();

/** Starts a pod and adds it to the Service once it listens. @param {string} name */
async function startPod(name) {
  const env = { ...process.env, POD_NAME: name, PORT: '0', GRACE_MS: '300' };
  const child = fork(new URL('pod.js', import.meta.url), { env });
  const [{ port }] = await once(child, 'message');
  processes.set(name, child);
  service.putPod({ name, address: '127.0.0.1', ports: { http: port } });
}

/** What a rollout does to a pod: its slice says terminating, its process gets SIGTERM. @param {string} name */
async function stopPod(name) {
  const child = processes.get(name);
  service.updatePod(name, { terminating: true });
  child?.kill('SIGTERM');
  if (child !== undefined) await once(child, 'exit');
  service.removePod(name);
}

const client = ordersClient('http://orders.shop:8080', {
  // For counts to compare: exactly even.
  picker: roundRobin(),
  // Leave this line out in a pod: evenkeel finds the API server by itself.
  resolver: endpointSlices({
    apiServer: api.url,
    namespace: 'shop',
    service: 'orders',
    port: 'http',
    allowAddresses: ['loopback'],
  }),
});

/** Waits until the client is connected to this many pods. @param {number} count */
async function connectedTo(count) {
  const ready = () => client.balancer.snapshot().endpoints.filter(({ state }) => state === 'ready').length;
  while (ready() !== count) await new Promise((resolve) => setTimeout(resolve, 10));
}

/** Sends `count` requests, ten at a time, every other one a POST; counts the answers of each pod. @param {number} count */
async function ask(count) {
  /** @type {Record<string, number>} */
  const answers = {};
  for (let asked = 0; asked < count; asked += 10) {
    const batch = Array.from({ length: 10 }, (_, index) =>
      index % 2 === 0 ? client.get(asked + index) : client.create({ article: index }),
    );
    for (const { pod } of await Promise.all(batch)) answers[pod] = (answers[pod] ?? 0) + 1;
  }
  return Object.fromEntries(Object.entries(answers).sort());
}

await Promise.all(['anna', 'bert', 'cleo'].map(startPod));
await connectedTo(3);
console.log('three pods:             ', await ask(300));

await startPod('dora');
await connectedTo(4);
console.log('a fourth one joined:    ', await ask(400));

const rolled = Promise.all([startPod('emil'), stopPod('anna'), stopPod('bert')]);
console.log('two replaced meanwhile: ', await ask(300));
await rolled;
await connectedTo(3);
console.log('after that:             ', await ask(300));
for (const { name, address, state } of client.balancer.snapshot().endpoints)
  console.log(`  ${name} ${address} ${state}`);

await client.close();
for (const child of processes.values()) if (child.connected) child.disconnect();
await api.close();
