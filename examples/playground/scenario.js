// @ts-check
/**
 * `npm start -- --once`: what happens to a Service on an ordinary day, in about ten seconds.
 *
 * Every phase has two parts. First something happens, until all pods are ready again. Then comes a window in which all
 * pods are ready: the spread is counted there alone. Requests, latency and errors are those of the whole phase.
 */
import { errorCount, maxOverMean } from './board.js';
import { Histogram } from './histogram.js';
import { busiestPod, describeState } from './state.js';
import { CLIENTS } from './traffic.js';

const WINDOW_MS = 1_500;
const SETTLE_TIMEOUT_MS = 30_000;
const LAST_ANSWERS_TIMEOUT_MS = 5_000;
const POLL_MS = 20;
const CALM_MS = 150;
const NEWS_TIMEOUT_MS = 15_000;
// The clients hear of the last ready pod a moment after the cluster knows it.
const NEWS_MS = 250;

/** @typedef {Awaited<ReturnType<typeof import('./cluster.js').createCluster>>} Cluster */
/** @typedef {Awaited<ReturnType<typeof import('./traffic.js').startTraffic>>} Traffic */
/** @typedef {import('./traffic.js').ClientName} ClientName */

/** @type {{ name: string, act: (cluster: Cluster, traffic: Traffic) => void }[]} */
const PHASES = [
  { name: 'start, steady', act: () => {} },
  { name: 'scale up', act: (cluster) => cluster.scale(cluster.desired() + 2) },
  { name: 'kill -9', act: (cluster, traffic) => cluster.kill(busiestPod(describeState(cluster, traffic))?.name) },
  { name: 'rolling update', act: (cluster) => cluster.roll() },
];

/** One client in one phase. @typedef {ReturnType<typeof sumUp>} Row */

/**
 * Plays all phases. Each row is one client in one phase.
 * @param {Cluster} cluster
 * @param {Traffic} traffic
 * @param {number} stretch how many times longer the windows are, so that a lower rate fills them with as many requests
 * @param {(text: string) => void} progress
 */
export async function playScenario(cluster, traffic, stretch, progress) {
  /** @type {{ name: string, before: number, window: number, pods: string[] }[]} */
  const phases = [];
  for (const { name, act } of PHASES) {
    progress(`== ${name}`);
    // The first phase began with the traffic.
    const before = phases.length === 0 ? 0 : await traffic.nextSegment();
    await sleep(CALM_MS); // requests of the last phase end before anything happens in this one
    act(cluster, traffic);
    await until(() => cluster.settled(), SETTLE_TIMEOUT_MS, `the pods did not all become ready (${name})`);
    // On a busy machine the news travels slowly: the window begins when evenkeel is connected to every pod.
    await until(() => cluster.pods().every(connected), NEWS_TIMEOUT_MS, `no connection to every pod (${name})`);
    await sleep(NEWS_MS);
    const window = await traffic.nextSegment();
    await sleep(WINDOW_MS * stretch);
    phases.push({ name, before, window, pods: cluster.pods().map((pod) => pod.name) });
  }
  const after = await traffic.nextSegment();
  const allEnded = () =>
    CLIENTS.every((client) =>
      Array.from({ length: after }, (_, segment) => unended(traffic, client, segment)).every((n) => n === 0),
    );
  await until(allEnded, LAST_ANSWERS_TIMEOUT_MS, 'some requests never ended');
  return phases.flatMap((phase) => CLIENTS.map((client) => sumUp(traffic, client, phase)));
}

/** @param {ReturnType<Cluster['pods']>[number]} pod */
const connected = (pod) => (pod.connections.evenkeel ?? 0) > 0;

/** @param {Traffic} traffic @param {ClientName} client @param {number} segment */
function unended(traffic, client, segment) {
  const totals = traffic.boards[client].segment(segment);
  return totals.requests - totals.latency.total - errorCount(totals);
}

/** @param {Traffic} traffic @param {ClientName} client @param {{ name: string, before: number, window: number, pods: string[] }} phase */
function sumUp(traffic, client, { name, before, window, pods }) {
  const parts = [before, window].map((segment) => traffic.boards[client].segment(segment));
  const latency = new Histogram();
  /** @type {Map<string, number>} */
  const errorKinds = new Map();
  for (const part of parts) {
    latency.addPairs(part.latency.pairs());
    for (const [kind, count] of part.errors) errorKinds.set(kind, (errorKinds.get(kind) ?? 0) + count);
  }
  const counts = traffic.boards[client].segment(window).pods;
  const perPod = pods.map((pod) => counts.get(pod) ?? 0);
  const meanPerPod = perPod.reduce((total, count) => total + count, 0) / pods.length;
  return {
    phase: name,
    client,
    requests: parts.reduce((total, part) => total + part.requests, 0),
    perPod,
    maxOverMean: maxOverMean(counts, pods) ?? Number.NaN,
    // Pods drawn by chance differ by some 1/sqrt(n); four times that is no chance any more.
    maxOverMeanLimit: Math.max(1.05, 1 + 4 / Math.sqrt(meanPerPod)),
    p50Ms: latency.quantile(0.5),
    p99Ms: latency.quantile(0.99),
    errors: parts.reduce((total, part) => total + errorCount(part), 0),
    errorKinds,
  };
}

/** @param {number} ms */
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** @param {() => boolean} condition @param {number} timeoutMs @param {string} trouble */
async function until(condition, timeoutMs, trouble) {
  const end = performance.now() + timeoutMs;
  while (!condition()) {
    if (performance.now() > end) throw new Error(trouble);
    await sleep(POLL_MS);
  }
}
