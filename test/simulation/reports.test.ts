import { describe, expect, it } from 'vitest';
import { prequalTestbed } from './lib/prequal-testbed.js';
import { LENGTH_MS, PROOF, SEEDS } from './lib/proof.js';
import { exponential, lognormal } from './lib/server.js';
import { strategies } from './lib/strategies.js';
import type { Tally } from './lib/tally.js';
import { type Strategy, World, type WorldOptions } from './lib/world.js';

const { standard, p2cByLatency } = strategies;

interface Scenario extends Partial<WorldOptions> {
  readonly servers: number;
  readonly callsPerSecond: number;
  readonly warmUpMs?: number;
}

async function play(strategy: Strategy, seed: number, scenario: Scenario, lengthMs = LENGTH_MS): Promise<Tally> {
  const { warmUpMs = 5_000, ...options } = scenario;
  const world = new World({ seed, strategy, workers: 4, serviceTime: lognormal(10, 1), ...options });
  await world.start(warmUpMs);
  const tally = await world.run(lengthMs);
  await world.finish(tally, 6_000);
  await world.close();
  return tally;
}

const honest = (inFlight: number): number => inFlight;
const ten: Scenario = { servers: 10, clients: 10, callsPerSecond: 3_200 };
const shareOfFirst = ({ perServer, calls }: Tally, servers: number): number =>
  ((perServer.get('10.0.0.0') ?? 0) * servers) / calls;

describe.each(SEEDS)('the default load with reports from servers (seed %i)', (seed) => {
  it('spreads calls evenly over equal servers, and is no slower than without reports', async () => {
    for (const scenario of [ten, { servers: 3, clients: 20, callsPerSecond: 960 }]) {
      const without = await play(standard, seed, scenario);
      const tally = await play(standard, seed, { ...scenario, reports: honest });
      expect(tally.maxOverMean(scenario.servers)).toBeLessThanOrEqual(1.06);
      expect(tally.quantileMs(0.99)).toBeLessThanOrEqual(1.1 * without.quantileMs(0.99));
    }
  });

  it('spreads calls nearly evenly where only every other server reports: a server known to be idle attracts calls', async () => {
    for (const scenario of [ten, { servers: 3, clients: 20, callsPerSecond: 960 }]) {
      const reports = (inFlight: number, index: number): number | undefined => (index % 2 === 0 ? inFlight : undefined);
      const tally = await play(standard, seed, { ...scenario, reports });
      expect(tally.maxOverMean(scenario.servers)).toBeLessThanOrEqual(1.25);
      expect(tally.quantileMs(0.99)).toBeLessThanOrEqual(
        1.15 * (await play(standard, seed, scenario)).quantileMs(0.99),
      );
    }
  });

  it('gives a server that claims to be idle little more than its share', async () => {
    for (const divisor of [100, Number.POSITIVE_INFINITY]) {
      const reports = (inFlight: number, index: number): number => (index === 0 ? inFlight / divisor : inFlight);
      const tally = await play(standard, seed, { ...ten, reports });
      expect(shareOfFirst(tally, 10)).toBeLessThanOrEqual(1.3);
      expect(tally.quantileMs(0.99)).toBeLessThanOrEqual(1.2 * (await play(standard, seed, ten)).quantileMs(0.99));
    }
  });

  it('gives a server that claims to be a hundred times as busy part of its share, and the others the rest evenly', async () => {
    const reports = (inFlight: number, index: number): number => (index === 0 ? 100 * inFlight : inFlight);
    const tally = await play(standard, seed, { ...ten, reports });
    expect(shareOfFirst(tally, 10)).toBeGreaterThan(0.01);
    expect(tally.maxOverMean(10)).toBeLessThanOrEqual(1.2);
    expect(tally.quantileMs(0.99)).toBeLessThanOrEqual(1.2 * (await play(standard, seed, ten)).quantileMs(0.99));
  });
});

it('the default load is no slower with reports where 100 clients call 100 equal servers', async () => {
  const scenario = {
    servers: 100,
    clients: 100,
    callsPerSecond: 36_000,
    serviceTime: exponential(10),
    warmUpMs: 8_000,
  };
  const without = await play(standard, 1, scenario, 2_000);
  const tally = await play(standard, 1, { ...scenario, reports: honest }, 2_000);
  expect(tally.quantileMs(0.99)).toBeLessThanOrEqual(1.05 * without.quantileMs(0.99));
  expect(tally.meanMs).toBeLessThanOrEqual(1.05 * without.meanMs);
});

it("the default load is faster than peakEwma in Prequal's testbed", async () => {
  const scenario = { ...prequalTestbed, callsPerSecond: prequalTestbed.callsPerSecond(0.9), warmUpMs: 30_000 };
  const lengthMs = PROOF ? 60_000 : 10_000;
  const tally = await play(standard, 1, { ...scenario, reports: honest }, lengthMs);
  const theirs = await play(p2cByLatency, 1, scenario, lengthMs);
  expect(tally.quantileMs(0.99)).toBeLessThanOrEqual(0.85 * theirs.quantileMs(0.99));
  expect(tally.quantileMs(0.999)).toBeLessThanOrEqual(0.85 * theirs.quantileMs(0.999));
});
