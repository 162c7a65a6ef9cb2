import { stagesOf } from '../../src/stage/standard-stages.js';
import { ideal, stock, withoutReports } from './lib/contenders.js';
import { allServersFail, coldServerJoins, oneServerAtATenth, oneServerBad, oneServerSlow } from './lib/scenarios.js';
import { exponential, lognormal, pareto, type ServiceTime } from './lib/server.js';
import { allStrategies, strategies, withStages } from './lib/strategies.js';
import { latencyChart, type Series, writeChart } from './lib/svg.js';
import { markdownTable } from './lib/table.js';
import type { Tally } from './lib/tally.js';
import { type Strategy, World } from './lib/world.js';
import { overloadCharts } from './overload-report.js';

const SEED = 1;
const QUANTILES = [0.5, 0.9, 0.99, 0.999];
const percent = (share: number, digits = 2): string => `${(share * 100).toFixed(digits)} %`;

/** Beside every way to balance: the bound for all, what users have, and the default. */
const compared: readonly Strategy[] = [ideal, stock, { ...withoutReports, name: 'the default' }, ...allStrategies];

type Part = (images: string | undefined) => Promise<void>;
const parts: Readonly<Record<string, Part>> = {
  'one-client': (images) => textbook(images, 1),
  'many-clients': (images) => textbook(images, 20),
  profiles,
  faults,
  slow: slowServer,
  overload: async (images) => {
    for await (const [name, chart] of overloadCharts()) writeChart(images, name, chart);
  },
};

/** Runs the simulations, or those that are named, and prints a table of each; with `images`, writes their pictures there. */
export async function report(images: string | undefined, named: readonly string[] = []): Promise<void> {
  const unknown = named.filter((name) => !Object.hasOwn(parts, name));
  if (unknown.length > 0) throw new Error(`no part ${unknown.join(', ')}; there are ${Object.keys(parts).join(', ')}`);
  for (const [name, part] of Object.entries(parts)) if (named.length === 0 || named.includes(name)) await part(images);
}

/** 100 single workers at 90 %: the supermarket. */
async function textbook(images: string | undefined, clients: number): Promise<void> {
  const servers = 100;
  console.log(
    `\n${servers} servers that work on one call at a time, exponential, 90 % loaded, ${clients} client(s); in service times\n`,
  );
  const tallies: { name: string; tally: Tally }[] = [];
  const rows: string[][] = [];
  for (const strategy of [
    ideal,
    stock,
    { ...withoutReports, name: 'the default' },
    strategies.random,
    strategies.roundRobin,
    strategies.p2c,
    strategies.leastLoaded,
    strategies.standard,
    strategies.p2cByLatency,
  ]) {
    const world = new World({
      seed: SEED,
      strategy,
      servers,
      clients,
      callsPerSecond: 90_000,
      serviceTime: exponential(1),
      workers: 1,
    });
    await world.start(300);
    const tally = await world.run(4_000);
    await world.close();
    rows.push([strategy.name, tally.meanMs.toFixed(2), ...quantiles(tally), tally.maxOverMean(servers).toFixed(3)]);
    tallies.push({ name: strategy.name, tally });
  }
  console.log(markdownTable(['picker', 'mean', 'p50', 'p90', 'p99', 'p99.9', 'max / mean'], rows));
  const who = clients === 1 ? 'one client' : `${clients} clients`;
  const chart = latencyChart(`100 servers at 90 %, ${who}`, 'time to answer, in service times', tallies);
  writeChart(images, `latency-${clients === 1 ? 'one-client' : 'many-clients'}`, chart);
}

