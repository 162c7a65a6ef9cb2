// @ts-check
/** Everything the views show, at one moment: plain data, the same for terminal and page. */

import { maxOverMean } from './board.js';

/** @typedef {ReturnType<typeof describeState>} State */
/** @typedef {State['clients'][number]} ClientState */

/**
 * @param {import('./cluster.js').Cluster} cluster
 * @param {import('./traffic.js').Traffic} traffic
 */
export function describeState(cluster, traffic) {
  const { protocol } = traffic;
  const now = performance.now();
  // By name, which is random, so that old and new pods are mixed while a rolling update replaces them.
  const pods = cluster.pods().sort((a, b) => (a.shortName < b.shortName ? -1 : 1));
  const ready = pods.filter((pod) => pod.ready).map((pod) => pod.name);
  const clients = traffic.clients.map((client) => {
    const live = traffic.boardOf(client.name).live(now, ready, cluster.readySince());
    const openConnections = Object.fromEntries(
      pods.map((pod) => [pod.name, pod.connections[`${protocol.name}/${client.name}`] ?? 0]),
    );
    return {
      ...client,
      ...live,
      answers: Object.fromEntries(pods.map((pod) => [pod.name, live.answers[pod.name] ?? 0])),
      openConnections,
      /** What is spread over the pods: requests per second, or connections. */
      load: protocol.longLived ? openConnections : live.perSecond,
      ...(protocol.longLived && { maxOverMean: maxOverMean(new Map(Object.entries(openConnections)), ready) }),
    };
  });
  return {
    protocol: protocol.name,
    requests: protocol.requests,
    longLived: protocol.longLived ?? false,
    engine: protocol.workload.engine,
    perSecond: traffic.perSecond(),
    desired: cluster.desired(),
    pods,
    clients,
    busyMachine: busyMachineNote(Math.max(...clients.map(({ lateMs }) => lateMs))),
  };
}

// Later than this, what the figures say is about the machine.
const BUSY_MACHINE_MS = 200;

/** What to tell when the clients themselves do not get to send in time. @param {number} lateMs */
export const busyMachineNote = (lateMs) =>
  lateMs < BUSY_MACHINE_MS
    ? ''
    : `this machine is busy: a client sent up to ${Math.round(lateMs)} ms late, and what ran then is not counted`;

/** The pod the ordinary clients keep busiest: the one whose end is most interesting. @param {readonly State[]} states */
export function busiestPod(states) {
  /** @param {string} pod */
  const load = (pod) => states.reduce((sum, { clients }) => sum + (clients[0]?.perSecond[pod] ?? 0), 0);
  const candidates = (states[0]?.pods ?? []).filter((pod) => pod.state !== 'leaving' && pod.state !== 'dead');
  return candidates.sort((a, b) => load(b.name) - load(a.name))[0];
}
