// @ts-check
/**
 * What stands in for a cluster in these examples: an API server that serves the EndpointSlices of one Service, and its pods as processes
 * of this machine. In a pod you need none of it: evenkeel finds the API server by itself.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { endpointSlices } from 'evenkeel/kubernetes';
import { createApiServer } from '../test/servers/index.js';

/** @typedef {{ readonly balancer?: { snapshot(): import('evenkeel').BalancerSnapshot } }} Balanced something of evenkeel's that balances */

/**
 * A Service of the namespace `shop`, without pods.
 * @param {string} name @param {URL} program of a pod: it listens on a free port, sends its number, and exits some time after SIGTERM
 */
export async function startService(name, program) {
  const api = await createApiServer();
  const service = api.service('shop', name, { ports: [{ name: 'main', port: 8080, targetPort: 'main' }] });
  /** @type {Map<string, import('node:child_process').ChildProcess>} */
  const pods = new Map();

  return {
    /** For the option `resolver` of a client, which is left out in a pod. */
    resolver: endpointSlices({
      apiServer: api.url,
      namespace: 'shop',
      service: name,
      port: 'main',
      allowAddresses: ['loopback'],
    }),

    /** Starts a pod, which is ready when it listens. @param {string} pod */
    async start(pod) {
      const env = { ...process.env, POD_NAME: pod, PORT: '0', GRACE_MS: '300' };
      const child = fork(program, { env, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
      const [message] = await once(child, 'message');
      const port = message.port ?? message;
      pods.set(pod, child);
      service.putPod({ name: pod, address: '127.0.0.1', ports: { main: port } });
    },

    /** The pod's slice says terminating. @param {string} pod */
    leave(pod) {
      service.updatePod(pod, { ready: false, terminating: true });
    },

    /** What a rollout does to a pod: its slice says terminating, its process gets SIGTERM. @param {string} pod */
    async stop(pod) {
      const child = pods.get(pod);
      service.updatePod(pod, { ready: false, terminating: true });
      const exited = child && once(child, 'exit');
      child?.kill('SIGTERM');
      await exited;
      service.removePod(pod);
    },

    /** Kills a pod's process; its slice is told by `remove`. @param {string} pod */
    kill(pod) {
      pods.get(pod)?.kill('SIGKILL');
    },

    /** @param {string} pod */
    remove(pod) {
      service.removePod(pod);
    },

    async close() {
      for (const child of pods.values()) if (child.connected) child.disconnect();
      await api.close();
    },
  };
}

/** The pods that a client is connected to, by name, with the calls or connections that it has there. @param {Balanced} client */
export function inFlight({ balancer }) {
  const ready = (balancer?.snapshot().endpoints ?? []).filter(({ state }) => state === 'ready');
  return Object.fromEntries(ready.map((endpoint) => [String(endpoint.name), endpoint.inFlight]).sort());
}

/** After how long a client sends calls to a pod that it has connected to, at the latest: on a busy machine it may not be at once. */
const USED_AFTER_MS = 100;

/** Waits until a client is connected to this many pods and uses them. @param {Balanced} client @param {number} count */
export async function connectedTo(client, count) {
  await until(() => Object.keys(inFlight(client)).length === count);
  await new Promise((resolve) => setTimeout(resolve, USED_AFTER_MS));
}

/** @param {() => boolean} condition */
export async function until(condition) {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 10));
}

/** How often each answer came, by name. @param {readonly string[]} answers */
export function countsOf(answers) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const answer of [...answers].sort()) counts[answer] = (counts[answer] ?? 0) + 1;
  return counts;
}
