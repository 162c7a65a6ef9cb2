import { describe, expect, it } from 'vitest';
import type { Lease } from '../../../src/call/lease.js';
import { type Outcome, outcomes } from '../../../src/endpoint/outcome.js';
import { isEvenkeelError } from '../../../src/errors.js';
import { adaptive } from '../../../src/limit/adaptive.js';
import { fixed } from '../../../src/limit/fixed.js';
import type { Limit } from '../../../src/limit/limit.js';
import type { FakeConnection } from '../../../src/testing/fake-transport.js';
import { BalancerFixture, failure, stateOf } from '../../support/fixtures/balancer-fixture.js';

async function limited(limit: () => Limit): Promise<BalancerFixture> {
  const fixture = new BalancerFixture({ limit });
  await fixture.publish('10.0.0.1', '10.0.0.2');
  return fixture;
}

const taken = (lease: Lease<FakeConnection> | undefined): Lease<FakeConnection> => {
  if (lease === undefined) throw new Error('nothing was picked');
  return lease;
};

/** A limit of two that writes down what it hears. */
class Heard implements Limit {
  readonly max = 2;
  readonly shedAfterMs = 100;
  readonly told: unknown[] = [];
  answered(latencyMs: number, inFlight: number): void {
    this.told.push(['answered', latencyMs, inFlight]);
  }
  gaveUp(waitedMs: number, inFlight: number): void {
    this.told.push(['gave up', waitedMs, inFlight]);
  }
  overloaded(): void {
    this.told.push(['overloaded']);
  }
}

describe('a limit on running calls', () => {
  it('lets that many calls run, and serves a waiting one when one ends', async () => {
    const { balancer } = await limited(fixed(2));
    const first = taken(balancer.pick());
    taken(balancer.pick());
    expect(balancer.pick()).toBeUndefined();
    const waiting = balancer.acquire();
    expect(await stateOf(waiting)).toBe('pending');
    expect(balancer.snapshot()).toMatchObject({ limit: { max: 2, running: 2 }, waiting: 1 });
    first.end(outcomes.success);
    await waiting;
    expect(balancer.snapshot()).toMatchObject({ limit: { max: 2, running: 2 }, waiting: 0 });
  });

  it('serves a waiting call as soon as the response to another begins', async () => {
    const { balancer } = await limited(fixed(1));
    const stream = taken(balancer.pick());
    const waiting = balancer.acquire();
    expect(await stateOf(waiting)).toBe('pending');
    stream.progressed();
    (await waiting).end(outcomes.success);
  });

  it('counts a call until the first byte of its response, once', async () => {
    const { balancer } = await limited(fixed(1));
    const stream = taken(balancer.pick());
    stream.progressed();
    stream.progressed();
    expect(balancer.snapshot().limit).toMatchObject({ running: 0 });
    const next = taken(balancer.pick());
    stream.end(outcomes.success);
    expect(balancer.snapshot().limit).toMatchObject({ running: 1 });
    next.end(outcomes.success);
    next.progressed();
    expect(balancer.snapshot().limit).toMatchObject({ running: 0 });
  });

  it('does not count or shed calls outside it', async () => {
    const { balancer, clock } = await limited(fixed(1));
    const running = taken(balancer.pick());
    expect(balancer.pick()).toBeUndefined();
    const lent = taken(balancer.pick({ unlimited: true }));
    const alsoLent = await balancer.acquire({ unlimited: true });
    expect(balancer.snapshot().limit).toMatchObject({ running: 1 });
    lent.end(outcomes.success, null);
    alsoLent.end(outcomes.cancelled, null);
    expect(balancer.snapshot().limit).toMatchObject({ running: 1 });
    // Both wait, each for something else.
    const full = balancer.acquire();
    const leases: Lease<FakeConnection>[] = [];
    for (let lease = balancer.pick({ unlimited: true }); lease && leases.length < 500; ) {
      leases.push(lease);
      lease = balancer.pick({ unlimited: true });
    }
    clock.advance(1_000);
    void balancer.acquire().catch(() => {});
    expect(await failure(full)).toSatisfy((error) => isEvenkeelError(error, 'EVENKEEL_OVERLOAD'));
    running.end(outcomes.success);
    for (const lease of leases) lease.end(outcomes.success, null);
    expect(balancer.snapshot().limit).toMatchObject({ running: 1 });
  });

  it('reports to the limit how long calls took, which were given up, and which were overload', async () => {
    const heard = new Heard();
    const { balancer, clock } = await limited(() => heard);
    const call = async (ms: number, outcome: Outcome, latencyMs?: number | null): Promise<void> => {
      const lease = taken(balancer.pick());
      clock.advance(ms);
      lease.end(outcome, latencyMs);
    };
    await call(10, outcomes.success);
    await call(20, outcomes.success, 5);
    await call(30, outcomes.cancelled);
    await call(40, outcomes.timeout);
    await call(50, outcomes.overload);
    // These say nothing about how busy endpoints are.
    await call(60, outcomes.success, null);
    await call(70, outcomes.notStarted);
    await call(80, outcomes.reset);
    expect(heard.told).toEqual([
      ['answered', 10, 1],
      ['answered', 5, 1],
      ['gave up', 30, 1],
      ['gave up', 40, 1],
      ['overloaded'],
    ]);
  });

  it('continues when the limit throws', async () => {
    const broken: Limit = {
      max: 1,
      shedAfterMs: 100,
      answered: () => {
        throw new Error('broken');
      },
      gaveUp: () => {},
      overloaded: () => {},
    };
    const fixture = await limited(() => broken);
    for (let calls = 0; calls < 3; calls++) taken(fixture.balancer.pick()).end(outcomes.success);
    expect(fixture.warnings).toEqual(['a limit threw']);
  });

  it('sheds with its own code, and counts what it sheds', async () => {
    const { balancer, clock } = await limited(fixed(1));
    const running = taken(balancer.pick());
    const old = failure(balancer.acquire());
    clock.advance(100);
    const late = balancer.acquire();
    expect(await old).toSatisfy((error) => isEvenkeelError(error, 'EVENKEEL_OVERLOAD'));
    expect(balancer.snapshot().counts).toMatchObject({ refused: 1, shed: 1 });
    running.end(outcomes.success);
    await late;
  });

  it('runs critical calls first', async () => {
    const { balancer } = await limited(fixed(1));
    const running = taken(balancer.pick());
    const order: string[] = [];
    const calls = (['sheddable', 'default', 'critical'] as const).map((priority) =>
      balancer.run(() => order.push(priority), { priority }),
    );
    running.end(outcomes.success);
    await Promise.all(calls);
    expect(order).toEqual(['critical', 'default', 'sheddable']);
  });

  it.each([adaptive, fixed, 5, () => ({}), () => 3, null])('refuses %o', (limit) => {
    expect(() => new BalancerFixture({ limit: limit as never })).toThrow(
      expect.toSatisfy((error) => isEvenkeelError(error, 'EVENKEEL_OPTION')),
    );
  });

  it.each([0, -1, 1.5, Number.NaN, '3', undefined])('fixed(%o) is refused', (max) => {
    expect(() => fixed(max as never)).toThrow(expect.toSatisfy((error) => isEvenkeelError(error, 'EVENKEEL_OPTION')));
  });

  it('refuses an unknown priority', async () => {
    const { balancer } = await limited(fixed(1));
    const wrong = { priority: 'urgent' as never };
    for (const call of [balancer.acquire(wrong), balancer.run(() => {}, wrong)]) {
      expect(await failure(call)).toSatisfy((error) => isEvenkeelError(error, 'EVENKEEL_OPTION'));
    }
  });
});
