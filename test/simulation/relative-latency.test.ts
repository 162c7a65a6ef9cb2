import { describe, expect, it } from 'vitest';
import { inFlight } from '../../src/load/in-flight.js';
import { p2c } from '../../src/picker/p2c.js';
import { prequalTestbed } from './lib/prequal-testbed.js';
import { LENGTH_MS, SEEDS } from './lib/proof.js';
import { type Behaviour, exponential, lognormal, type Server } from './lib/server.js';
import { strategies } from './lib/strategies.js';
import type { Tally } from './lib/tally.js';
import { type Strategy, World, type WorldOptions } from './lib/world.js';

const { standard } = strategies;
const twoChoices: Strategy = { name: 'p2c of two, inFlight', picker: p2c({ choices: 2 }), load: inFlight() };

interface Scenario extends Partial<WorldOptions> {
  readonly servers: number;
  readonly callsPerSecond: number;
  readonly warmUpMs?: number;
  /** What each server does, by its index. */
  readonly behaviour?: (index: number) => Behaviour;
}

/** Work of 10 ms on average, with a long tail, on four workers. */
async function play(strategy: Strategy, seed: number, scenario: Scenario, lengthMs = LENGTH_MS): Promise<Tally> {
  const { behaviour, warmUpMs = 10_000, ...options } = scenario;
  const world = new World({ seed, strategy, workers: 4, serviceTime: lognormal(10, 1), ...options });
  if (behaviour !== undefined) {
    world.servers.forEach((server, index) => {
      server.behaviour = () => behaviour(index);
    });
  }
  await world.start(warmUpMs);
  const tally = await world.run(lengthMs);
  await world.finish(tally, 10_000);
  await world.close();
  return tally;
}

describe.each(SEEDS)('the default load (seed %i)', (seed) => {
  it('spreads calls evenly over equal pods, and is no slower than calls in flight', async () => {
    for (const scenario of [
      { servers: 10, clients: 10, callsPerSecond: 3_200 },
      { servers: 3, clients: 20, callsPerSecond: 960 },
    ]) {
      const ours = await play(standard, seed, scenario);
      const theirs = await play(twoChoices, seed, scenario);
      expect(ours.maxOverMean(scenario.servers)).toBeLessThanOrEqual(1.05);
      expect(ours.quantileMs(0.99)).toBeLessThanOrEqual(1.05 * theirs.quantileMs(0.99));
    }
  });

  it('hides that one of ten pods works at a tenth of its speed', async () => {
    const scenario = { servers: 10, clients: 10, callsPerSecond: 2_400 };
    const one: Scenario = {
      ...scenario,
      behaviour: (index) => ({ kind: 'serve', slower: index === 3 ? 10 : 1 }),
    };
    const tally = await play(standard, seed, one);
    expect(tally.quantileMs(0.99)).toBeLessThanOrEqual(70);
    expect(tally.quantileMs(0.999)).toBeLessThanOrEqual(165);
    const healthy = await play(standard, seed, scenario);
    expect(tally.quantileMs(0.99)).toBeLessThanOrEqual(1.3 * healthy.quantileMs(0.99));
  });

  it('hides that one of two pods is slow', async () => {
    const scenario: Scenario = {
      servers: 2,
      callsPerSecond: 100,
      behaviour: (index) => ({ kind: 'serve', slower: index === 1 ? 10 : 1 }),
    };
    const ours = await play(standard, seed, scenario);
    expect(ours.meanMs).toBeLessThanOrEqual(0.6 * (await play(twoChoices, seed, scenario)).meanMs);
  });

  it('sends few calls to a pod that fails at once, without ejection', async () => {
    const tally = await play(standard, seed, {
      servers: 10,
      callsPerSecond: 1_000,
      serviceTime: lognormal(20, 0.5),
      behaviour: (index) => (index === 3 ? { kind: 'fail', afterMs: 1 } : { kind: 'serve' }),
    });
    expect(1 - tally.successRatio).toBeLessThanOrEqual(0.004);
  });

  it('gives a pod that failed for 10 s its share again', async () => {
    const world = new World({
      seed,
      strategy: standard,
      servers: 10,
      callsPerSecond: 1_000,
      serviceTime: lognormal(20, 0.5),
    });
    const pod = world.servers[3] as Server;
    await world.start(10_000);
    pod.behaviour = () => ({ kind: 'fail', afterMs: 1 });
    await world.run(10_000);
    pod.behaviour = () => ({ kind: 'serve' });
    await world.run(30_000);
    const { perServer, calls } = await world.run(10_000);
    expect(((perServer.get(pod.address) ?? 0) * 10) / calls).toBeGreaterThanOrEqual(0.9);
    await world.close();
  });

  it('spreads calls as evenly as calls in flight where one call in ten is long, and in a zone 1 ms farther away', async () => {
    const evenness = async (strategy: Strategy, scenario: Scenario): Promise<number> =>
      (await play(strategy, seed, scenario, 60_000)).maxOverMean(scenario.servers);
    for (const scenario of [
      { servers: 3, callsPerSecond: 200, serviceTime: (rng) => (rng.next() < 0.1 ? 500 : 5), workers: 1_000 },
      { servers: 10, callsPerSecond: 1_000, serviceTime: (rng) => (rng.next() < 0.1 ? 500 : 5), workers: 1_000 },
      {
        servers: 6,
        callsPerSecond: 600,
        serviceTime: () => 2,
        behaviour: (index) => ({ kind: 'serve', slower: index < 3 ? 1 : 1.5 }),
      },
    ] satisfies Scenario[]) {
      expect(await evenness(standard, scenario)).toBeLessThanOrEqual(0.03 + (await evenness(twoChoices, scenario)));
    }
  });

  it('spreads calls nearly evenly with a few calls a second: one slow call is no evidence', async () => {
    const scenario = { servers: 3, callsPerSecond: 5 };
    const tally = await play(standard, seed, scenario, 600_000);
    expect(tally.maxOverMean(3)).toBeLessThanOrEqual(1.1);
  });
});

it('the default load is as fast as calls in flight with 100 clients of 100 equal pods', async () => {
  const scenario = { servers: 100, clients: 100, callsPerSecond: 36_000, serviceTime: exponential(10) };
  const ours = await play(standard, 1, scenario, 2_000);
  const theirs = await play(twoChoices, 1, scenario, 2_000);
  expect(ours.quantileMs(0.99)).toBeLessThanOrEqual(1.05 * theirs.quantileMs(0.99));
});

it('the default load is much faster than calls in flight where many clients share machines of different speed', async () => {
  // Each client calls each server once in four seconds, so that the first calls take half a minute.
  const scenario = { ...prequalTestbed, callsPerSecond: prequalTestbed.callsPerSecond(0.9), warmUpMs: 30_000 };
  const ours = await play(standard, 1, scenario, LENGTH_MS / 2);
  const theirs = await play(twoChoices, 1, scenario, LENGTH_MS / 2);
  expect(ours.quantileMs(0.99)).toBeLessThanOrEqual(0.6 * theirs.quantileMs(0.99));
  expect(ours.meanMs).toBeLessThanOrEqual(0.6 * theirs.meanMs);
});
