import { describe, expect, it } from 'vitest';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { outlierEjection } from '../../../src/stage/outlier-ejection.js';
import { panic } from '../../../src/stage/panic.js';
import { type PushbackOptions, pushback } from '../../../src/stage/pushback.js';
import { stagesOf } from '../../../src/stage/standard-stages.js';
import { BalancerFixture } from '../../support/fixtures/balancer-fixture.js';
import { addresses, StageFixture } from '../../support/fixtures/stage-fixture.js';

const [a, b, c, d] = addresses(4) as [string, string, string, string];
const busy = (retryAfterMs: number): typeof outcomes.overload => ({ ...outcomes.overload, retryAfterMs });

function pods(count: number, options: PushbackOptions = {}): StageFixture {
  const fixture = new StageFixture([pushback(options)]);
  fixture.set(addresses(count));
  return fixture;
}
const weights = (fixture: StageFixture): number[] => fixture.result.entries.map(({ weight }) => weight);

describe('an endpoint that asks for a pause', () => {
  it('gets a tenth of its share until the pause is over, and no longer', () => {
    const fixture = pods(3);
    fixture.completed(b, busy(5_000));
    expect(weights(fixture)).toEqual([1, 0.1, 1]);
    fixture.clock.advance(4_999);
    expect(weights(fixture)).toEqual([1, 0.1, 1]);
    fixture.clock.advance(1);
    expect(weights(fixture)).toEqual([1, 1, 1]);
    expect(fixture.clock.timers).toBe(0);
  });

  it('is believed for a minute at most, and its longest pause counts', () => {
    const fixture = pods(3);
    fixture.completed(b, busy(3_600_000));
    fixture.completed(b, busy(1_000));
    fixture.clock.advance(30_000);
    fixture.set(addresses(3));
    expect(weights(fixture)).toEqual([1, 0.1, 1]);
    fixture.clock.advance(29_999);
    expect(weights(fixture)).toEqual([1, 0.1, 1]);
    fixture.clock.advance(1);
    expect(weights(fixture)).toEqual([1, 1, 1]);
  });

  it('causes few runs of the stages: they run when the first pause begins and when it ends', () => {
    const fixture = pods(3);
    const { runs } = fixture;
    for (let call = 0; call < 1_000; call++) {
      fixture.completed(b, busy(1_000));
      fixture.clock.advance(1);
    }
    expect(fixture.runs - runs).toBeLessThanOrEqual(3);
    fixture.clock.advance(2_000);
    expect(weights(fixture)).toEqual([1, 1, 1]);
    expect(fixture.clock.timers).toBe(0);
  });

  it('gets its full share when more than half ask for a pause', () => {
    const fixture = pods(4);
    for (const address of [a, b]) fixture.completed(address, busy(1_000));
    expect(weights(fixture)).toEqual([0.1, 0.1, 1, 1]);
    fixture.completed(c, busy(3_000));
    expect(weights(fixture)).toEqual([1, 1, 1, 1]);
    fixture.clock.advance(1_000);
    expect(weights(fixture)).toEqual([1, 1, 0.1, 1]);
    for (const address of [a, b, d]) fixture.completed(address, busy(1_000));
    expect(weights(fixture)).toEqual([1, 1, 1, 1]);
  });

  it('gets all calls if it is the only one', () => {
    const fixture = pods(1);
    fixture.completed(a, busy(1_000));
    expect(weights(fixture)).toEqual([1]);
  });

  it('gets its full share after an overload without a pause', () => {
    const fixture = pods(3);
    for (const outcome of [outcomes.overload, busy(0), outcomes.status, outcomes.success])
      fixture.completed(b, outcome);
    expect(weights(fixture)).toEqual([1, 1, 1]);
    expect(fixture.clock.timers).toBe(0);
  });

  it('is not suspect, and does not count towards panic', () => {
    const fixture = new StageFixture([outlierEjection(), pushback(), panic()]);
    fixture.set([a, b, c, d]);
    for (const address of [a, b]) fixture.completed(address, outcomes.reset, 5);
    fixture.completed(c, busy(5_000));
    expect(fixture.usable).toEqual([c, d]);
    expect(fixture.entry(c)?.weight).toBe(0.1);
    expect(fixture.events.filter((event) => event.startsWith('panic'))).toEqual([]);
  });

  it('keeps its weight in proportion to zone and other weights, and a standby stays one', () => {
    const fixture = new StageFixture([
      () => ({ apply: (set) => set.map((entry) => (entry.endpoint.address === a ? { ...entry, weight: 0 } : entry)) }),
      pushback({ ratio: 0.5 }),
    ]);
    fixture.set([{ address: a }, { address: b, weight: 4 }, { address: c, weight: 2 }]);
    for (const address of [a, b]) fixture.completed(address, busy(1_000));
    expect(weights(fixture)).toEqual([0, 2, 2]);
  });

  it('is forgotten when its pod is gone', () => {
    const fixture = pods(3);
    fixture.completed(b, busy(5_000));
    fixture.set([a, c]);
    fixture.set([a, b, c]);
    expect(weights(fixture)).toEqual([1, 1, 1]);
  });

  it('is spared according to options, which are checked', () => {
    for (const bad of [{ ratio: 0 }, { ratio: 2 }, { maxMs: 0 }, { max: 1 }, null]) {
      expect(() => pushback(bad as never)).toThrowError(expect.objectContaining({ code: 'EVENKEEL_OPTION' }));
    }
  });
});

describe('an overloaded endpoint in a balancer with the standard stages', () => {
  it('gets about a twentieth of the calls with the standard stages while the two others have room', async () => {
    const fixture = new BalancerFixture({ stages: stagesOf() });
    await fixture.publish('10.0.0.1', '10.0.0.2', '10.0.0.3');
    let asked = 0;
    await fixture.balancer
      .run(
        ({ endpoint }) => {
          asked = Number(endpoint.address.at(-1));
          throw new Error('busy');
        },
        { classify: () => busy(10_000) },
      )
      .catch(() => {});
    await fixture.clock.advanceAsync(0);
    const got = await fixture.addresses(210);
    const share = got.filter((address) => address === `10.0.0.${asked}`).length;
    expect(share).toBeGreaterThanOrEqual(5);
    expect(share).toBeLessThanOrEqual(15);
    await fixture.clock.advanceAsync(10_000);
    const later = await fixture.addresses(210);
    expect(later.filter((address) => address === `10.0.0.${asked}`)).toHaveLength(70);
  });
});
