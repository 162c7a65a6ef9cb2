// @ts-check
/**
 * Runs pods like a kubelet: starts a process for each, probes whether it is ready, restarts one that died, and ends one with SIGTERM
 * and, if it does not exit, with SIGKILL.
 */
import { fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { request } from 'node:http';
import { fileURLToPath } from 'node:url';

/**
 * @typedef {object} Pod
 * @property {string} name
 * @property {string} uid
 * @property {number} revision the version of the Deployment it belongs to
 * @property {string} address
 * @property {Readonly<Record<string, number>> | undefined} ports by protocol; undefined until it listens, then the same for life
 * @property {'starting' | 'running' | 'restarting' | 'terminating' | 'gone'} phase
 * @property {boolean} serving the readiness probe's verdict
 * @property {import('./pods/work.js').Fault} fault what was done to it
 * @property {boolean} alive whether its process runs
 * @property {number} restarts
 * @property {Record<string, number>} connections open connections by client, as the pod counts them
 */

/** `serverPid`: of the server it started, if that is a process of its own. @typedef {Pod & { child: import('node:child_process').ChildProcess | undefined, serverPid: number | undefined, probing: boolean, misses: number }} Running */

const PROBE_MS = 150;
const PROBES_TO_FAIL = 2;
// A real one waits for a second; here a pod that is only slow on a busy machine stays ready.
const PROBE_TIMEOUT_MS = 3_000;
// A real kubelet notices a dead container within about a second, and restarts it the first time at once.
const NOTICE_MS = 400;
const RESTART_MS = 600;
const KILL_AFTER_MS = 5_000;

const podFile = fileURLToPath(new URL('pods/pod.js', import.meta.url));

/**
 * @param {object} options
 * @param {ReturnType<typeof import('./addresses.js').createAddresses>} options.addresses where pods get theirs from
 * @param {Readonly<Record<string, number>>} options.ports what pods listen on, by protocol; 0 takes a free one. One of them is `http`, for the probe
 * @param {Readonly<Record<string, number>>} options.serviceTimes the mean work of a pod on one request in ms, by protocol
 * @param {Awaited<ReturnType<typeof import('./mariadb-home.js').createMariadbHome>>} [options.mariadb]
 * @param {() => void} options.onChange called when a pod's state changed
 * @param {(text: string) => void} options.onEvent called with what happened, in words
 */
export function createKubelet({ addresses, ports, serviceTimes, mariadb, onChange, onEvent }) {
  /** @type {Set<Running>} */
  const pods = new Set();
  let closed = false;

  const probing = setInterval(() => {
    for (const pod of pods) if (pod.ports !== undefined && pod.phase !== 'restarting') void probe(pod);
  }, PROBE_MS);

  /** @param {Running} pod */
  async function probe(pod) {
    if (pod.probing) return; // one at a time, or a busy machine is asked ever more
    pod.probing = true;
    const healthy = await getReadyz(pod.address, pod.ports?.http ?? 0);
    pod.probing = false;
    if (pod.phase === 'gone' || closed) return;
    pod.misses = healthy ? 0 : pod.misses + 1;
    const serving = healthy ? pod.child !== undefined : pod.serving && pod.misses < PROBES_TO_FAIL;
    if (serving === pod.serving) return;
    pod.serving = serving;
    if (serving && (pod.phase === 'starting' || pod.phase === 'restarting')) pod.phase = 'running';
    onEvent(`${pod.name} is ${serving ? 'ready' : 'no longer ready'}`);
    onChange();
  }

  /** @param {Running} pod */
  function run(pod) {
    const { name, address } = pod;
    /** @type {import('./pods/pod.js').PodOptions} */
    const options = {
      name,
      address,
      ports: pod.ports ?? ports,
      serviceTimes,
      ...(mariadb && { mariadb: mariadb.home }),
    };
    const child = fork(podFile, [JSON.stringify(options)], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    pod.child = child;
    pod.alive = true;
    child.on('message', (/** @type {any} */ message) => {
      if (message.type === 'connections') pod.connections = message.connections;
      if (message.type === 'process') {
        mariadb?.note(message.pid, message.what);
        if (message.what === 'ended') pod.serverPid = undefined;
        // The last message of a process killed just after it had started its server.
        else if (closed || pod.child !== child) killProcess(message.pid);
        else pod.serverPid = message.pid;
      }
      if (message.type !== 'listening') return;
      pod.ports = message.ports;
      if (pod.phase === 'restarting') pod.phase = 'starting';
      void probe(pod);
    });
    child.on('error', () => {}); // `exit` follows
    child.on('exit', () => exited(pod));
  }

  /** @param {Running} pod */
  function exited(pod) {
    pod.child = undefined;
    pod.alive = false;
    pod.connections = {};
    if (closed) return;
    if (pod.phase === 'terminating') {
      pod.phase = 'gone';
      pod.serving = false;
      pods.delete(pod);
      addresses.giveBack(pod.address);
      onEvent(`${pod.name} has left`);
      onChange();
      return;
    }
    setTimeout(() => {
      if (closed || pod.phase === 'terminating') return;
      const wasServing = pod.serving;
      pod.phase = 'restarting';
      pod.serving = false;
      pod.fault = 'none'; // a fresh process has none
      pod.misses = 0;
      if (wasServing) onEvent(`${pod.name} was found dead`);
      onChange();
      setTimeout(() => {
        if (closed || pod.phase !== 'restarting') return;
        pod.restarts += 1;
        run(pod);
      }, RESTART_MS);
    }, NOTICE_MS);
  }

  return {
    /** Starts a pod. @param {string} name @param {number} revision @returns {Pod} */
    start(name, revision) {
      /** @type {Running} */
      const pod = {
        name,
        uid: randomUUID(),
        revision,
        address: addresses.take(),
        ports: undefined,
        phase: 'starting',
        serving: false,
        fault: 'none',
        alive: false,
        restarts: 0,
        connections: {},
        child: undefined,
        serverPid: undefined,
        probing: false,
        misses: 0,
      };
      pods.add(pod);
      run(pod);
      return pod;
    },

    /** Asks a pod to leave: SIGTERM now, SIGKILL in five seconds. @param {Pod} pod */
    stop(pod) {
      const running = /** @type {Running} */ (pod);
      if (running.phase === 'terminating' || running.phase === 'gone') return;
      running.phase = 'terminating';
      const { child } = running;
      onChange();
      if (child === undefined) {
        exited(running);
        return;
      }
      child.kill('SIGTERM');
      const timer = setTimeout(() => killNow(running), KILL_AFTER_MS);
      child.once('exit', () => clearTimeout(timer));
    },

    /** kill -9. The process is started again, in the same pod on the same address. @param {Pod} pod */
    kill(pod) {
      pod.alive = false;
      return killNow(/** @type {Running} */ (pod));
    },

    /** @param {Pod} pod @param {import('./pods/work.js').Fault} fault */
    setFault(pod, fault) {
      const { child } = /** @type {Running} */ (pod);
      if (child === undefined) return false;
      pod.fault = fault;
      child.send({ type: 'fault', fault }, () => {}); // a pod that dies meanwhile needs no fault
      onChange();
      return true;
    },

    /** Ends every pod at once; resolves when no process is left. */
    async close() {
      closed = true;
      clearInterval(probing);
      const exits = [];
      for (const pod of pods) {
        const { child } = pod;
        if (child === undefined) continue;
        exits.push(new Promise((resolve) => child.once('exit', resolve)));
        // What it said before is heard by then.
        if (child.connected) exits.push(new Promise((resolve) => child.once('disconnect', resolve)));
        killNow(pod);
      }
      await Promise.all(exits);
    },
  };
}

/** SIGKILL to all that belongs to a pod. Returns whether there was anything. @param {Running} pod */
function killNow({ child, serverPid }) {
  child?.kill('SIGKILL');
  if (serverPid !== undefined) killProcess(serverPid);
  return child !== undefined;
}

/** @param {number} pid */
function killProcess(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It was ending by itself.
  }
}

/** @param {string} host @param {number} port @returns {Promise<boolean>} */
function getReadyz(host, port) {
  return new Promise((resolve) => {
    const probe = request({ host, port, path: '/readyz', agent: false, timeout: PROBE_TIMEOUT_MS });
    probe.on('response', (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    probe.on('timeout', () => probe.destroy());
    probe.on('error', () => resolve(false));
    probe.on('close', () => resolve(false));
    probe.end();
  });
}
