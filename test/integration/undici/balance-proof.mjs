/**
 * Loads compared over real sockets: `npm run proof -- loads`.
 *
 * Eight pods, one process each, of four workers of 200 ms (exponential, first come first served). One is five times slower; one has
 * a neighbour that makes it four times slower a third of the time. Four client processes that know nothing of one another send three
 * quarters of what the pods can do. The pods only wait (timers) and use no CPU, so two cores are enough for all of them, and
 * what is measured is where calls go, not who gets a core.
 *
 *   npm run proof -- loads 5     runs of each, 3 by default
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const WORKERS = 4;
const MEAN_MS = 200;
const CLIENTS = 4;
const UTILIZATION = 0.75;
const WARM_UP_MS = 10_000;
const LENGTH_MS = 60_000;
const runs = Number(process.argv[2] ?? 3);

const machines = [{ slower: 5 }, { neighbour: 4 }, {}, {}, {}, {}, {}, {}];
/** Of a pod that is neither, in requests per second; and what share of that each is worth. */
const FULL = (WORKERS * 1_000) / MEAN_MS;
const worth = [1 / 5, 2 / 3 + 1 / 3 / 4, 1, 1, 1, 1, 1, 1];
const perSecond = UTILIZATION * FULL * worth.reduce((sum, share) => sum + share, 0);

const kinds = {
  'p2c over inFlight': { load: 'inFlight', reports: false },
  'p2c over peakEwma': { load: 'peakEwma', reports: false },
  'p2c over relativeLatency': { load: 'relativeLatency', reports: false },
  'the same, with reports': { load: 'relativeLatency', reports: true },
};

const program = (name) => fileURLToPath(new URL(`../../support/pods/${name}`, import.meta.url));
const pods = await Promise.all(
  machines.map(async (machine) => {
    const args = [JSON.stringify({ workers: WORKERS, meanMs: MEAN_MS, ...machine })];
    const child = fork(program('sleeping-pod.mjs'), args, { execArgv: [] });
    const [{ port }] = await once(child, 'message');
    return { child, port };
  }),
);
const clients = Array.from({ length: CLIENTS }, () => fork(program('balance-client.mjs'), [], { execArgv: [] }));
const ports = pods.map(({ port }) => port);

const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;

async function play(kind) {
  const results = await Promise.all(
    clients.map(async (client) => {
      const told = once(client, 'message');
      client.send({ ports, ...kind, perSecond: perSecond / CLIENTS, warmUpMs: WARM_UP_MS, lengthMs: LENGTH_MS });
      const [result] = await told;
      return result;
    }),
  );
  const latencies = results.flatMap((result) => result.latencies).sort((a, b) => a - b);
  const calls = ports.map((port) => results.reduce((sum, { perPod }) => sum + (perPod[port] ?? 0), 0));
  const total = calls.reduce((sum, count) => sum + count, 0);
  return {
    mean: mean(latencies),
    p50: quantile(latencies, 0.5),
    p99: quantile(latencies, 0.99),
    p999: quantile(latencies, 0.999),
    slow: calls[0] / total,
    disturbed: calls[1] / total,
    failed: results.reduce((sum, result) => sum + result.failed, 0),
  };
}

const all = Object.fromEntries(Object.keys(kinds).map((name) => [name, []]));
for (let run = 1; run <= runs; run++) {
  for (const [name, kind] of Object.entries(kinds)) {
    const result = await play(kind);
    all[name].push(result);
    const shown = [result.mean, result.p50, result.p99, result.p999].map((ms) => ms.toFixed(0)).join(' / ');
    console.error(
      `run ${run}, ${name}: ${shown} ms; slow ${(100 * result.slow).toFixed(1)} %, disturbed ${(100 * result.disturbed).toFixed(1)} %; failed ${result.failed}`,
    );
  }
}
for (const { child } of pods) child.disconnect();
for (const client of clients) client.disconnect();

console.log(
  `\n${perSecond.toFixed(0)} requests per second, ${LENGTH_MS / 1_000} s, mean of ${runs} [lowest, highest]; ms\n`,
);
console.log('| load | mean | p50 | p99 | p99.9 | calls to the slow pod | to the disturbed one |');
console.log('|---|---:|---:|---:|---:|---:|---:|');
for (const [name, results] of Object.entries(all)) {
  const cell = (field) => {
    const values = results.map((result) => result[field]);
    return `${mean(values).toFixed(0)} [${Math.min(...values).toFixed(0)}, ${Math.max(...values).toFixed(0)}]`;
  };
  const share = (field) => `${(100 * mean(results.map((result) => result[field]))).toFixed(1)} %`;
  const times = ['mean', 'p50', 'p99', 'p999'].map(cell).join(' | ');
  console.log(`| \`${name}\` | ${times} | ${share('slow')} | ${share('disturbed')} |`);
}
