import { describe, expect, it } from 'vitest';
import { type Outcome, outcomes } from '../../../src/endpoint/outcome.js';
import { type SlowStartOptions, slowStart } from '../../../src/stage/slow-start.js';
import { addresses, StageFixture } from '../../support/fixtures/stage-fixture.js';

const [a, b, c] = addresses(3) as [string, string, string];

/** Two endpoints since the start, and a third that has just come. */
function withNewcomer(options: SlowStartOptions = {}): StageFixture {
  const pods = new StageFixture([slowStart(options)]);
  pods.set([a, b]);
  pods.clock.advance(60_000);
  pods.set([a, b, c]);
  return pods;
}

const weight = (pods: StageFixture, address: string): number => Number(pods.entry(address)?.weight.toFixed(3));

describe('slow start', () => {
  it('treats the first set as warm', () => {
    const pods = new StageFixture([slowStart()]);
    pods.set([a, b]);
    expect([weight(pods, a), weight(pods, b)]).toEqual([1, 1]);
    expect(pods.clock.timers).toBe(0);
  });

  it('treats an endpoint that left for good and returns as new, even from the first set: it may be another pod', () => {
    const pods = withNewcomer();
    pods.clock.advance(60_000);
    pods.set([a]);
    pods.set([a, b, c]);
    expect([weight(pods, a), weight(pods, b), weight(pods, c)]).toEqual([1, 0.1, 0.1]);
  });

  it('gives a newcomer a tenth of its weight, and all of it after 30 s', () => {
    const pods = withNewcomer();
    expect(weight(pods, c)).toBe(0.1);
    pods.clock.advance(15_000);
    expect(weight(pods, c)).toBe(0.5);
    expect(weight(pods, a)).toBe(1);
    pods.clock.advance(15_000);
    expect(weight(pods, c)).toBe(1);
    expect(pods.clock.timers).toBe(0);
  });

  it('advances with calls as well, but not with failed ones', () => {
    const pods = withNewcomer({ calls: 100 });
    pods.completed(c, outcomes.status, 500);
    pods.completed(c, outcomes.success, 50);
    pods.clock.advance(1_500);
    expect(weight(pods, c)).toBe(0.5);
    pods.completed(c, outcomes.success, 50);
    pods.clock.advance(1_500);
    expect(weight(pods, c)).toBe(1);
  });

  it('counts from the first connection, and runs no timer until there is one', () => {
    const pods = new StageFixture([slowStart()]);
    pods.set([a, b]);
    pods.set([a, b, c], false);
    expect(weight(pods, c)).toBe(0.1);
    pods.clock.advance(60_000);
    pods.set([a, b, c], false);
    expect(weight(pods, c)).toBe(0.1);
    expect(pods.clock.timers).toBe(0);
    pods.connected(c);
    pods.clock.advance(15_000);
    expect(weight(pods, c)).toBe(0.5);
    pods.disconnected(c);
    pods.connected(c);
    pods.clock.advance(15_000);
    expect(weight(pods, c)).toBe(1);
  });

  it('is not notified of successes of warm endpoints, so that calls need not pay for that', () => {
    const pods = withNewcomer({ calls: 100 });
    const successes = (count: number): Outcome[] => Array.from({ length: count }, () => outcomes.success);
    expect(pods.completedUnlessIgnored(a, successes(10))).toBe(10);
    expect(pods.completedUnlessIgnored(c, successes(100))).toBe(0);
    pods.clock.advance(1_500);
    expect(weight(pods, c)).toBe(1);
    expect(pods.completedUnlessIgnored(c, successes(10))).toBe(10);
  });

  it('has one timer, however many sets come while an endpoint is new', () => {
    const pods = withNewcomer();
    for (let set = 0; set < 5; set++) pods.set([a, b, c]);
    expect(pods.clock.timers).toBe(1);
  });

  it('reduces no weight when all endpoints are new', () => {
    const pods = new StageFixture([slowStart()]);
    pods.set([a]);
    pods.clock.advance(60_000);
    pods.set([b, c]);
    expect([weight(pods, b), weight(pods, c)]).toEqual([1, 1]);
  });

  it('grows along the curve that aggression sets', () => {
    const quick = withNewcomer({ aggression: 2 });
    quick.clock.advance(7_500);
    expect(weight(quick, c)).toBe(0.5);
    const slow = withNewcomer({ aggression: 0.5 });
    slow.clock.advance(15_000);
    expect(weight(slow, c)).toBe(0.25);
  });

  it('multiplies the weight the endpoint has', () => {
    const pods = new StageFixture([slowStart({ minRatio: 0.2 })]);
    pods.set([a]);
    pods.set([a, { address: b, weight: 5 }]);
    expect(weight(pods, b)).toBe(1);
  });
});
