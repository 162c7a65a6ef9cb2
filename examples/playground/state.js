// @ts-check
/** Everything the views show, at one moment: plain data, the same for terminal and page. */

/** @typedef {ReturnType<typeof describeState>} State */

/**
 * @param {Awaited<ReturnType<typeof import('./cluster.js').createCluster>>} cluster
 * @param {Awaited<ReturnType<typeof import('./traffic.js').startTraffic>>} traffic
 * @param {number} perSecond
 */
export function describeState(cluster, traffic, perSecond) {
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
  return {
    perSecond,
    desired: cluster.desired(),
    pods,
    ordinary: client('ordinary'),
    evenkeel: client('evenkeel'),
  };
}

/** The pod the ordinary client keeps busiest: the one whose end is most interesting. @param {State} state */
export function busiestPod({ pods, ordinary }) {
  const candidates = pods.filter((pod) => pod.state !== 'leaving' && pod.state !== 'dead');
  candidates.sort((a, b) => (ordinary.perSecond[b.name] ?? 0) - (ordinary.perSecond[a.name] ?? 0));
  return candidates[0];
}
