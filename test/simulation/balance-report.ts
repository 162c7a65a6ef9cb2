import { type BalanceScenario, balanceScenarios, type Measures, playTestbed } from './lib/balance.js';
import { contenders } from './lib/contenders.js';
import { latencyChart, writeChart } from './lib/svg.js';
import { markdownTable } from './lib/table.js';

export { balanceScenarios };

const SEEDS = [1, 2, 3];

/** What to print. */
export interface BalanceOptions {
  /** Names of scenarios. Empty = all. */
  readonly scenarios: readonly string[];
  /** Parts of the names of contenders. Empty = all. */
  readonly contenders: readonly string[];
  /** Where the picture of Prequal's testbed is drawn. @defaultValue not at all */
  readonly images?: string | undefined;
}

/** Prints a table per scenario: means of three seeds, and how far the seeds are from them. */
export async function reportBalance(options: BalanceOptions): Promise<void> {
  const { scenarios, contenders: named } = options;
  const unknown = scenarios.filter((asked) => balanceScenarios.every(({ name }) => name !== asked));
  if (unknown.length > 0) {
    throw new Error(
      `no scenario ${unknown.join(', ')}; there are ${balanceScenarios.map(({ name }) => name).join(', ')}`,
    );
  }
  const rows = contenders.filter(({ name }) => named.length === 0 || named.some((asked) => name.includes(asked)));
  for (const scenario of balanceScenarios) {
    if (scenarios.length > 0 && !scenarios.includes(scenario.name)) continue;
    console.log(`\n${scenario.title} (${scenario.name}); mean of ${SEEDS.length} seeds ± the farthest\n`);
    console.log(await tableOf(scenario, rows));
  }
  if (options.images !== undefined) await drawTestbed(options.images);
}

/** Those whose lines can be told apart. */
const drawn = [
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

async function tableOf(scenario: BalanceScenario, rows: typeof contenders): Promise<string> {
  const lines: string[][] = [];
  let columns: readonly string[] = [];
  for (const strategy of rows) {
    const runs: Measures[] = [];
    for (const seed of SEEDS) runs.push(await scenario.run(strategy, seed));
    columns = Object.keys(runs[0] as Measures);
    const line = [strategy.name, ...columns.map((column) => cell(runs.map((run) => run[column] as number)))];
    lines.push(line);
    // It takes minutes.
    console.error(`${scenario.name}: ${line.join(' | ')}`);
  }
  return markdownTable(['', ...columns], lines);
}

/** The mean, and the largest distance of a seed from it. */
function cell(values: readonly number[]): string {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const spread = Math.max(...values.map((value) => Math.abs(value - mean)));
  const digits = mean >= 100 ? 0 : mean >= 20 ? 1 : 2;
  return `${mean.toFixed(digits)} ± ${spread.toFixed(digits)}`;
}
