import { describe, expect, it } from 'vitest';
import { outcomes } from '../../../src/endpoint/outcome.js';
import type { LoadFactory } from '../../../src/load/load.js';
import { peakEwma } from '../../../src/load/peak-ewma.js';
import { standardStages } from '../../../src/stage/standard-stages.js';
import { BalancerHouse } from '../../support/balancer-house.js';

/** One call of `ms` that succeeds. */
async function call(house: BalancerHouse, ms: number): Promise<void> {
  const lease = house.balancer.pick();
  await house.clock.advanceAsync(ms);
  lease?.end(outcomes.success);
}

describe('what is measured while our own event loop stands still', () => {
  it('teaches no load', async () => {
    const house = new BalancerHouse({ load: peakEwma() });
    await house.publish('10.0.0.1');
    await call(house, 20);
    const before = house.balancer.snapshot().endpoints[0]?.load as number;
    const lease = house.balancer.pick();
    await house.clock.stall(3_000);
    lease?.end(outcomes.success);
    expect(house.balancer.snapshot().endpoints[0]?.load).toBeLessThanOrEqual(before);
    await call(house, 500);
    expect(house.balancer.snapshot().endpoints[0]?.load).toBeGreaterThan(10 * before);
  });

  it('leaves an endpoint without an answer untried: its first call, made in a stall, is no slow answer', async () => {
    const house = new BalancerHouse({ load: peakEwma() });
    await house.publish('10.0.0.1');
    const untried = house.balancer.snapshot().endpoints[0]?.load as number;
    const lease = house.balancer.pick();
    await house.clock.stall(3_000);
    lease?.end(outcomes.success);
    expect(house.balancer.snapshot().endpoints[0]?.load).toBe(untried);
    await call(house, 20);
    expect(house.balancer.snapshot().endpoints[0]?.load).toBeGreaterThan(untried);
  });

  it('ends for a load that was plugged in as well, which may count what is in flight', async () => {
    const heard: string[] = [];
    const counting: LoadFactory = () => ({
      decays: false,
      start: () => heard.push('start'),
      end: (_startedMs, _nowMs, { kind }) => heard.push(kind),
      value: () => 1,
    });
    const house = new BalancerHouse({ load: counting });
    await house.publish('10.0.0.1');
    const lease = house.balancer.pick();
    await house.clock.stall(3_000);
    lease?.end(outcomes.success);
    await call(house, 20);
    expect(heard).toEqual(['start', 'not-started', 'start', 'success']);
  });

  it('teaches nothing either when half of the call was a stall', async () => {
    const house = new BalancerHouse({ load: peakEwma() });
    await house.publish('10.0.0.1');
    await call(house, 20);
    const before = house.balancer.snapshot().endpoints[0]?.load as number;
    const lease = house.balancer.pick();
    await house.clock.stall(3_000);
    await house.clock.advanceAsync(3_000);
    lease?.end(outcomes.success);
    expect(house.balancer.snapshot().endpoints[0]?.load).toBeLessThanOrEqual(before);
  });

  it('does teach when the stall was a small part of the call', async () => {
    const house = new BalancerHouse({ load: peakEwma() });
    await house.publish('10.0.0.1');
    await call(house, 20);
    const before = house.balancer.snapshot().endpoints[0]?.load as number;
    const lease = house.balancer.pick();
    await house.clock.stall(400);
    await house.clock.advanceAsync(10_000);
    lease?.end(outcomes.success);
    expect(house.balancer.snapshot().endpoints[0]?.load).toBeGreaterThan(100 * before);
  });

  it('ejects nobody', async () => {
    const house = new BalancerHouse({ stages: standardStages() });
    await house.publish('10.0.0.1', '10.0.0.2', '10.0.0.3');
    const leases = Array.from({ length: 30 }, () => house.balancer.pick());
    await house.clock.advanceAsync(100);
    await house.clock.stall(5_000);
    for (const lease of leases) lease?.end(outcomes.timeout);
    await house.clock.advanceAsync(0);
    expect(house.balancer.snapshot().endpoints.some(({ suspect }) => suspect)).toBe(false);
  });
});
