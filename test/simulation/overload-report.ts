import { adaptive } from '../../src/limit/adaptive.js';
import { fixed } from '../../src/limit/fixed.js';
import { exponential } from './lib/server.js';
import { strategies } from './lib/strategies.js';
import type { Chart, Series } from './lib/svg.js';
import { World, type WorldOptions } from './lib/world.js';

/** Where a limit is: nowhere, in the client, and in the servers too. */
const kinds: Readonly<Record<string, Partial<WorldOptions>>> = {
  'without a limit': { limit: fixed(100_000) },
  'limit in the client': { limit: adaptive() },
  'and in the servers': { limit: adaptive(), serverLimit: fixed(4) },
};

/** Loads as multiples of what the servers can do, with a duration in seconds. */
type Demand = readonly (readonly [load: number, seconds: number])[];

/** What share of the calls of each second is answered in time, in %. */
async function answered(options: Partial<WorldOptions>, demand: Demand): Promise<[number, number][]> {
  const world = new World({
    seed: 1,
    strategy: strategies.standard,
    servers: 4,
    workers: 4,
    serviceTime: exponential(20),
    callsPerSecond: 800,
    deadlineMs: 250,
    worksForGone: true,
    ...options,
  });
  world.demand = 0.7;
  await world.start(10_000);
  const points: [number, number][] = [];
  for (const [load, seconds] of demand) {
    world.demand = load;
    for (let second = 0; second < seconds; second++) {
      const { successRatio } = await world.run(1_000);
      points.push([points.length + 1, 100 * successRatio]);
    }
  }
  await world.close();
  return points;
}

async function chart(title: string, demand: Demand, more: Partial<WorldOptions> = {}): Promise<Chart> {
  console.log(`\n${title}: answered in time, % of each second\n`);
  const series: Series[] = [];
  for (const [name, options] of Object.entries(kinds)) {
    const points = await answered({ ...options, ...more }, demand);
    series.push({ name, points });
    console.log(`${name}: ${points.map(([, share]) => share.toFixed(0)).join(' ')}`);
  }
  return { title, x: 'seconds', y: 'answered in time, %', series };
}

/** The pictures of "Surviving overload", by name. */
export async function* overloadCharts(): AsyncGenerator<[name: string, chart: Chart]> {
  const profile: Demand = [
    [0.7, 5],
    [1.4, 5],
    [0.7, 15],
  ];
  yield ['overload', await chart('5 s at 1.4 times what the servers can do, 0.7 before and after', profile)];
  const storm: Demand = [
    [0.7, 5],
    [3, 60],
    [0.7, 15],
  ];
  const callers = { count: 1_000, tries: 4 };
  const title = '1,000 callers that retry at once, 60 s at three times the load';
  yield ['overload-retries', await chart(title, storm, { callers })];
}
