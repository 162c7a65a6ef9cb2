import { type BalanceScenario, balanceScenarios, type Measures, playTestbed } from './lib/balance.js';
import { contenders, evenContenders, fleetContenders, stock } from './lib/contenders.js';
import { evenScenarios } from './lib/evenness.js';
import { fleetScenarios } from './lib/fleet.js';
import { latencyChart, writeChart } from './lib/svg.js';
import { markdownTable } from './lib/table.js';
import type { Strategy } from './lib/world.js';

export { balanceScenarios, evenScenarios, fleetScenarios };

/** What to print. */
export interface BalanceOptions {
  /** Names of scenarios. Empty = all. */
  readonly scenarios: readonly string[];
  /** Parts of the names of contenders. Empty = all. */
  readonly contenders: readonly string[];
  /** How many seeds are played. @defaultValue 3 */
  readonly seeds?: number | undefined;
  /** How long each is played, as a multiple of the usual. @defaultValue 1 */
  readonly effort?: number | undefined;
  /** Where the picture of Prequal's testbed is drawn. @defaultValue not at all */
  readonly images?: string | undefined;
}

/** Prints how ways to balance compare in each situation; then draws Prequal's testbed. */
export async function reportBalance(options: BalanceOptions): Promise<void> {
  await reportTables(balanceScenarios, contenders, options);
  if (options.images !== undefined) await drawTestbed(options.images);
}

/** The same for what a fleet must reach, beside what users have and what one queue would reach. */
export const reportFleet = (options: BalanceOptions): Promise<void> =>
  reportTables(fleetScenarios, fleetContenders, options);

/** The same for what the default picker must reach, beside chance. */
export const reportEven = (options: BalanceOptions): Promise<void> =>
  reportTables(evenScenarios, evenContenders, options);

/** A table per scenario: means of some seeds, and how far the seeds are from them. */
async function reportTables(
  played: readonly BalanceScenario[],
  strategies: readonly Strategy[],
  options: BalanceOptions,
): Promise<void> {
  const { scenarios, contenders: named, seeds = 3, effort = 1 } = options;
  const unknown = scenarios.filter((asked) => played.every(({ name }) => name !== asked));
  if (unknown.length > 0) {
    throw new Error(`no scenario ${unknown.join(', ')}; there are ${played.map(({ name }) => name).join(', ')}`);
  }
  const rows = strategies.filter(({ name }) => named.length === 0 || named.some((asked) => name.includes(asked)));
  for (const scenario of played) {
    if (scenarios.length > 0 && !scenarios.includes(scenario.name)) continue;
    console.log(
      `\n${scenario.title} (${scenario.name}); ${seeds === 1 ? 'one seed' : `mean of ${seeds} seeds ± the farthest`}\n`,
    );
    console.log(await tableOf(scenario, rows, seeds, effort));
  }
}

/** Those whose lines can be told apart. */
const drawn = [
  'ideal, one queue',
  'stock, keep-alive',
  'default, reports',
  'default, no reports',
  'Prequal, 3 probes',
  'p2c of two, inFlight',
  'p2c of two, peakEwma',
  'gRPC, weighted_round_robin',
];

async function drawTestbed(images: string): Promise<void> {
  const tallies: { name: string; tally: Awaited<ReturnType<typeof playTestbed>> }[] = [];
  for (const strategy of contenders) {
    if (!drawn.includes(strategy.name)) continue;
    tallies.push({ name: strategy.name, tally: await playTestbed(0.9, strategy, 1) });
  }
  const title = "Prequal's testbed at 90 %: 100 servers of two speeds, 100 clients";
  writeChart(images, 'prequal-testbed', latencyChart(title, 'time to answer, in ms', tallies));
}

async function tableOf(
  scenario: BalanceScenario,
  rows: readonly Strategy[],
  seeds: number,
  effort: number,
): Promise<string> {
  const cells: { readonly name: string; readonly of: ReadonlyMap<string, string> }[] = [];
  let ofStock: readonly Measures[] | undefined;
  for (const strategy of rows) {
    const { name } = strategy;
    const runs: Measures[] = [];
    for (let seed = 1; seed <= seeds; seed++) runs.push(await scenario.run(strategy, seed, effort));
    if (strategy === stock) ofStock = runs;
    const columns = Object.keys(runs[0] as Measures);
    const of = new Map(columns.map((column) => [column, cell(runs.map((run) => run[column] as number))]));
    const shares = ofStock?.map((run, index) => (runs[index]?.p99 ?? 0) / (run.p99 ?? 0)) ?? [];
    if (columns.includes('p99') && shares.length > 0) of.set('p99 / stock', cell(shares));
    cells.push({ name, of });
    // It takes minutes.
    console.error(`${scenario.name}: ${name}: ${[...of].map(([column, value]) => `${column} ${value}`).join(', ')}`);
  }
  // Only some measure all: most send no probes.
  const columns = [...new Set(cells.flatMap(({ of }) => [...of.keys()]))];
  const lines = cells.map(({ name, of }) => [name, ...columns.map((column) => of.get(column) ?? '')]);
  return markdownTable(['', ...columns], lines);
}

/** The mean, and the largest distance of a seed from it. */
function cell(values: readonly number[]): string {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const spread = Math.max(...values.map((value) => Math.abs(value - mean)));
  const digits = mean >= 100 ? 0 : mean >= 20 ? 1 : 2;
  return values.length === 1 ? mean.toFixed(digits) : `${mean.toFixed(digits)} ± ${spread.toFixed(digits)}`;
}
