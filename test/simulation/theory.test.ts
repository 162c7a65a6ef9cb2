import { describe, expect, it } from 'vitest';
import { p2c } from '../../src/picker/p2c.js';
import { random } from '../../src/picker/random.js';
import { roundRobin } from '../../src/picker/round-robin.js';
import { PROOF, SEEDS } from './lib/proof.js';
import { exponential } from './lib/server.js';
import { World, type WorldOptions } from './lib/world.js';

/** Proofs run as many more calls. */
const LONG = PROOF ? 8 : 1;
/**
 * How far the simulation may be from the theory. Standard errors of the mean are at most a fourth of it: of M/M/1 at ρ = 0.7, whose relative
 * variance per call is ρ (2 + 5ρ − 4ρ² + ρ³) / (1 − ρ)² = 30, sqrt(30 / 300,000) = 1 %; the others queue less, and vary less.
 */
const WITHIN = 0.04;

/** Single workers, exponential service of mean 1 ms: the textbook. `load` per server. */
async function textbook(
  options: Pick<WorldOptions, 'strategy' | 'servers' | 'seed'>,
  load: number,
  calls: number,
  look?: (world: World) => void,
): Promise<number> {
  const world = new World({
    ...options,
    callsPerSecond: 1_000 * load * options.servers,
    serviceTime: exponential(1),
    workers: 1,
  });
  await world.start(500);
  const lengthMs = calls / (load * options.servers);
  if (look !== undefined) {
    for (let atMs = 1; atMs < lengthMs; atMs += 2) world.clock.at(world.clock.now() + atMs, () => look(world));
  }
  const tally = await world.run(lengthMs);
  await world.close();
  return tally.meanMs;
}

describe('the simulator agrees with queueing theory', () => {
  it.each(SEEDS)('random over independent servers is M/M/1: mean 1 / (1 − ρ) (seed %i)', async (seed) => {
    const mean = await textbook(
      { strategy: { name: 'random', picker: random() }, servers: 100, seed },
      0.7,
      300_000 * LONG,
    );
    expect(mean / (1 / 0.3)).toBeGreaterThan(1 - WITHIN);
    expect(mean / (1 / 0.3)).toBeLessThan(1 + WITHIN);
  });

  it.each(SEEDS)('p2c is the supermarket model: 2.67 at load 0.9 and 100 servers (seed %i)', async (seed) => {
    const mean = await textbook(
      { strategy: { name: 'p2c', picker: p2c({ choices: 2 }) }, servers: 100, seed },
      0.9,
      150_000 * LONG,
    );
    // Mitzenmacher 2001, table 1: 2.6141 in the limit; simulated there for 100 servers: 2.67.
    expect(mean / 2.67).toBeGreaterThan(1 - WITHIN);
    expect(mean / 2.67).toBeLessThan(1 + WITHIN);
  });

  it.each(SEEDS)('p2c: the share of servers with at least i calls is ρ^(2^i − 1) (seed %i)', async (seed) => {
    // The law is that of infinitely many servers, so long queues need many of them: four calls only in the proof.
    const servers = PROOF ? 2_000 : 300;
    const longer = new Float64Array(6);
    let seen = 0;
    const strategy = { name: 'p2c', picker: p2c({ choices: 2 }) };
    await textbook({ strategy, servers, seed }, 0.9, PROOF ? 2_700_000 : 150_000, (world) => {
      for (const { present } of world.servers) {
        for (let length = 0; length <= Math.min(present, 5); length++) longer[length] = (longer[length] as number) + 1;
      }
      seen += world.servers.length;
    });
    for (const length of PROOF ? [1, 2, 3, 4] : [1, 2, 3]) {
      const share = (longer[length] as number) / seen;
      const expected = 0.9 ** (2 ** length - 1);
      expect(share / expected, `at least ${length}`).toBeGreaterThan(1 - WITHIN);
      expect(share / expected, `at least ${length}`).toBeLessThan(1 + WITHIN);
    }
  });

  it.each(SEEDS)('round robin with one client is E_N/M/1 (seed %i)', async (seed) => {
    const servers = 10;
    const load = 0.8;
    // Every N-th arrival of a Poisson stream: Erlang-N times between arrivals at each server.
    let sigma = 0.5;
    for (let round = 0; round < 1_000; round++) {
      const rate = load * servers;
      sigma = (rate / (rate + 1 - sigma)) ** servers;
    }
    const strategy = { name: 'roundRobin', picker: roundRobin() };
    const mean = await textbook({ strategy, servers, seed }, load, 200_000 * LONG);
    expect(mean / (1 / (1 - sigma))).toBeGreaterThan(1 - WITHIN);
    expect(mean / (1 / (1 - sigma))).toBeLessThan(1 + WITHIN);
  });
});
