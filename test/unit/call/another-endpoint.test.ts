import { describe, expect, it } from 'vitest';
import { settle } from '../../../src/testing/fake-clock.js';
import { BalancerFixture, failure } from '../../support/fixtures/balancer-fixture.js';

/** Two endpoints that take one call each. */
async function two() {
  const fixture = new BalancerFixture();
  fixture.transport.capacity = 1;
  await fixture.publish('10.0.0.1', '10.0.0.2');
  const { balancer } = fixture;
  const dying = await balancer.acquire();
  const other = await balancer.acquire();
  expect(other.endpoint.address).not.toBe(dying.endpoint.address);
  return { ...fixture, balancer, fixture, dying, other, avoid: new Set([dying.subchannel]) };
}

describe('a call that failed on an endpoint', () => {
  it('waits for another one that is full, and does not return meanwhile', async () => {
    const { balancer, dying, other, avoid } = await two();
    dying.end({ kind: 'failure', cause: 'reset' });
    const back = balancer.pick({ avoid });
    expect(back?.endpoint.address).toBe(dying.endpoint.address);
    back?.end({ kind: 'not-started' });
    let got: string | undefined;
    const next = balancer.acquire({ avoid }).then((lease) => {
      got = lease.endpoint.address;
    });
    await settle();
    expect(got).toBeUndefined();
    expect(balancer.snapshot().waiting).toBe(1);
    other.end({ kind: 'success' });
    await next;
    expect(got).toBe(other.endpoint.address);
  });

  it('returns when the other one is gone', async () => {
    const { balancer, fixture, dying, avoid, other } = await two();
    dying.end({ kind: 'failure', cause: 'reset' });
    const next = balancer.acquire({ avoid });
    await settle();
    expect(balancer.snapshot().waiting).toBe(1);
    await fixture.publish(dying.endpoint.address);
    expect((await next).endpoint.address).toBe(dying.endpoint.address);
    other.end({ kind: 'success' });
  });

  it('fails when its waiting time is over', async () => {
    const { balancer, fixture, dying, avoid } = await two();
    dying.end({ kind: 'failure', cause: 'reset' });
    const error = failure(balancer.acquire({ avoid, timeoutMs: 1_000 }));
    await settle();
    await fixture.clock.advanceAsync(1_000);
    expect(await error).toMatchObject({ code: 'EVENKEEL_NOT_READY' });
  });
});
