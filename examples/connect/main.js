// @ts-check
/**
 * The whole story on one machine: three pods, an API server for tests in place of Kubernetes, one client of Connect.
 *
 *   node examples/connect/main.js
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createClient } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-node';
import { roundRobin } from 'evenkeel';
import { createSessionManager } from 'evenkeel/http2';
import { endpointSlices } from 'evenkeel/kubernetes';
import { createApiServer } from '../../test/servers/index.js';
import { Orders } from './orders.js';

const api = await createApiServer();
const service = api.service('shop', 'orders', { ports: [{ name: 'connect', port: 8080, targetPort: 'connect' }] });
/** @type {Map<string, import('node:child_process').ChildProcess>} */
const processes = new Map();

/** Starts a pod and adds it to the Service when it listens. @param {string} name */
async function startPod(name) {
  const child = fork(new URL('pod.js', import.meta.url), { env: { ...process.env, POD_NAME: name, PORT: '0' } });
  const [port] = await once(child, 'message');
  processes.set(name, child);
  service.putPod({ name, address: '127.0.0.1', ports: { connect: port } });
}

const baseUrl = 'http://orders.shop:8080';
const sessionManager = createSessionManager(baseUrl, {
  picker: roundRobin(),
  // In a pod this line is left out: evenkeel finds the API server by itself.
  resolver: endpointSlices({
    apiServer: api.url,
    namespace: 'shop',
    service: 'orders',
    port: 'connect',
    allowAddresses: ['loopback'],
  }),
});
const orders = createClient(Orders, createConnectTransport({ baseUrl, httpVersion: '2', sessionManager }));

/** @param {number} count */
async function connectedTo(count) {
  const isReady = (/** @type {{ state: string }} */ { state }) => state === 'ready';
  while (sessionManager.balancer.snapshot().endpoints.filter(isReady).length !== count) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Asks `count` times and says who answered how often. @param {number} count */
async function askOften(count) {
  /** @type {Record<string, number>} */
  const answers = {};
  for (let asked = 0; asked < count; asked++) {
    const { value: name } = await orders.get({ value: '42' });
    answers[name] = (answers[name] ?? 0) + 1;
  }
  return Object.fromEntries(Object.entries(answers).sort());
}

await Promise.all(['anna', 'bert', 'cleo'].map(startPod));
await connectedTo(3);

/** A stream to each pod. */
const streams = Array.from({ length: 3 }, () => {
  const stream = { pod: '', state: 'goes on' };
  const read = async () => {
    for await (const { value } of orders.watch({ value: '42' })) stream.pod = value;
    stream.state = 'completed';
  };
  read().catch((error) => {
    stream.state = String(error);
  });
  return stream;
});
console.log('three pods:          ', await askOften(300));

// A rollout: its slice says terminating, its process gets SIGTERM.
await startPod('dora');
await connectedTo(4);
const anna = processes.get('anna');
service.updatePod('anna', { ready: false, terminating: true });
const exited = anna && once(anna, 'exit');
anna?.kill('SIGTERM');
await connectedTo(3);
console.log('anna is replaced:    ', await askOften(300));
await exited;
service.removePod('anna');
for (const { pod, state } of streams.sort((a, b) => a.pod.localeCompare(b.pod))) {
  console.log(`  the stream of ${pod}: ${state}`);
}

for (const child of processes.values()) if (child.connected) child.kill('SIGTERM');
await sessionManager.close();
await api.close();
