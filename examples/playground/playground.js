// @ts-check
/** The clusters and the clients of all protocols. One protocol is shown at a time; the clients of the others are paused. */
import { createCluster } from './cluster.js';
import { createMariadbHome } from './mariadb-home.js';
import { protocols } from './protocols.js';
import { describeState } from './state.js';
import { OutOfTime, startTraffic } from './traffic.js';

// Above this share of the pods' capacity, chance alone makes queues that say nothing about a client.
const BUSY_RATIO = 0.7;
const SEED = 20_190_401;
const READY_TIMEOUT_MS = 60_000;

/** @typedef {import('./cluster.js').Cluster} Cluster */
/** @typedef {import('./traffic.js').Traffic} Traffic */
/** @typedef {{ cluster: Cluster, traffic: Traffic }} Started */
/** @typedef {ReturnType<typeof createPlayground>} Playground */

/**
 * @param {import('./options.js').Options} options
 * @param {import('./log.js').Log} log
 * @param {(reason: string) => void} onDeath called when a part of it ended by itself
 */
export function createPlayground(options, log, onDeath) {
  const onEvent = (/** @type {string} */ text) => log.add(text);
  /** By workload. @type {Map<string, Promise<Cluster>>} */
  const clusters = new Map();
  /** By protocol. @type {Map<string, Promise<Started>>} */
  const started = new Map();
  /** @type {Traffic[]} */
  const traffics = [];
  /** @type {Started | undefined} */
  let shown;
  /** Its clients are being started. @type {string | undefined} */
  let starting;
  let closed = false;

  const serviceTimes = Object.fromEntries(protocols.map(({ name, serviceTimeMs }) => [name, serviceTimeMs]));
  for (const protocol of options.protocols) {
    const capacity = Math.floor((options.pods * 1_000) / protocol.serviceTimeMs);
    if (options.perSecondOf(protocol) <= capacity * BUSY_RATIO) continue;
    const what = `${capacity} ${protocol.requests}/s of each ${protocol.title} client`;
    log.add(`${options.pods} pods can answer ${what}: expect queues, or errors, on all sides`);
  }

  /** The cluster that runs a workload, once all its pods are ready. @param {import('./workloads.js').Workload} workload */
  async function startCluster(workload) {
    // Ports that nobody asks for are not served. The kubelet's probe needs HTTP.
    const ports = workload.ports.filter(
      ({ name }) => name === 'http' || options.protocols.some((protocol) => protocol.name === name),
    );
    const mariadb = workload.isMariadb ? await createMariadbHome() : undefined;
    const cluster = await createCluster({
      workload: { ...workload, ports },
      pods: options.pods,
      serviceTimes,
      ...(mariadb && { mariadb }),
      onEvent,
      onDeath,
    });
    if (closed) await cluster.close();
    const deadline = performance.now() + READY_TIMEOUT_MS;
    while (!cluster.settled() && !closed) {
      if (performance.now() > deadline) throw new OutOfTime(`the pods were not ready in ${READY_TIMEOUT_MS / 1_000} s`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return cluster;
  }

  /** @param {import('./protocols.js').Protocol} protocol */
  async function startProtocol(protocol) {
    const { workload } = protocol;
    const known = clusters.get(workload.name) ?? startCluster(workload);
    clusters.set(workload.name, known);
    const cluster = await known;
    const traffic = await startTraffic({
      protocol,
      context: { ...cluster.context, ...(options.picker && { picker: options.picker }) },
      perSecond: options.perSecondOf(protocol),
      seed: SEED,
      isWell: (name) => cluster.pods().find((pod) => pod.name === name)?.state === 'ready',
      onEvent,
      onDeath,
    });
    traffics.push(traffic);
    if (closed) traffic.close();
    return { cluster, traffic };
  }

  /**
   * Starts the clients of protocols under traffic; all begin together, at rates the machine can take.
   * @param {readonly import('./protocols.js').Protocol[]} wanted
   */
  async function start(wanted) {
    const all = await Promise.all(
      wanted.map((protocol) => {
        const running = startProtocol(protocol);
        started.set(protocol.name, running);
        return running;
      }),
    );
    const share = options.lowerRate ? Math.min(...all.map(({ traffic }) => traffic.ratio)) : 1;
    for (const { traffic } of all) traffic.begin(share);
    return all;
  }

  function current() {
    if (shown === undefined) throw new Error('nothing is shown yet');
    return shown;
  }

  return {
    start,
    /** Shows a protocol and lets the others rest. @param {string} name */
    async show(name) {
      const protocol = options.protocols.find((candidate) => candidate.name === name);
      if (protocol === undefined) throw new Error(`this playground was started without ${name}`);
      if (starting !== undefined) throw new Error('one thing after the other: clients are being started');
      if (shown?.traffic.protocol === protocol) return;
      const known = started.get(name);
      shown?.traffic.rest();
      starting = name;
      if (known === undefined && shown !== undefined) log.add(`starting the ${protocol.title} clients`);
      try {
        if (known === undefined) [shown] = await start([protocol]);
        else {
          shown = await known;
          shown.traffic.resume();
        }
      } catch (error) {
        started.delete(name);
        // Another attempt makes another cluster, unless this one runs.
        await clusters.get(protocol.workload.name)?.catch(() => clusters.delete(protocol.workload.name));
        shown?.traffic.resume();
        throw error;
      } finally {
        starting = undefined;
      }
    },
    /** Ends whatever was done to the pods, and forgets the errors that are shown. */
    heal() {
      const { cluster, traffic } = current();
      const hadErrors = traffic.clearErrors();
      try {
        cluster.heal();
      } catch (error) {
        if (!hadErrors) throw error;
      }
    },
    /** The cluster that is shown. */
    cluster: () => current().cluster,
    state: () => ({
      ...describeState(current().cluster, current().traffic),
      protocols: options.protocols.map(({ name, title }) => ({ name, title, starting: name === starting })),
    }),
    /** Everything each client counted so far, also of protocols not shown. */
    totals: () =>
      traffics.flatMap((traffic) =>
        traffic.clients.map(({ name, title }) => {
          return { protocol: traffic.protocol, name, title, ...traffic.boardOf(name).sums() };
        }),
      ),
    async close() {
      closed = true; // what is still being started ends itself
      for (const traffic of traffics) traffic.close();
      for (const cluster of clusters.values()) await cluster.then((own) => own.close()).catch(() => {});
    },
  };
}
