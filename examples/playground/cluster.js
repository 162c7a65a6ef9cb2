// @ts-check
/**
 * A small cluster on loopback: one workload with its pods, one Service in front of them.
 * Pods, service proxy and API server are real processes and sockets; scheduler, controllers and kubelet are a few lines here.
 */
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { canHaveOwnAddresses, createAddresses } from './addresses.js';
import { createControlPlane } from './control-plane.js';
import { createKubelet } from './kubelet.js';

/** @typedef {import('./kubelet.js').Pod} Pod */

export const MAX_PODS = 12;
// A Deployment's default: a quarter more pods while it rolls. Its other default, a quarter fewer, is switched off.
const SURGE_RATIO = 0.25;
const NAME_LETTERS = 'bcdfghjklmnpqrstvwxz2456789';

/** @param {number} length */
const randomName = (length) =>
  Array.from({ length }, () => NAME_LETTERS[Math.floor(Math.random() * NAME_LETTERS.length)]).join('');

/** @typedef {Awaited<ReturnType<typeof createCluster>>} Cluster */
/** What everybody may see of a pod. @typedef {ReturnType<typeof describePod>} PodView */

/** @param {Pod} pod */
function describePod(pod) {
  return {
    name: pod.name,
    shortName: pod.name.slice(pod.name.lastIndexOf('-') + 1),
    ready: isReady(pod),
    state: stateOf(pod),
    restarts: pod.restarts,
    connections: pod.connections,
    revision: pod.revision,
  };
}

/** @param {Pod} pod */
const isReady = (pod) => pod.serving && pod.phase === 'running';

/** @param {Pod} pod @returns {'ready' | 'starting' | 'restarting' | 'not ready' | 'slow' | 'failing' | 'leaving' | 'dead'} */
function stateOf(pod) {
  if (pod.phase === 'terminating') return 'leaving';
  if (pod.phase === 'restarting' || (pod.phase === 'starting' && pod.restarts > 0)) return 'restarting';
  if (pod.phase === 'starting') return 'starting';
  if (!pod.alive) return 'dead';
  if (pod.fault === 'slow' || pod.fault === 'failing') return pod.fault;
  return pod.serving && pod.fault !== 'unready' ? 'ready' : 'not ready';
}

/**
 * @param {object} options
 * @param {import('./workloads.js').Workload} options.workload what runs here
 * @param {number} options.pods
 * @param {Readonly<Record<string, number>>} options.serviceTimes the mean work of a pod on one request in ms, by protocol
 * @param {Awaited<ReturnType<typeof import('./mariadb-home.js').createMariadbHome>>} [options.mariadb] for pods that are MariaDB servers
 * @param {(text: string) => void} options.onEvent called with what happened, in words
 * @param {(reason: string) => void} options.onDeath called when the service proxy ended by itself
 */
