import { describe, expect, it } from 'vitest';
import { outcomes } from '../../../src/endpoint/outcome.js';
import type { LoadFactory } from '../../../src/load/load.js';
import { peakEwma } from '../../../src/load/peak-ewma.js';
import { stagesOf } from '../../../src/stage/standard-stages.js';
import { BalancerFixture } from '../../support/fixtures/balancer-fixture.js';

/** One call of `ms` that succeeds. */
async function call(fixture: BalancerFixture, ms: number): Promise<void> {
  const lease = fixture.balancer.pick();
  await fixture.clock.advanceAsync(ms);
  lease?.end(outcomes.success);
}

describe('a call measured while our own event loop was blocked', () => {
  it('teaches a load nothing', async () => {
    const fixture = new BalancerFixture({ load: peakEwma() });
    await fixture.publish('10.0.0.1');
    await call(fixture, 20);
    const before = fixture.balancer.snapshot().endpoints[0]?.load as number;
    const lease = fixture.balancer.pick();
    await fixture.clock.stall(3_000);
    lease?.end(outcomes.success);
    expect(fixture.balancer.snapshot().endpoints[0]?.load).toBeLessThanOrEqual(before);
    await call(fixture, 500);
    expect(fixture.balancer.snapshot().endpoints[0]?.load).toBeGreaterThan(10 * before);
  });

  it('leaves an endpoint without an answer untried: its first call is not a slow answer', async () => {
    const fixture = new BalancerFixture({ load: peakEwma() });
    await fixture.publish('10.0.0.1');
    const untried = fixture.balancer.snapshot().endpoints[0]?.load as number;
    const lease = fixture.balancer.pick();
    await fixture.clock.stall(3_000);
    lease?.end(outcomes.success);
    expect(fixture.balancer.snapshot().endpoints[0]?.load).toBe(untried);
    await call(fixture, 20);
    expect(fixture.balancer.snapshot().endpoints[0]?.load).toBeGreaterThan(untried);
  });

  it('ends for a load that was plugged in as well, which may count calls in flight', async () => {
    const heard: string[] = [];
    const counting: LoadFactory = () => ({
      decays: false,
      start: () => heard.push('start'),
      end: (_startedMs, _nowMs, { kind }) => heard.push(kind),
      value: () => 1,
    });
    const fixture = new BalancerFixture({ load: counting });
    await fixture.publish('10.0.0.1');
    const lease = fixture.balancer.pick();
    await fixture.clock.stall(3_000);
    lease?.end(outcomes.success);
    await call(fixture, 20);
    expect(heard).toEqual(['start', 'not-started', 'start', 'success']);
  });

  it('teaches nothing either if half of it was the block', async () => {
    const fixture = new BalancerFixture({ load: peakEwma() });
    await fixture.publish('10.0.0.1');
    await call(fixture, 20);
    const before = fixture.balancer.snapshot().endpoints[0]?.load as number;
    const lease = fixture.balancer.pick();
    await fixture.clock.stall(3_000);
    await fixture.clock.advanceAsync(3_000);
    lease?.end(outcomes.success);
    expect(fixture.balancer.snapshot().endpoints[0]?.load).toBeLessThanOrEqual(before);
  });

  it('does teach if the block was a small part of it', async () => {
    const fixture = new BalancerFixture({ load: peakEwma() });
    await fixture.publish('10.0.0.1');
    await call(fixture, 20);
    const before = fixture.balancer.snapshot().endpoints[0]?.load as number;
    const lease = fixture.balancer.pick();
    await fixture.clock.stall(400);
    await fixture.clock.advanceAsync(10_000);
    lease?.end(outcomes.success);
    expect(fixture.balancer.snapshot().endpoints[0]?.load).toBeGreaterThan(100 * before);
  });

  it('ejects no endpoint', async () => {
    const fixture = new BalancerFixture({ stages: stagesOf() });
    await fixture.publish('10.0.0.1', '10.0.0.2', '10.0.0.3');
    const leases = Array.from({ length: 30 }, () => fixture.balancer.pick());
    await fixture.clock.advanceAsync(100);
    await fixture.clock.stall(5_000);
    for (const lease of leases) lease?.end(outcomes.timeout);
    await fixture.clock.advanceAsync(0);
    expect(fixture.balancer.snapshot().endpoints.some(({ suspect }) => suspect)).toBe(false);
  });
});
