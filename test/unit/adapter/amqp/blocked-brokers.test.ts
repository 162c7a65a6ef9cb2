import { describe, expect, it } from 'vitest';
import { BlockedBrokers } from '../../../../src/adapter/amqp/blocked-brokers.js';
import { stagesOf } from '../../../../src/stage/standard-stages.js';
import { BalancerFixture } from '../../../support/fixtures/balancer-fixture.js';

async function world() {
  const blocked = new BlockedBrokers();
  const fixture = new BalancerFixture({ stages: [blocked.stage, ...stagesOf()] });
  await fixture.publish('10.0.0.1', '10.0.0.2', '10.0.0.3');
  const keys = fixture.balancer.snapshot().endpoints.map(({ key }) => key);
  const used = async (): Promise<string[]> => {
    await fixture.clock.advanceAsync(0);
    return fixture.balancer
      .snapshot()
      .endpoints.filter(({ weight }) => weight > 0)
      .map(({ key }) => key);
  };
  return { blocked, keys: keys as [string, string, string], used, fixture };
}

describe('brokers that block connections', () => {
  it('get no connection until the last one is unblocked', async () => {
    const { blocked, keys, used } = await world();
    const [first, second, third] = keys;
    const one = blocked.watch(second);
    const other = blocked.watch(second);
    one(true);
    other(true);
    expect(await used()).toEqual([first, third]);
    one(false);
    one(false);
    expect(await used()).toEqual([first, third]);
    other(false);
    expect(await used()).toEqual(keys);
  });

  it('are used like the others where most are blocked', async () => {
    const { blocked, keys, used } = await world();
    blocked.watch(keys[0])(true);
    blocked.watch(keys[1])(true);
    expect(await used()).toEqual(keys);
  });

  it('stay marked through new sets, and may still be marked after the balancer was closed', async () => {
    const { blocked, keys, used, fixture } = await world();
    const first = blocked.watch(keys[0]);
    first(true);
    await fixture.publish('10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.4');
    expect(await used()).toHaveLength(3);
    await fixture.balancer.close();
    first(false);
  });
});
