import { describe, expect, it } from 'vitest';
import { RetryBudget, type RetryBudgetOptions } from '../../../src/retry/budget.js';
import { FakeClock } from '../../../src/testing/fake-clock.js';
import { BalancerFixture } from '../../support/fixtures/balancer-fixture.js';

/** Calls at `perSecond` for `seconds`, each tried up to three times and failing always. Returns calls and retries. */
function outage(
  budget: RetryBudget,
  clock: FakeClock,
  perSecond: number,
  seconds: number,
): { calls: number; retries: number } {
  let retries = 0;
  const calls = perSecond * seconds;
  for (let call = 0; call < calls; call++) {
    clock.advance(1_000 / perSecond);
    budget.deposit();
    for (let extra = 0; extra < 2 && budget.withdraw(); extra++) retries++;
  }
  return { calls, retries };
}

function make(options: RetryBudgetOptions = {}): { clock: FakeClock; budget: RetryBudget } {
  const clock = new FakeClock();
  return { clock, budget: new RetryBudget(options, clock) };
}

function drain(budget: RetryBudget): number {
  let drawn = 0;
  while (budget.withdraw()) drawn++;
  return drawn;
}

describe('the retry budget', () => {
  it.each([1, 20, 100, 1_000])(
    'every endpoint fails from the start at %d calls/s: retries stay within 20 % + 10/s',
    (perSecond) => {
      const { clock, budget } = make();
      const seconds = 60;
      const { calls, retries } = outage(budget, clock, perSecond, seconds);
      // The first second's share is there from the start.
      expect(retries).toBeLessThanOrEqual(0.2 * calls + 10 * seconds + 10);
      // And what is allowed is really there: of little traffic each call may be tried three times.
      expect(retries).toBeGreaterThanOrEqual(Math.min(2 * calls, 0.2 * calls + 10 * seconds - 1));
    },
  );

  it.each([1, 100, 5_000])(
    "after an hour of calm at %d calls/s: the same, plus ten seconds' worth and two of minPerSecond",
    (perSecond) => {
      const { clock, budget } = make();
      for (let second = 0; second < 3_600; second++) {
        clock.advance(1_000);
        for (let call = 0; call < perSecond; call++) budget.deposit();
        if (second % 30 === 0) budget.withdraw();
      }
      const { calls, retries } = outage(budget, clock, perSecond, 60);
      expect(retries).toBeLessThanOrEqual(0.2 * calls + 10 * 60 + (0.2 * perSecond * 11 + 10 * 2 + 0.2 * 128));
    },
  );

  it('a busy client may repeat all calls to a pod that dies: 1,000 in flight of 5,000/s', () => {
    const { clock, budget } = make();
    for (let second = 0; second < 30; second++) {
      clock.advance(1_000);
      for (let call = 0; call < 5_000; call++) budget.deposit();
      budget.withdraw();
    }
    expect(drain(budget)).toBeGreaterThanOrEqual(1_000);
  });

  it('savings fade with the traffic: after ten quiet seconds few are left', () => {
    const { clock, budget } = make();
    for (let second = 0; second < 30; second++) {
      clock.advance(1_000);
      for (let call = 0; call < 5_000; call++) budget.deposit();
      budget.withdraw();
    }
    clock.advance(10_000);
    budget.withdraw();
    clock.advance(10_000);
    expect(drain(budget)).toBeLessThanOrEqual(200);
  });

  it('calm saves only two seconds of minPerSecond, however long it is and whatever came before', () => {
    const { clock, budget } = make();
    clock.advance(86_400_000);
    expect(drain(budget)).toBe(20);
    for (let second = 0; second < 30; second++) {
      clock.advance(1_000);
      for (let call = 0; call < 5_000; call++) budget.deposit();
    }
    clock.advance(20_000);
    // The last 127 calls may not have been timed.
    expect(drain(budget)).toBeLessThanOrEqual(20 + 0.2 * 127);
    // And then no more than the calls that follow, and time, allow.
    for (let call = 0; call < 100; call++) budget.deposit();
    expect(drain(budget)).toBe(20);
  });

  it('traffic counts from its first second on: 100 calls to a pod that dies then', () => {
    const { clock, budget } = make();
    clock.advance(3_600_000);
    for (let second = 0; second < 2; second++) {
      clock.advance(1_000);
      for (let call = 0; call < 300; call++) budget.deposit();
      budget.withdraw();
    }
    expect(drain(budget)).toBeGreaterThanOrEqual(100);
  });

  it('minPerSecond is always allowed, and nothing with 0 and 0', () => {
    const { clock, budget } = make({ ratio: 0, minPerSecond: 2 });
    expect(drain(budget)).toBe(2);
    clock.advance(499);
    expect(budget.withdraw()).toBe(false);
    clock.advance(1);
    expect(budget.withdraw()).toBe(true);
    const none = make({ ratio: 0, minPerSecond: 0 });
    none.budget.deposit();
    none.clock.advance(1e9);
    expect(none.budget.withdraw()).toBe(false);
  });

  it('options are checked', () => {
    for (const bad of [{ ratio: 1.1 }, { ratio: -0.1 }, { minPerSecond: Number.NaN }, { perSecond: 3 }, 'many']) {
      expect(() => make(bad as never), JSON.stringify(bad)).toThrowError(
        expect.objectContaining({ code: 'EVENKEEL_OPTION' }),
      );
    }
  });
});

it('calls of a minute ago save nothing for now, even if nothing was retried meanwhile', async () => {
  const fixture = new BalancerFixture();
  await fixture.publish('10.0.0.1');
  await fixture.addresses(1_280);
  await fixture.clock.advanceAsync(60_000);
  // Two seconds of minPerSecond, and the share of the calls that were not dated then.
  expect(fixture.balancer.snapshot().retryBudget).toBeLessThanOrEqual(20 + 0.2 * 127);
  expect(fixture.balancer.snapshot().counts.calls).toBe(1_280);
});
