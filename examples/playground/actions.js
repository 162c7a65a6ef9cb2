// @ts-check
/** What can be done to the cluster, by name; the buttons of the page and the keys of the terminal are these. */

/** @typedef {(cluster: Awaited<ReturnType<typeof import('./cluster.js').createCluster>>, pod: string | undefined) => void} Action */

/** @type {Readonly<Record<string, { key: string, label: string, needsPod: boolean, run: Action }>>} */
export const actions = {
  'scale-up': { key: '+', label: 'scale up', needsPod: false, run: (cluster) => cluster.scale(cluster.desired() + 1) },
  'scale-down': {
    key: '-',
    label: 'scale down',
    needsPod: false,
    run: (cluster) => cluster.scale(cluster.desired() - 1),
  },
  roll: { key: 'r', label: 'roll all', needsPod: false, run: (cluster) => cluster.roll() },
  kill: { key: 'k', label: 'kill -9', needsPod: true, run: (cluster, pod) => cluster.kill(pod) },
  slow: { key: 's', label: 'slow', needsPod: true, run: (cluster, pod) => cluster.slow(pod) },
  fail: { key: 'f', label: 'fail fast', needsPod: true, run: (cluster, pod) => cluster.fail(pod) },
  unready: { key: 'u', label: 'unready', needsPod: true, run: (cluster, pod) => cluster.unready(pod) },
  heal: { key: 'h', label: 'heal', needsPod: false, run: (cluster) => cluster.heal() },
};
