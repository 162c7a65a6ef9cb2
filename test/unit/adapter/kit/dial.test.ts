import { expect, it } from 'vitest';
import { ChosenEndpoint, connectThrough, Dial, type DialSettings } from '../../../../src/adapter/kit/dial.js';
import type { Lease } from '../../../../src/call/lease.js';
import { Placements } from '../../../../src/placement/placements.js';
import { resolvePlacingOptions } from '../../../../src/placement/placing-options.js';
import { seededRng } from '../../../../src/testing/seeded-rng.js';
import { BalancerFixture } from '../../../support/fixtures/balancer-fixture.js';

/** A client whose connections are placed on pods, and that is never connected to a network. */
async function client() {
  const fixture = new BalancerFixture({
    transport: { connect: async () => new ChosenEndpoint().connection } as never,
  });
  const { balancer, clock } = fixture;
  const placements = new Placements({ balancer, clock, rng: seededRng(1), options: resolvePlacingOptions({}, 30_000) });
  const settings: DialSettings = { placements, clock, connectTimeoutMs: 2_000, waitTimeoutMs: 5_000 };
  await fixture.publish('10.0.0.1');
  const lease = balancer.pick() as unknown as Lease<ChosenEndpoint>;
  return { fixture, settings, lease };
}

it('does not dial a pod that left between the pick and the dial', async () => {
  const { fixture, settings, lease } = await client();
  await fixture.publish('10.0.0.2');
  const dial = new Dial(lease, settings);
  expect(dial.signal.aborted).toBe(true);
  dial.failed(new Error('aborted'));
  expect(lease.outcome?.kind).toBe('not-started');
});

it('stops dialing a pod that leaves meanwhile', async () => {
  const { fixture, settings, lease } = await client();
  const dial = new Dial(lease, settings);
  expect(dial.signal.aborted).toBe(false);
  await fixture.publish('10.0.0.2');
  expect(String(dial.signal.reason)).toContain('it left while it was connected to');
});

it('a connection that its adapter cannot take over holds no lease, and is told to end', async () => {
  const { fixture, settings, lease } = await client();
  lease.end({ kind: 'not-started' });
  const signals: AbortSignal[] = [];
  const parts = {
    balancer: fixture.balancer as never,
    service: 'orders.shop:80',
    settings,
    opening: {
      open: async ({ signal }: Dial) => signals.push(signal),
      opened: () => {
        throw new TypeError('no such method');
      },
    },
    key: undefined,
    signal: undefined,
  };
  for (let call = 0; call < 3; call++) await expect(connectThrough(parts)).rejects.toThrow('no such method');
  expect(fixture.balancer.snapshot().endpoints[0]).toMatchObject({ inFlight: 0, state: 'ready' });
  expect(signals.map(({ aborted }) => aborted)).toEqual([true, true, true]);
  expect(settings.placements.size).toBe(0);
});

it('names the whole limit when a later wait has used up its rest', async () => {
  let connects = 0;
  const fixture = new BalancerFixture({
    transport: { connect: () => (connects++ === 0 ? new ChosenEndpoint().connection : new Promise(() => {})) } as never,
  });
  const { balancer, clock } = fixture;
  const placements = new Placements({ balancer, clock, rng: seededRng(1), options: resolvePlacingOptions({}, 30_000) });
  await fixture.publish('10.0.0.1');
  const opened = connectThrough({
    balancer: balancer as never,
    service: 'orders.shop:80',
    settings: { placements, clock, connectTimeoutMs: 2_000, waitTimeoutMs: 1_000 },
    opening: {
      open: ({ signal }: Dial) =>
        new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
      opened: () => {
        throw new Error('nothing opens');
      },
    },
    key: undefined,
    signal: undefined,
  });
  const failed = expect(opened).rejects.toThrow('within 1000 ms');
  await clock.advanceAsync(13.09497);
  await fixture.publish('10.0.0.2');
  await clock.advanceAsync(1_000);
  await failed;
});
