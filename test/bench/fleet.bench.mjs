/**
 * A fleet over HTTP: evenkeel beside undici's fetch through kube-proxy.
 *
 *   node test/bench/fleet.bench.mjs [--quick] [--write] [--work=ms]      --write also draws the picture; on a busy machine, longer work
 *                                                                        tells the pods' queues from the machine's
 */
import { writeFileSync } from 'node:fs';
import { barChart } from './lib/bar-chart.mjs';
import { arrivals, clientsAndPods, Fleet, load, rounds, steady } from './lib/fleet.mjs';

const STOCK = 'fetch of undici through kube-proxy';
const DEFAULT = 'evenkeel';
const REPORTS = 'evenkeel, servers report their load';

const fleet = new Fleet('http', [
  { name: STOCK, kind: 'stock' },
  { name: DEFAULT, kind: 'default' },
  { name: REPORTS, kind: 'default', reports: true },
  { name: 'evenkeel, roundRobin()', kind: 'roundRobin' },
]);

/** @type {readonly import('./lib/fleet.mjs').Variant[]} */
const variants = [
  { ...steady, wanted: { [DEFAULT]: 0.8, [REPORTS]: 0.62 } },
  {
    title: 'Servers close connections that were idle for 5 s',
    idleMs: 5_000,
    bursts: undefined,
    wanted: { [DEFAULT]: 1, [REPORTS]: 1 },
  },
  {
    title: 'Bursts of ten times the rate, 100 ms every 2 s',
    idleMs: 0,
    bursts: { times: 10, forMs: 100, everyMs: 2_000 },
    wanted: { [DEFAULT]: 1, [REPORTS]: 1 },
  },
];

const outcomes = [];
for (const variant of variants) outcomes.push(await fleet.play(variant));
console.log(`## A fleet: ${clientsAndPods}

Pods of one core, which their requests share: real HTTP servers that answer when a computed core would be done. ${arrivals} Stock is undici's \`fetch\` to one address,
behind which a pod is drawn for each connection; its connections are drawn anew for each of ${rounds}. Ratios are medians of the rounds with
their 95 % intervals. Stock against itself shows how much is chance.

${outcomes.map(({ section }) => section).join('\n\n')}

![99th percentiles of a fleet](images/benchmark-fleet.svg)
`);

const [first] = outcomes;
if (process.argv.includes('--write') && first !== undefined) {
  const picture = barChart({
    title: `${clientsAndPods} of one core at ${load}: 99th percentile`,
    subtitle: first.canJudge ? 'over sockets; shorter is better' : 'over sockets; on a busy machine',
    rows: first.p99.map(({ name, ms }) => ({
      label: name,
      value: ms,
      note: `${ms.toFixed(0)} ms`,
      ours: name === DEFAULT || name === REPORTS,
    })),
  });
  writeFileSync(new URL('../../docs/images/benchmark-fleet.svg', import.meta.url), picture);
}
