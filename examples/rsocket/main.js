// @ts-check
/**
 * The whole story on one machine: three pods, an API server for tests in place of Kubernetes, one RSocket.
 *
 *   node examples/rsocket/main.js
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { roundRobin } from 'evenkeel';
import { endpointSlices } from 'evenkeel/kubernetes';
import { createApiServer } from '../../test/servers/index.js';
import { createRSocket } from './adapter/index.js';

const api = await createApiServer();
const service = api.service('shop', 'orders', { ports: [{ name: 'rsocket', port: 7000, targetPort: 'rsocket' }] });
/** @type {Map<string, import('node:child_process').ChildProcess>} */
const processes = new Map();

/** Starts a pod and adds it to the Service when it listens. @param {string} name */
async function startPod(name) {
  const child = fork(new URL('pod.js', import.meta.url), { env: { ...process.env, POD_NAME: name, PORT: '0' } });
  const [port] = await once(child, 'message');
  processes.set(name, child);
  service.putPod({ name, address: '127.0.0.1', ports: { rsocket: port } });
}

const orders = createRSocket('orders.shop:7000', {
  picker: roundRobin(),
  // In a pod this line is left out: evenkeel finds the API server by itself.
  resolver: endpointSlices({
    apiServer: api.url,
    namespace: 'shop',
    service: 'orders',
    port: 'rsocket',
    allowAddresses: ['loopback'],
  }),
});

const states = () => orders.balancer.snapshot().endpoints.map(({ name, state }) => `${name} ${state}`);

/** @param {number} count */
async function connectedTo(count) {
  while (states().filter((line) => line.endsWith(' ready')).length !== count) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Asks once: who answered? @returns {Promise<string>} */
const ask = () =>
  new Promise((resolve, reject) => {
    const receiver = {
      onNext: (/** @type {import('rsocket-core').Payload} */ { data }) => resolve(String(data)),
      onError: reject,
      onComplete() {},
      onExtension() {},
    };
    // It may be asked twice: if its connection dies, another pod is asked.
    orders.requestResponse({ data: Buffer.from('order 42') }, receiver, { idempotent: true });
  });

/** Asks `count` times and says who answered how often. @param {number} count */
async function askOften(count) {
  /** @type {Record<string, number>} */
  const answers = {};
  for (let asked = 0; asked < count; asked++) {
    const name = await ask();
    answers[name] = (answers[name] ?? 0) + 1;
  }
  return Object.fromEntries(Object.entries(answers).sort());
}

await Promise.all(['anna', 'bert', 'cleo'].map(startPod));
await connectedTo(3);

/** A stream to each pod. */
const streams = Array.from({ length: 3 }, () => {
  const stream = { pod: '', payloads: 0, ended: '' };
  const requested = orders.requestStream({ data: Buffer.from('changes') }, 1, {
    onNext({ data }) {
      stream.pod = String(data);
      stream.payloads++;
    },
    onComplete: () => (stream.ended = 'completed'),
    onError: (error) => (stream.ended = error.message),
    onExtension() {},
  });
  return { stream, more: () => requested.request(10) };
});
console.log('three pods:          ', await askOften(300));

// A rollout: its slice says terminating, its process gets SIGTERM.
await startPod('dora');
await connectedTo(4);
const anna = processes.get('anna');
service.updatePod('anna', { terminating: true });
await connectedTo(3);
// Gone from the Service, it still serves its stream.
for (const { more } of streams) more();
const exited = anna && once(anna, 'exit');
anna?.kill('SIGTERM');
console.log('anna is replaced:    ', await askOften(300));
await exited;
for (const { stream } of streams.sort((a, b) => a.stream.pod.localeCompare(b.stream.pod))) {
  console.log(`  the stream of ${stream.pod}: ${stream.payloads} payloads, ${stream.ended || 'goes on'}`);
}
service.removePod('anna');

await orders.close(new Error('the example is over'));
for (const child of processes.values()) if (child.connected) child.disconnect();
await api.close();
