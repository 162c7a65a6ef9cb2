// @ts-check
/**
 * `npm start -- --once`: an ordinary day of a Service, in twenty seconds.
 *
 * Every phase has two parts. First something happens, until all pods are ready again. Then comes a window in which all pods are
 * ready; only there the spread is counted. Requests, latency and errors are those of the whole phase. Long-lived connections are
 * counted at its end, which waits until evenkeel's are even. A phase that goes wrong says so, and the next one begins.
 */
import { availableParallelism, loadavg } from 'node:os';
import { cutCount, errorCount, maxOverMean } from './board.js';
import { Histogram } from './histogram.js';
import { isBalanced } from './protocols.js';
import { busiestPod, describeState } from './state.js';

// The default picker is even over whole turns of its ring, 331 ms for each pod.
const TURN_MS_PER_POD = 331;
const TURNS = 2;
// At a tenth of the rate the windows hold fewer requests instead of lasting forever; the verdict takes that into account.
const MAX_STRETCH = 4;
const SETTLE_TIMEOUT_MS = 30_000;
const LAST_ANSWERS_TIMEOUT_MS = 5_000;
const POLL_MS = 20;
const CALM_MS = 150;
const NEWS_TIMEOUT_MS = 12_000;
// Clients learn about the last ready pod a moment after the cluster knows it.
const NEWS_MS = 250;
// evenkeel checks every five seconds or so whether long-lived connections are even.
const EVEN_TIMEOUT_MS = 12_000;
// With more processes than this that want to run, per core, what a phase shows is the machine.
const CROWDED = 4;
// What the verdict tolerates. Connections are few, so one more on a pod matters.
const EVEN_RATIO = 1.2;

/** @typedef {import('./cluster.js').Cluster} Cluster */
/** @typedef {import('./traffic.js').Traffic} Traffic */
/** @typedef {import('./cluster.js').PodView} PodView */

/** @type {{ name: string, act: (cluster: Cluster, traffics: readonly Traffic[]) => void }[]} */
const PHASES = [
  { name: 'start, steady', act: () => {} },
  { name: 'scale up', act: (cluster) => cluster.scale(cluster.desired() + 2) },
  {
    name: 'kill -9',
    act: (cluster, traffics) =>
      cluster.kill(busiestPod(traffics.map((traffic) => describeState(cluster, traffic)))?.name),
  },
  { name: 'rolling update', act: (cluster) => cluster.roll() },
];

/** One client in one phase. @typedef {ReturnType<typeof sumUp>} Row */

/** @typedef {{ protocol: import('./protocols.js').Protocol, rows: Row[] }} Result */

/**
 * Plays all phases, for all protocols at the same time. Each row is one client in one phase.
 * @param {readonly import('./playground.js').Started[]} started
 * @param {(protocol: import('./protocols.js').Protocol) => number} perSecondOf the rate that was wanted: where it was lowered, the
 *   windows are longer and hold as many requests
 * @param {(text: string) => void} progress
 * @returns {Promise<Result[]>}
 */
export async function playScenario(started, perSecondOf, progress) {
  const clusters = [...new Set(started.map(({ cluster }) => cluster))];
  const results = clusters.map((cluster) => {
    const traffics = started.filter((own) => own.cluster === cluster).map(({ traffic }) => traffic);
    return playOne(cluster, traffics, perSecondOf, progress);
  });
  return (await Promise.all(results)).flat();
}

/**
 * @param {Cluster} cluster
 * @param {readonly Traffic[]} traffics all of that cluster
 * @param {(protocol: import('./protocols.js').Protocol) => number} perSecondOf
 * @param {(text: string) => void} progress
 * @returns {Promise<Result[]>}
 */
async function playOne(cluster, traffics, perSecondOf, progress) {
  const names = traffics.map(({ protocol }) => protocol.title).join(', ');
  const stretch = Math.min(
    MAX_STRETCH,
    Math.max(...traffics.map((traffic) => perSecondOf(traffic.protocol) / traffic.perSecond())),
  );
  const nextSegment = async () => (await Promise.all(traffics.map((traffic) => traffic.nextSegment())))[0] ?? 0;
  /** @type {Phase[]} */
  const phases = [];
  for (const { name, act } of PHASES) {
    progress(`== ${names}: ${name}`);
    // The first phase began with the traffic.
    const before = phases.length === 0 ? 0 : await nextSegment();
    await sleep(CALM_MS); // requests of the last phase end before anything happens in this one
    let trouble = attempt(() => act(cluster, traffics));
    if (!(await waitFor(() => cluster.settled(), SETTLE_TIMEOUT_MS))) {
      trouble ??= `the pods did not all become ready in ${SETTLE_TIMEOUT_MS / 1_000} s`;
    }
    // On a busy machine news travels slowly. The window starts when evenkeel has asked every pod, but waits no longer than that.
    await waitFor(() => traffics.every((traffic) => asksEveryPod(cluster, traffic)), NEWS_TIMEOUT_MS);
    await sleep(NEWS_MS);
    const window = await nextSegment();
    await sleep(cluster.pods().length * TURN_MS_PER_POD * TURNS * stretch);
    await untilEven(cluster, traffics);
    phases.push({ name, before, window, pods: cluster.pods(), trouble, crowded: isCrowded() });
  }
  const after = await nextSegment();
  const segments = Array.from({ length: after }, (_, segment) => segment);
  const allEnded = () =>
    traffics.every((traffic) =>
      traffic.clients.every(({ name }) => segments.every((segment) => unended(traffic, name, segment) === 0)),
    );
  await waitFor(allEnded, LAST_ANSWERS_TIMEOUT_MS);
  return traffics.map((traffic) => ({
    protocol: traffic.protocol,
    rows: phases.flatMap((phase) => traffic.clients.map(({ name }) => sumUp(traffic, name, phase))),
  }));
}

