// @ts-check
/**
 * The example without a cluster: three pods as processes, an API server over TLS with exactly the grants of manifests/rbac.yaml, and a
 * client configured as in a pod, by environment and mounted files.
 *
 *   node examples/kubernetes/main.js
 */
import { fork } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { endpointSlices } from 'evenkeel/kubernetes';
import { createDispatcher } from 'evenkeel/undici';
import { request } from 'undici';
import { createApiServer } from '../../test/servers/index.js';
import { exampleGrants } from './role.js';

const PODS = ['orders-1', 'orders-2', 'orders-3'];
const REQUESTS = 300;

/** Starts a pod; resolves with its port. @param {string} name */
function startPod(name) {
  const child = fork(fileURLToPath(new URL('app/orders.js', import.meta.url)), {
    env: { ...process.env, POD_NAME: name, HOST: '127.0.0.1', PORT: '0' },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  return new Promise((resolve, reject) => {
    child.once('message', (/** @type {{ port: number }} */ { port }) => resolve({ child, port }));
    child.once('exit', () => reject(new Error(`${name} ended before it listened`)));
  });
}

const pods = await Promise.all(PODS.map(startPod));
const api = await createApiServer({ tls: true, tokens: { 'token-of-frontend': exampleGrants() } });
const orders = api.service('shop', 'orders', { ports: [{ name: 'http', port: 80, targetPort: 'http' }] });
orders.setPods(
  PODS.map((name, index) => ({ name, address: '127.0.0.1', ports: { http: /** @type {any} */ (pods[index]).port } })),
);

// What the kubelet mounts at /var/run/secrets/kubernetes.io/serviceaccount.
const account = await mkdtemp(join(tmpdir(), 'serviceaccount-'));
await writeFile(join(account, 'token'), 'token-of-frontend');
await writeFile(join(account, 'ca.crt'), String(api.ca));
await writeFile(join(account, 'namespace'), 'shop');

const dispatcher = createDispatcher('http://orders.shop', {
  resolver: endpointSlices({
    service: 'orders',
    port: 80,
    inCluster: {
      path: account,
      env: { KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: String(api.port) },
    },
    allowAddresses: ['loopback'],
  }),
});

/** Sends requests and prints which pods answered. @param {string} title */
async function count(title) {
  /** @type {Map<string, number>} */
  const answers = new Map();
  for (let index = 0; index < REQUESTS; index++) {
    const { body } = await request('http://orders.shop', { dispatcher });
    const pod = await body.text();
    answers.set(pod, (answers.get(pod) ?? 0) + 1);
  }
  const counts = [...answers].sort().map(([pod, times]) => `${pod} ${String(times).padStart(3)}`);
  console.log(`${title.padEnd(32)}${counts.join('   ')}`);
}

/** Resolves once the dispatcher knows this many pods. @param {number} size */
async function knows(size) {
  while (dispatcher.balancer.snapshot().endpoints.filter(({ weight }) => weight > 0).length !== size) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

try {
  await count('three pods');
  orders.updatePod('orders-2', { ready: false });
  await knows(2);
  await count('orders-2 is not ready');
  orders.updatePod('orders-2', { ready: true });
  await knows(3);
  await count('orders-2 is ready again');
  console.log(`\n${api.counts.lists} lists, ${api.counts.watches} watch, ${api.counts.gets} request for the Service`);
} finally {
  await dispatcher.close();
  await api.close();
  for (const { child } of pods) child.kill('SIGKILL');
  await rm(account, { recursive: true });
}