export async function createCluster({ workload, pods: initialPods, serviceTimes, mariadb, onEvent, onDeath }) {
  /** @type {Pod[]} */
  let pods = [];
  let desired = initialPods;
  let revision = 1;
  let templateHash = randomName(5);
  let publishing = false;
  let readyKey = '';
  let readySince = performance.now();
  let closed = false;

  const ownAddresses = await canHaveOwnAddresses();
  const proxy = fork(
    fileURLToPath(new URL('service-proxy-process.js', import.meta.url)),
    workload.ports.map(({ name }) => name),
    { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] },
  );
  /** Where the Service listens on 127.0.0.1, by protocol. @type {Readonly<Record<string, number>>} */
  const servicePorts = await new Promise((resolve, reject) => {
    proxy.on('exit', () => {
      reject(new Error('the service proxy did not start'));
      if (!closed) onDeath('the service proxy ended by itself');
    });
    proxy.on('message', (/** @type {any} */ message) => {
      if (message.type === 'listening') resolve(message.ports);
    });
  });
  const controlPlane = await createControlPlane(workload, servicePorts, ownAddresses);
  // Pods with their own addresses all listen on the same ports, as in a cluster. These are the Service's ports, on its own address:
  // a port that is free there is nearly always free on all of them.
  const podPorts = ownAddresses ? servicePorts : Object.fromEntries(workload.ports.map(({ name }) => [name, 0]));

  const kubelet = createKubelet({
    addresses: createAddresses(ownAddresses),
    ports: podPorts,
    serviceTimes,
    ...(mariadb && { mariadb }),
    onChange: changed,
    onEvent,
  });

  /** A pod's state changed: the Deployment acts, then the endpoints are published, once for all changes of a turn. */
  function changed() {
    if (publishing || closed) return;
    publishing = true;
    setImmediate(() => {
      publishing = false;
      if (closed) return;
      pods = pods.filter((pod) => pod.phase !== 'gone');
      reconcile();
      publish();
    });
  }

  function startPod() {
    pods.push(kubelet.start(`${workload.name}-${templateHash}-${randomName(5)}`, revision));
  }

  /** The Deployment controller: as many pods as desired, all of the newest revision, never fewer ready than desired. */
  function reconcile() {
    const active = pods.filter((pod) => pod.phase !== 'terminating');
    const current = active.filter((pod) => pod.revision === revision);
    const old = active.filter((pod) => pod.revision !== revision);
    if (old.length === 0) {
      for (let missing = desired - active.length; missing > 0; missing--) startPod();
      // Those that are not ready go first, then the youngest.
      const victims = [...current].reverse().sort((a, b) => Number(isReady(a)) - Number(isReady(b)));
      for (const victim of victims.slice(0, Math.max(0, active.length - desired))) kubelet.stop(victim);
      return;
    }
    const limit = desired + Math.ceil(desired * SURGE_RATIO);
    let spare = active.filter(isReady).length - desired;
    for (const pod of old) {
      if (isReady(pod) && spare-- <= 0) continue;
      kubelet.stop(pod);
    }
    const left = pods.filter((pod) => pod.phase !== 'terminating').length;
    const starts = Math.min(limit - left, desired - current.length);
    for (let index = 0; index < starts; index++) startPod();
  }

  /** The EndpointSlice controller and kube-proxy. */
  function publish() {
    const listed = pods.filter((pod) => pod.ports !== undefined);
    controlPlane.publish(listed);
    const ready = listed.filter(isReady);
    const usable = ready.length > 0 ? ready : listed.filter((pod) => pod.phase === 'terminating' && pod.serving);
    /** @param {string} protocol */
    const addressesOf = (protocol) => usable.map(({ address, ports }) => ({ host: address, port: ports?.[protocol] }));
    if (proxy.connected) {
      proxy.send({
        type: 'pods',
        pods: Object.fromEntries(workload.ports.map(({ name }) => [name, addressesOf(name)])),
      });
    }
    const key = ready.map(({ name, restarts }) => `${name}/${restarts}`).join();
    if (key !== readyKey) {
      readyKey = key;
      readySince = performance.now();
    }
  }

  /** @param {string | undefined} name */
  function find(name) {
    const pod = pods.find((candidate) => candidate.name === name && candidate.phase !== 'terminating');
    if (pod === undefined) throw new Error(`there is no pod ${name ?? ''} to act on`);
    return pod;
  }

  /** @param {string | undefined} name @param {import('./pods/work.js').Fault} fault @param {string} words */
  function inflict(name, fault, words) {
    const pod = find(name);
    if (!kubelet.setFault(pod, fault)) throw new Error(`${pod.name} is not running`);
    onEvent(`${pod.name} ${words}`);
  }

  changed();
  return {
    /** What a client has to know. @type {import('./clients/client.js').ClientContext} */
    context: {
      servicePorts,
      apiServerUrl: controlPlane.url,
      namespace: controlPlane.namespace,
      service: workload.name,
      ...(controlPlane.headless && { headless: { ...controlPlane.headless, ports: podPorts } }),
    },

    pods: () => pods.map(describePod),
    readySince: () => readySince,
    desired: () => desired,
    /** True when every pod is of the newest revision and ready, and none is on its way in or out. */
    settled: () =>
      pods.length === desired && pods.every((pod) => pod.alive && isReady(pod) && pod.revision === revision),

    /** @param {number} replicas 1 to MAX_PODS */
    scale(replicas) {
      const next = Math.min(Math.max(replicas, 1), MAX_PODS);
      if (next === desired)
        throw new Error(`the Deployment has ${desired} pods, the ${next === 1 ? 'fewest' : 'most'} it can have here`);
      onEvent(`scaled from ${desired} to ${next} pods`);
      desired = next;
      changed();
    },
    roll() {
      revision += 1;
      templateHash = randomName(5);
      onEvent(`rolling update to revision ${revision}: every pod is replaced`);
      changed();
    },
    /** @param {string | undefined} name */
    kill(name) {
      const pod = find(name);
      if (!kubelet.kill(pod)) throw new Error(`${pod.name} is not running`);
      onEvent(`kill -9 ${pod.name}`);
    },
    /** @param {string | undefined} name */
    slow: (name) => inflict(name, 'slow', 'became ten times as slow'),
    /** @param {string | undefined} name */
    fail(name) {
      if (!workload.failsFast) throw new Error('a real MariaDB server has no switch that makes it fail fast');
      inflict(name, 'failing', 'fails every request after 1 ms');
    },
    /** @param {string | undefined} name */
    unready: (name) => inflict(name, 'unready', 'fails its readiness probe from now on'),
    heal() {
      const ill = pods.filter((pod) => pod.fault !== 'none' && pod.phase !== 'terminating');
      if (ill.length === 0) throw new Error('every pod is well');
      for (const pod of ill) kubelet.setFault(pod, 'none');
      onEvent(`healed ${ill.map((pod) => pod.name).join(', ')}`);
    },

    async close() {
      closed = true;
      proxy.kill('SIGKILL');
      await Promise.all([kubelet.close(), controlPlane.close()]);
      await mariadb?.close();
    },
  };
}
