import { describe, expect, it } from 'vitest';
import { adaptive } from '../../src/limit/adaptive.js';
import { fixed } from '../../src/limit/fixed.js';
import { PROOF, SEEDS } from './lib/proof.js';
import { exponential } from './lib/server.js';
import { strategies } from './lib/strategies.js';
import { World, type WorldOptions } from './lib/world.js';

/** Four servers of four workers with 20 ms of work: this many calls a second are all they can do. */
const CAPACITY = 800;
/** At full counts a minute; it takes longer than that. */
const STORM_MS = PROOF ? 60_000 : 10_000;
const limited: Pick<WorldOptions, 'limit'> = { limit: adaptive() };

function overloadedWorld(seed: number, options: Partial<WorldOptions>): World {
  return new World({
    seed,
    strategy: strategies.standard,
    servers: 4,
    workers: 4,
    serviceTime: exponential(20),
    callsPerSecond: CAPACITY,
    deadlineMs: 250,
    worksForGone: true,
    ...options,
  });
}

/** The share of calls answered in time at each load, for five seconds each, after ten at 0.7. */
async function answered(seed: number, loads: readonly number[], options: Partial<WorldOptions>): Promise<number[]> {
  const world = overloadedWorld(seed, options);
  world.demand = 0.7;
  await world.start(10_000);
  const shares: number[] = [];
  for (const load of loads) {
    world.demand = load;
    const tally = await world.run(5_000);
    shares.push(tally.successRatio);
  }
  await world.close();
  return shares;
}

describe.each(SEEDS)('an overload that ends (seed %i)', (seed) => {
  it.each([1, 4, 20])('is served to its capacity with %i clients, and has no effect after it ends', async (clients) => {
    const loads = [0.7, 1.4, 0.7, 0.7, 3, 3, 0.7, 0.7];
    const shares = (await answered(seed, loads, { clients, ...limited })) as [number, ...number[]];
    const [before, during, after, later, heavy, heavier, back, well] = shares;
    expect(before).toBeGreaterThanOrEqual(0.98);
    // What one ideal queue would answer: 1 / 1.4. Many clients take a moment each to learn of it.
    expect(during).toBeGreaterThanOrEqual((clients === 20 ? 0.75 : 0.9) / 1.4);
    expect(after).toBeGreaterThanOrEqual(0.97);
    expect(later).toBeGreaterThanOrEqual(0.98);
    expect(heavy).toBeGreaterThanOrEqual(0.85 / 3);
    expect(heavier).toBeGreaterThanOrEqual(0.85 / 3);
    expect(back).toBeGreaterThanOrEqual(0.94);
    expect(well).toBeGreaterThanOrEqual(0.97);
  });

  it('without a limit leaves hardly any answer in time, also for seconds after it', async () => {
    const [, during, after] = await answered(seed, [0.7, 1.4, 0.7], { limit: fixed(100_000) });
    expect(during).toBeLessThanOrEqual(0.3);
    expect(after).toBeLessThanOrEqual(0.3);
  });

  it('leaves critical calls served, whatever else there is', async () => {
    const world = overloadedWorld(seed, {
      ...limited,
      priority: (rng) => {
        const draw = rng.next();
        return draw < 0.4 ? 'sheddable' : draw < 0.8 ? 'default' : 'critical';
      },
    });
    world.demand = 0.7;
    await world.start(10_000);
    world.demand = 1.4;
    await world.run(5_000);
    const [critical, usual, sheddable] = (['critical', 'default', 'sheddable'] as const).map(
      (priority) => world.byPriority.get(priority)?.successRatio ?? 0,
    ) as [number, number, number];
    expect(critical).toBeGreaterThanOrEqual(0.98);
    expect(usual).toBeGreaterThanOrEqual(sheddable);
    await world.close();
  });

  it('is served no worse with a limit in the servers too, and hardly any work is wasted', async () => {
    const world = overloadedWorld(seed, { ...limited, serverLimit: fixed(4) });
    world.demand = 0.7;
    await world.start(10_000);
    const shares: number[] = [];
    for (const load of [0.7, 1.4, 0.7, 0.7]) {
      world.demand = load;
      shares.push((await world.run(5_000)).successRatio);
    }
    const [before, during, after, later] = shares as [number, number, number, number];
    const done = world.servers.reduce((sum, server) => sum + server.done, 0);
    const forNobody = world.servers.reduce((sum, server) => sum + server.doneForNobody, 0);
    await world.close();
    expect(before).toBeGreaterThanOrEqual(0.98);
    expect(during).toBeGreaterThanOrEqual(0.9 / 1.4);
    expect(after).toBeGreaterThanOrEqual(0.97);
    expect(later).toBeGreaterThanOrEqual(0.98);
    expect(forNobody / done).toBeLessThanOrEqual(0.03);
  });

  it('that stays below capacity sheds no call', async () => {
    for (const share of await answered(seed, [0.3, 0.6, 0.8], limited)) expect(share).toBeGreaterThanOrEqual(0.999);
  });
});

describe('an overload with callers that retry', () => {
  it.each([['in the client', {}] as const, ...(PROOF ? [['at both ends', { serverLimit: fixed(4) }] as const] : [])])(
    '1,000 callers that retry at once, three times the load: with a limit %s calls succeed again 5 s later',
    async (_where, more) => {
      const world = overloadedWorld(1, { ...limited, ...more, callers: { count: 1_000, tries: 4 } });
      world.demand = 0.7;
      await world.start(10_000);
      world.demand = 3;
      await world.run(STORM_MS);
      const [limit] = world.limits;
      world.demand = 0.7;
      await world.run(5_000);
      // 2,800 calls: a standard error of 0.2 % at 99 %.
      const { successRatio } = await world.run(5_000);
      await world.close();
      expect(successRatio).toBeGreaterThanOrEqual(0.99);
      // It does not drift, no matter how long that lasts.
      expect(limit).toBeLessThanOrEqual(5 * 16);
    },
  );
});
