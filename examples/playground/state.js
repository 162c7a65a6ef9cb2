// @ts-check
/** Everything the views show, at one moment: plain data, the same for terminal and page. */

/** @typedef {ReturnType<typeof describeState>} State */

/**
 * @param {Awaited<ReturnType<typeof import('./cluster.js').createCluster>>} cluster
 * @param {Awaited<ReturnType<typeof import('./traffic.js').startTraffic>>} traffic
 */
export function describeState(cluster, traffic) {
  const now = performance.now();
  // By name, which is random: old and new pods stand mixed while a rolling update replaces them.
  const pods = cluster.pods().sort((a, b) => (a.shortName < b.shortName ? -1 : 1));
  const ready = pods.filter((pod) => pod.ready).map((pod) => pod.name);
  /** @param {import('./traffic.js').ClientName} name */
  const client = (name) => {
    const live = traffic.boards[name].live(now, ready, cluster.readySince());
    return {
      ...live,
      answers: Object.fromEntries(pods.map((pod) => [pod.name, live.answers[pod.name] ?? 0])),
      connections: Object.fromEntries(pods.map((pod) => [pod.name, pod.connections[name] ?? 0])),
    };
  };
  const ordinary = client('ordinary');
  const evenkeel = client('evenkeel');
  const busyMachine = busyMachineNote(Math.max(ordinary.lateMs, evenkeel.lateMs));
  return { perSecond: traffic.perSecond, desired: cluster.desired(), pods, ordinary, evenkeel, busyMachine };
}

// Later than this, what the figures say is about the machine.
const BUSY_MACHINE_MS = 200;

/** What to tell when the clients themselves do not get to send in time. @param {number} lateMs */
export const busyMachineNote = (lateMs) =>
  lateMs < BUSY_MACHINE_MS
    ? ''
    : `this machine is busy: a client sent up to ${Math.round(lateMs)} ms late, so latency and errors say little`;

/** The pod the ordinary client keeps busiest: the one whose end is most interesting. @param {State} state */
export function busiestPod({ pods, ordinary }) {
  const candidates = pods.filter((pod) => pod.state !== 'leaving' && pod.state !== 'dead');
  candidates.sort((a, b) => (ordinary.perSecond[b.name] ?? 0) - (ordinary.perSecond[a.name] ?? 0));
  return candidates[0];
}
