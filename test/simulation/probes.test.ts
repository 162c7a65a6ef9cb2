import { describe, expect, it } from 'vitest';
import { balanceScenarios, type Measures } from './lib/balance.js';
import { prequalOfPaper, withProbes, withReports } from './lib/contenders.js';
import { PROOF } from './lib/proof.js';
import type { Strategy } from './lib/world.js';

const SEEDS = PROOF ? [1, 2, 3] : [1];
/** A single short run strays further than the mean of three. */
const STRAYS = PROOF ? 1 : 1.07;
const EFFORT = PROOF ? 1 : 0.4;
const QUANTILES = ['mean', 'p50', 'p99', 'p99.9'] as const;

/** Means of all seeds. */
async function measured(name: string, strategy: Strategy): Promise<Measures> {
  const scenario = balanceScenarios.find((one) => one.name === name);
  if (scenario === undefined) throw new Error(`no scenario ${name}`);
  const sums: Record<string, number> = {};
  for (const seed of SEEDS) {
    const run = await scenario.run(strategy, seed, EFFORT);
    for (const [column, value] of Object.entries(run)) sums[column] = (sums[column] ?? 0) + value / SEEDS.length;
  }
  return sums;
}

const of = (measures: Measures, column: string): number => measures[column] as number;

describe('reports and probes', () => {
  it.each([
    ['testbed-90', 580, 800] as const,
    // Half a minute of computing.
    ...(PROOF ? [['equal-100', 132, 180] as const] : []),
  ])('are ahead of Prequal in %s, with fewer probes', async (name, p99, p999) => {
    const ours = await measured(name, withProbes);
    const theirs = await measured(name, prequalOfPaper);
    for (const column of QUANTILES) expect(of(ours, column), column).toBeLessThan(of(theirs, column));
    expect(of(ours, 'p99')).toBeLessThanOrEqual(p99 * STRAYS);
    expect(of(ours, 'p99.9')).toBeLessThanOrEqual(p999 * STRAYS);
    expect(of(ours, 'probes / call')).toBeLessThanOrEqual(3);
    expect(of(theirs, 'probes / call')).toBeCloseTo(3, 1);
  });

  it.each(['equal-10', 'equal-3'])('send no probes in %s, where answers tell enough', async (name) => {
    const ours = await measured(name, withProbes);
    const without = await measured(name, withReports);
    expect(of(ours, 'probes / call')).toBeLessThanOrEqual(0.2);
    expect(of(ours, 'max / mean')).toBeLessThanOrEqual(1.06);
    expect(of(ours, 'p99')).toBeLessThanOrEqual(1.1 * of(without, 'p99'));
  });
});
