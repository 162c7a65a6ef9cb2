import { describe, expect, it } from 'vitest';
import { chance, withoutReports, withReports } from './lib/contenders.js';
import { evenScenarios } from './lib/evenness.js';
import { fleet } from './lib/fleet.js';
import { lognormal } from './lib/server.js';
import type { Tally } from './lib/tally.js';
import { type Strategy, World } from './lib/world.js';

const CLIENTS = 6;
const PODS = 10;
/** A whole turn of the ring of ten pods. */
const TURN_MS = PODS * 331;
const SEED = 1;

/** Six clients of ten pods that are two thirds busy, when they have run for a while. */
async function settled(more: Parameters<typeof fleet>[3] = {}): Promise<{ world: World; before: Tally }> {
  const scenario = { serviceTime: lognormal(20, 1), ...fleet(CLIENTS, PODS, 0.67, more) };
  const world = new World({ ...scenario, seed: SEED, strategy: withoutReports });
  await world.start(15_000);
  return { world, before: await world.run(15_000) };
}

/** Does something every so often, so many times. */
function every(world: World, ms: number, times: number, act: (time: number) => void): void {
  for (let time = 0; time < times; time++) world.clock.at(world.clock.now() + time * ms, () => act(time));
}

/** The 99th percentile of some three thousand calls strays by a tenth. */
const SLOWER = 1.25;
/** Of some 300 calls per pod, the busiest has 1.08 times the mean by chance alone. */
const EVEN = 1.2;

describe('the default picker while a fleet changes', () => {
  it('is as fast and as even as before when ten pods become fifteen, and ten again', async () => {
    const { world, before } = await settled();
    const first = [...world.servers];
    for (let pod = 0; pod < 5; pod++) world.addServer();
    world.list();
    const grown = await world.run(2 * TURN_MS);
    const evenAmongMore = await world.run(3 * TURN_MS);
    world.list(first);
    const shrunk = await world.run(2 * TURN_MS);
    const evenAgain = await world.run(3 * TURN_MS);
    await world.close();
    for (const tally of [grown, shrunk]) {
      expect(tally.quantileMs(0.99)).toBeLessThan(SLOWER * before.quantileMs(0.99));
      expect(tally.failures).toEqual([]);
    }
    expect(evenAmongMore.maxOverMean(15)).toBeLessThan(EVEN);
    expect(evenAgain.maxOverMean(10)).toBeLessThan(EVEN);
  });

  it.each([withoutReports, withReports])(
    'is as fast as chance, and as even, in the rolling update of a service whose new pods are slow until they had calls: $name',
    async (strategy) => {
      const scenario = evenScenarios.find(({ name }) => name === 'rolled-1x5');
      const mean = async (of: Strategy, column: string): Promise<number> => {
        const values = await Promise.all([1, 2, 3, 4, 5, 6].map((seed) => scenario?.run(of, seed)));
        return values.reduce((sum, measures) => sum + (measures?.[column] as number), 0) / values.length;
      };
      expect(await mean(strategy, 'p99')).toBeLessThan(SLOWER * (await mean(chance, 'p99')));
      expect(await mean(strategy, '10 s')).toBeLessThan(EVEN * (await mean(chance, '10 s')));
    },
  );

  it('is as fast and as even as before while a rollout replaces one pod after the other', async () => {
    const { world, before } = await settled();
    const listed = [...world.servers];
    every(world, 1_000, PODS, () => {
      listed.push(world.addServer());
      world.list(listed);
      world.clock.at(world.clock.now() + 500, () => {
        listed.shift();
        world.list(listed);
      });
    });
    const during = await world.run(PODS * 1_000);
    const after = await world.run(3 * TURN_MS);
    await world.close();
    expect(during.quantileMs(0.99)).toBeLessThan(SLOWER * before.quantileMs(0.99));
    expect(during.failures).toEqual([]);
    expect(after.maxOverMean(10)).toBeLessThan(EVEN);
  });

  it('is as fast and as even as before while all clients are replaced', async () => {
    const { world, before } = await settled();
    every(world, 1_000, CLIENTS, (client) => world.replaceClient(client));
    const during = await world.run(CLIENTS * 1_000);
    const after = await world.run(3 * TURN_MS);
    await world.close();
    for (const tally of [during, after]) {
      expect(tally.quantileMs(0.99)).toBeLessThan(SLOWER * before.quantileMs(0.99));
      expect(tally.maxOverMean(10)).toBeLessThan(EVEN);
    }
  });

  it('leaves no pod without a call for two turns, if its share of them is a dozen', async () => {
    const last = new Map<string, number>();
    let gapMs = 0;
    const { world } = await settled({
      callsPerSecond: 20,
      began: (_client, address, nowMs) => {
        if (last.has(address)) gapMs = Math.max(gapMs, nowMs - (last.get(address) as number));
        last.set(address, nowMs);
      },
    });
    await world.run(60_000);
    await world.close();
    expect(last.size).toBe(PODS);
    expect(gapMs).toBeLessThan(2 * TURN_MS);
  });
});