/** What went wrong, if something did. @param {() => void} act */
function attempt(act) {
  try {
    act();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

const isCrowded = () => (loadavg()[0] ?? 0) / availableParallelism() > CROWDED;

/** Whether every pod has a connection of every client that asks all pods. @param {Cluster} cluster @param {Traffic} traffic */
const asksEveryPod = (cluster, { protocol, clients }) =>
  protocol.longLived ||
  cluster
    .pods()
    .every((pod) => clients.every(({ name }) => !isBalanced(name) || connectionsOf(pod, protocol, name) > 0));

/** @param {PodView} pod @param {import('./protocols.js').Protocol} protocol @param {string} client */
const connectionsOf = (pod, protocol, client) => pod.connections[`${protocol.name}/${client}`] ?? 0;

/** Waits until evenkeel's long-lived connections are even, but not forever: the verdict does the rest. @param {Cluster} cluster @param {readonly Traffic[]} traffics */
async function untilEven(cluster, traffics) {
  const isEven = () =>
    traffics.every(({ protocol }) => {
      const counts = cluster.pods().map((pod) => connectionsOf(pod, protocol, 'evenkeel'));
      return !protocol.longLived || Math.max(...counts) - Math.min(...counts) <= 1;
    });
  await waitFor(isEven, EVEN_TIMEOUT_MS);
}

/** @param {Traffic} traffic @param {string} client @param {number} segment */
function unended(traffic, client, segment) {
  const totals = traffic.boardOf(client).segment(segment);
  return totals.requests - totals.latency.total - totals.leftOut - errorCount(totals);
}

/** @typedef {{ name: string, before: number, window: number, pods: readonly PodView[], trouble: string | undefined, crowded: boolean }} Phase before, window: segments of time */

/** @param {Traffic} traffic @param {string} client @param {Phase} phase */
function sumUp(traffic, client, { name, before, window, pods, trouble, crowded }) {
  const { protocol } = traffic;
  const parts = [before, window].map((segment) => traffic.boardOf(client).segment(segment));
  const latency = new Histogram();
  /** @type {Map<string, number>} */
  const errorKinds = new Map();
  for (const part of parts) {
    latency.addPairs(part.latency.pairs());
    for (const [kind, count] of part.errors) errorKinds.set(kind, (errorKinds.get(kind) ?? 0) + count);
  }
  const counts = protocol.longLived
    ? new Map(pods.map((pod) => [pod.name, connectionsOf(pod, protocol, client)]))
    : traffic.boardOf(client).segment(window).pods;
  const perPod = pods.map((pod) => counts.get(pod.name) ?? 0);
  const meanPerPod = perPod.reduce((total, count) => total + count, 0) / pods.length;
  const everyone = traffic.clients.flatMap((own) =>
    [before, window].map((segment) => traffic.boardOf(own.name).segment(segment)),
  );
  const isBusy = crowded || everyone.some(({ leftOut }) => leftOut > 0);
  return {
    phase: name,
    protocol,
    client,
    /** Why the phase shows nothing about any client; undefined if it does. */
    notJudged: trouble ?? (isBusy ? 'this machine is busy' : undefined),
    unended: [before, window].reduce((total, segment) => total + unended(traffic, client, segment), 0),
    requests: parts.reduce((total, part) => total + part.requests, 0),
    perPod,
    maxOverMean:
      maxOverMean(
        counts,
        pods.map((pod) => pod.name),
      ) ?? Number.NaN,
    // Pods drawn at random differ by about 1/sqrt(n); four times that is no accident.
    maxOverMeanLimit: protocol.longLived ? EVEN_RATIO : Math.max(1.05, 1 + 4 / Math.sqrt(meanPerPod)),
    p50Ms: latency.quantile(0.5),
    p99Ms: latency.quantile(0.99),
    errors: parts.reduce((total, part) => total + errorCount(part), 0),
    errorKinds,
    cut: parts.reduce((total, part) => total + cutCount(part), 0),
  };
}

/** @param {number} ms */
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Whether the condition came true in time. @param {() => boolean} condition @param {number} timeoutMs */
async function waitFor(condition, timeoutMs) {
  const end = performance.now() + timeoutMs;
  while (!condition()) {
    if (performance.now() > end) return false;
    await sleep(POLL_MS);
  }
  return true;
}
