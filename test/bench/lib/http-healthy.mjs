/** HTTP clients on healthy pods, as fast as each can: every kind once a round. */
import { barChart } from './bar-chart.mjs';
import { closedLoop } from './closed-loop.mjs';
import { CONNECTIONS_PER_POD, names } from './http-clients.mjs';
import { ratioTable } from './ratio-table.mjs';
import { measure } from './rounds.mjs';
import { grouped, table } from './table.mjs';

/** Requests per visit: about a tenth of a second for every style. */
const REQUESTS = { undici: 2_000, fetch: 600, 'node:http': 1_000, axios: 500 };
const WARM_UP = 5;

/** @typedef {import('./http-clients.mjs').HttpClientKind} HttpClientKind */

/**
 * @param {import('./http-clients.mjs').ClientContext} context
 * @param {readonly HttpClientKind[]} kinds
 * @param {{ rounds: number, visits: number, minutes: number, progress: (text: string) => void }} options `minutes`: as for `measure`
 */
export async function measureHealthy(context, kinds, { rounds, visits, minutes, progress }) {
  const { pods } = context;
  const concurrency = pods.ready.length * CONNECTIONS_PER_POD;
  /** Requests per pod, by kind. @type {Map<string, Map<string, number>>} */
  const spread = new Map(kinds.map(({ name }) => [name, new Map()]));
  const clients = kinds.map((kind) => ({ kind, client: kind.create(context) }));
  const subjects = clients.map(({ kind: { name, style }, client }) => ({
    name,
    run: async () => {
      const before = await pods.counts();
      const sample = await closedLoop(client.call, { requests: REQUESTS[style], concurrency });
      const counts = /** @type {Map<string, number>} */ (spread.get(name));
      for (const [pod, count] of await pods.counts()) {
        counts.set(pod, (counts.get(pod) ?? 0) + count - (before.get(pod) ?? 0));
      }
      return sample;
    },
  }));
  const [baseline, ...others] = /** @type {[typeof subjects[number], ...typeof subjects]} */ (subjects);
  const measured = await measure({
    baseline,
    subjects: others,
    rounds,
    visits,
    minutes,
    warmUp: WARM_UP,
    progress: (round) => progress(round > 0 ? `healthy, round ${round} of ${rounds}` : 'warming up'),
  });
  for (const { client } of clients) await client.close();
  return { measured, spread, picture: () => picture(measured, kinds) };
}

/** @param {Awaited<ReturnType<typeof measureHealthy>>} results @param {readonly HttpClientKind[]} kinds */
export function healthySections({ measured, spread }, kinds) {
  const rows = kinds.map(({ name }) => {
    const counts = [...(spread.get(name)?.values() ?? [])];
    const mean = counts.reduce((sum, count) => sum + count, 0) / counts.length;
    return [
      name,
      grouped(measured.median(name, 'perSecond')),
      measured.median(name, 'cpuUs').toFixed(1),
      measured.median(name, 'p50').toFixed(2),
      measured.median(name, 'p99').toFixed(2),
      measured.median(name, 'p999').toFixed(2),
      (Math.max(...counts) / mean).toFixed(3),
    ];
  });
  const head = ['median', 'requests/s', 'CPU µs/request', 'p50 ms', 'p99 ms', 'p99.9 ms', 'spread (max/mean)'];
  return `${table(head, rows)}\n\n${ratioTable(measured, wanted(kinds))}`;
}

/** What is wanted of the rows there are. @param {readonly HttpClientKind[]} kinds @returns {import('./ratio-table.mjs').Wanted[]} */
function wanted(kinds) {
  const { ours, fetchOurs, httpOurs, axiosOurs, postOurs, ...others } = names;
  /** @type {import('./ratio-table.mjs').Wanted[]} */
  const all = [];
  const asGood = (/** @type {string} */ name, /** @type {string} */ against) =>
    all.push({ name, against, figure: 'perSecond', atLeast: 0.97 }, { name, against, figure: 'cpuUs', atMost: 1.05 });
  const ahead = (/** @type {string} */ name, /** @type {string} */ against) =>
    all.push({ name, against, figure: 'perSecond', atLeast: 1 });
  asGood(ours, others.hand);
  asGood(ours, others.balanced);
  for (const other of [others.dns, others.roundRobin, others.onePool]) ahead(ours, other);
  for (const proxy of [others.haproxy, others.nginx]) {
    ahead(ours, proxy);
    all.push({ name: ours, against: proxy, figure: 'p99', atMost: 1 });
  }
  asGood(fetchOurs, others.fetchHand);
  ahead(fetchOurs, others.fetch);
  all.push({ name: fetchOurs, against: others.fetch, figure: 'cpuUs', atMost: 1.05 });
  ahead(httpOurs, others.http);
  ahead(axiosOurs, others.axios);
  asGood(postOurs, others.postHand);
  const there = new Set(kinds.map(({ name }) => name));
  return all.filter(({ name, against }) => there.has(name) && there.has(against));
}

/** @param {import('./rounds.mjs').Results} measured @param {readonly HttpClientKind[]} kinds */
function picture(measured, kinds) {
  return barChart({
    title: 'Requests per second of one client process, healthy pods',
    subtitle: 'Median over all rounds; behind it the CPU time of the client per request. More is better.',
    rows: kinds.map(({ name }) => {
      const value = measured.median(name, 'perSecond');
      return {
        label: name,
        value,
        note: `${grouped(value)} · ${measured.median(name, 'cpuUs').toFixed(0)} µs`,
        ours: name.includes('evenkeel'),
      };
    }),
  });
}
