import { expect, it } from 'vitest';
import { roundRobin } from '../../../src/picker/round-robin.js';
import { BalancerFixture } from '../../support/fixtures/balancer-fixture.js';

/** Calls per address of `count` calls, each ended at once. */
async function calls(fixture: BalancerFixture, count: number): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  for (const address of await fixture.addresses(count)) found[address] = (found[address] ?? 0) + 1;
  return found;
}

it('a picker gets the weights that endpoints came with, those a stage changed, and no endpoint of weight 0', async () => {
  const factors: Record<string, number> = { far: 0.5, off: 0 };
  const fixture = new BalancerFixture({
    picker: roundRobin(),
    stages: [
      () => ({
        apply: (set) =>
          set.map((entry) => ({ ...entry, weight: entry.weight * (factors[entry.endpoint.zone ?? ''] ?? 1) })),
      }),
    ],
  });
  await fixture.publish(
    { address: '10.0.0.1', port: 80, weight: 1 },
    { address: '10.0.0.2', port: 80, weight: 3 },
    { address: '10.0.0.3', port: 80, weight: 4, zone: 'far' },
    { address: '10.0.0.4', port: 80, weight: 5, zone: 'off' },
  );
  expect(await calls(fixture, 600)).toEqual({
    '10.0.0.1': expect.closeTo(100, -1),
    '10.0.0.2': expect.closeTo(300, -1),
    '10.0.0.3': expect.closeTo(200, -1),
  });
  await fixture.balancer.close();
});