/** Ten servers of four workers at 70 %, by how long calls take. */
async function profiles(): Promise<void> {
  const times: readonly [string, ServiceTime][] = [
    ['exponential', exponential(20)],
    ['lognormal, σ = 1', lognormal(20, 1)],
    ['Pareto, α = 2', pareto(20, 2)],
  ];
  console.log(
    '\n10 servers that work on 4 calls at a time, 20 ms on average, 70 % loaded, 5 clients; 99th percentile in ms (max / mean calls per server)\n',
  );
  const rows: string[][] = [];
  for (const strategy of compared) {
    const row = [strategy.name];
    for (const [, serviceTime] of times) {
      const world = new World({
        seed: SEED,
        strategy,
        servers: 10,
        clients: 5,
        callsPerSecond: 1_400,
        serviceTime,
        workers: 4,
      });
      await world.start(10_000);
      const tally = await world.run(120_000);
      await world.close();
      row.push(`${tally.quantileMs(0.99).toFixed(0)} (${tally.maxOverMean(10).toFixed(3)})`);
    }
    rows.push(row);
  }
  console.log(markdownTable(['picker', ...times.map(([name]) => name)], rows));
}

async function faults(): Promise<void> {
  console.log('\nFaults, standard stages, 1,000 calls per second, deadline 1 s where there is one, no retries\n');
  const rows: string[][] = [];
  for (const strategy of compared) {
    const slow = await oneServerSlow(strategy, SEED);
    const slowEjecting = await oneServerSlow(withStages(strategy, stagesOf()), SEED);
    const failing = await oneServerBad(strategy, { kind: 'fail', afterMs: 1 }, SEED);
    const hanging = await oneServerBad(strategy, { kind: 'hang' }, SEED);
    const tenth = await oneServerAtATenth(strategy, SEED);
    const cold = await coldServerJoins(strategy, SEED);
    const coldAtOnce = await coldServerJoins(strategy, SEED, 60_000, stagesOf());
    const outage = await allServersFail(strategy, SEED);
    rows.push([
      strategy.name,
      percent(slow.successRatio),
      percent(slowEjecting.successRatio),
      `${failing.early} + ${failing.late} (${failing.ejections})`,
      `${hanging.early} + ${hanging.late} (${hanging.ejections})`,
      ratio(tenth.p99Ms / tenth.healthyMs),
      ratio(coldAtOnce.p99Ms / coldAtOnce.withoutMs),
      ratio(cold.p99Ms / cold.withoutMs),
      Math.max(...outage.shares).toFixed(2),
    ]);
  }
  console.log(
    markdownTable(
      [
        'picker',
        'one of 11 slow: ok, no ejection',
        'ok, ejecting',
        'one of 10 fails: errors in 2 s + later (ejections)',
        'one of 10 silent: the same',
        'one at a tenth: p99 ×',
        'cold one joins: p99 ×',
        'the same with slow start',
        'all fail: max / mean',
      ],
      rows,
    ),
  );
}

/** Failed calls over time, when one of 11 servers is slow. */
async function slowServer(images: string | undefined): Promise<void> {
  const shown: readonly Strategy[] = [
    ideal,
    stock,
    strategies.roundRobin,
    strategies.p2c,
    { ...withoutReports, name: 'the default' },
    { ...withStages(strategies.roundRobin, stagesOf()), name: 'roundRobin, ejecting' },
  ];
  const series: Series[] = [];
  for (const strategy of shown) {
    const tally = await oneServerSlow(strategy, SEED);
    const perSecond = new Array<number>(60).fill(0);
    for (const atMs of tally.failures) {
      const second = Math.min(59, Math.floor((atMs - tally.startMs) / 1_000));
      perSecond[second] = (perSecond[second] as number) + 1;
    }
    series.push({ name: strategy.name, points: perSecond.map((count, second) => [second, count]) });
  }
  writeChart(images, 'one-slow-server', {
    title: 'One of 11 servers takes 2 s from second 15 to 45; deadline 1 s',
    x: 'second in which the call began',
    y: 'calls that failed, per second',
    xTicks: [0, 15, 30, 45, 59].map((second) => [second, String(second)] as const),
    series,
  });
}

function quantiles(tally: Tally): string[] {
  return QUANTILES.map((share) => tally.quantileMs(share).toFixed(2));
}

function ratio(value: number): string {
  return value > 100 ? '> 100' : value.toFixed(2);
}
