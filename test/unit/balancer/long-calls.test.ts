import { describe, expect, it } from 'vitest';
import type { Lease } from '../../../src/call/lease.js';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { inFlight } from '../../../src/load/in-flight.js';
import { shortestExpectedDelay } from '../../../src/picker/least-loaded.js';
import { Placements } from '../../../src/placement/placements.js';
import { resolvePlacingOptions } from '../../../src/placement/placing-options.js';
import { stagesOf } from '../../../src/stage/standard-stages.js';
import { settle } from '../../../src/testing/fake-clock.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';
import { BalancerFixture } from '../../support/fixtures/balancer-fixture.js';

/** Three endpoints with ten calls each, of which the first has just lost all of its own. */
async function afterResets() {
  const fixture = new BalancerFixture({
    picker: shortestExpectedDelay(),
    load: inFlight(),
    stages: stagesOf(),
  });
  const { balancer, clock } = fixture;
  await fixture.publish('10.0.0.1', '10.0.0.2', '10.0.0.3');
  const pick = (): Lease<unknown> => balancer.pick() as Lease<unknown>;
  const running = Array.from({ length: 30 }, pick);
  for (const lease of running) if (lease.endpoint.address === '10.0.0.1') lease.end(outcomes.reset);
  await settle();
  const pass = async (ms: number): Promise<void> => {
    for (let left = ms; left > 0; left -= 100) {
      clock.advance(100);
      await settle();
    }
  };
  const first = () => balancer.snapshot().endpoints.find(({ address }) => address.startsWith('10.0.0.1:'));
  expect(first()).toMatchObject({ suspect: true, inFlight: 0 });
  // Its ejection is over.
  await pass(1_200);
  return { fixture, pick, pass, first };
}

describe('a call that lasts for hours', () => {
  it('restores an endpoint on probation as soon as it produces something', async () => {
    const { pick, pass, first } = await afterResets();
    const trial = pick();
    expect(trial.endpoint.address).toBe('10.0.0.1');
    expect(pick().endpoint.address).not.toBe('10.0.0.1');
    trial.confirm();
    await pass(100);
    for (let more = 0; more < 9; more++) pick();
    expect(first()).toMatchObject({ inFlight: 10, capacity: -1 });
  });

  it('counts when it ends, too, and not after that', async () => {
    const { pick, pass, first } = await afterResets();
    const trial = pick();
    trial.end(outcomes.reset);
    trial.confirm();
    await pass(100);
    expect(first()).toMatchObject({ suspect: true });
  });
});

describe('rebalancing', () => {
  it('asks no connection to move to an endpoint on probation that has its trial call', async () => {
    const { fixture, pick, pass, first } = await afterResets();
    const { balancer, clock } = fixture;
    const options = resolvePlacingOptions({ rebalance: { ratioPerMinute: 10, maxToMean: 1 } }, 30_000);
    const placements = new Placements({ balancer, clock, rng: seededRng(3), options });
    const finished: string[] = [];
    for (let made = 0; made < 12; made++) {
      const lease = pick();
      const { address } = lease.endpoint;
      placements.hold(lease, { leave: () => false, finish: () => void finished.push(address), cut: () => {} });
    }
    expect(first()).toMatchObject({ inFlight: 1, capacity: 1 });
    await pass(8_000);
    expect(finished).toEqual([]);
  });
});
