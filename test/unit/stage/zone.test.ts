import { describe, expect, it } from 'vitest';
import { outcomes } from '../../../src/endpoint/outcome.js';
import { outlierEjection } from '../../../src/stage/outlier-ejection.js';
import { panic } from '../../../src/stage/panic.js';
import { zone } from '../../../src/stage/zone.js';
import { addresses, StageFixture } from '../../support/fixtures/stage-fixture.js';

/** Endpoints per zone, `a` first; settled. */
function zones(counts: Record<string, number>, maxLoadRatio?: number): StageFixture {
  const pods = new StageFixture([
    outlierEjection(),
    zone({ zone: 'a', ...(maxLoadRatio !== undefined && { maxLoadRatio }) }),
    panic(),
  ]);
  const names = Object.entries(counts).flatMap(([name, count]) => Array<string>(count).fill(name));
  pods.set(addresses(names.length).map((address, index) => ({ address, zone: names[index] })));
  pods.clock.advance(100);
  return pods;
}

/** Which share of the calls stays in zone `a`. */
function staying(pods: StageFixture): number {
  let own = 0;
  let all = 0;
  for (const { endpoint, weight } of pods.result.entries) {
    all += weight;
    if (endpoint.zone === 'a') own += weight;
  }
  return own / all;
}

describe('zone', () => {
  it('keeps all calls in a zone that has its share of endpoints', () => {
    const pods = zones({ a: 3, b: 3, c: 3 });
    expect(staying(pods)).toBe(1);
    expect(pods.result.size).toBe(9);
  });

  it('keeps all calls at up to one and a half times the mean load', () => {
    expect(staying(zones({ a: 2, b: 4 }))).toBe(1); // 6 / (2 × 2) = 1.5
    expect(staying(zones({ a: 2, b: 5 }))).toBeLessThan(1);
  });

  it('sends calls beyond that to other zones', () => {
    // 10 endpoints, 2 zones, 1 here: keeping all would be 5 times the mean load, so 1.5 / 5 stay.
    const pods = zones({ a: 1, b: 9 });
    expect(staying(pods)).toBeCloseTo(0.3, 9);
    const others = pods.result.entries.slice(1).map(({ weight }) => weight);
    expect(new Set(others).size).toBe(1);
  });

  it('uses all endpoints alike where the zone has none, or all', () => {
    expect(zones({ b: 3, c: 3 }).usable).toHaveLength(6);
    expect(zones({ a: 3 }).usable).toHaveLength(3);
  });

  it('sends calls to other zones when endpoints in the zone lose their connection, and stops when they are back', () => {
    const pods = zones({ a: 3, b: 3 });
    pods.disconnected('10.0.0.1', new Error('gone'));
    pods.disconnected('10.0.0.2', new Error('gone'));
    pods.clock.advance(100);
    // 1 of 4 usable: keeping all would be 2 times the mean load. The two without a connection keep their weight.
    expect(pods.entry('10.0.0.4')?.weight).toBeCloseTo((1 - 0.75) / 0.75 / 3, 9);
    pods.connected('10.0.0.1');
    pods.connected('10.0.0.2');
    pods.clock.advance(100);
    expect(staying(pods)).toBe(1);
  });

  it('sends calls to other zones when endpoints in the zone are ejected', () => {
    const pods = zones({ a: 3, b: 3 });
    pods.completed('10.0.0.1', outcomes.timeout, 5);
    pods.completed('10.0.0.2', outcomes.timeout, 5);
    expect(pods.entry('10.0.0.1')).toMatchObject({ weight: 0 });
    expect(staying(pods)).toBeCloseTo(0.75, 9);
  });

  it('does not count endpoints in the zone that are on probation: each gets one call at a time', () => {
    const pods = zones({ a: 3, b: 3 });
    pods.completed('10.0.0.1', outcomes.timeout, 5);
    pods.completed('10.0.0.2', outcomes.timeout, 5);
    pods.clock.advance(1_101);
    expect(pods.entry('10.0.0.1')).toMatchObject({ weight: 1, probation: 1 });
    expect(pods.entry('10.0.0.4')?.weight).toBeCloseTo((1 - 0.75) / 0.75 / 3, 9);
  });

  it('expects calls only from zones that have usable endpoints', () => {
    const pods = zones({ a: 1, b: 3, c: 1 });
    pods.disconnected('10.0.0.5', new Error('gone'));
    pods.clock.advance(100);
    // 1 of 4 in 2 zones: keeping all would be 2 times the mean load; in 3 it would be 1.33 times.
    expect(pods.entry('10.0.0.2')?.weight).toBeCloseTo((1 - 0.75) / 0.75 / 3, 9);
  });

  it('uses the others when no endpoint in the zone is usable', () => {
    const pods = zones({ a: 1, b: 3 });
    pods.disconnected('10.0.0.1', new Error('gone'));
    pods.clock.advance(100);
    expect(pods.usable).toHaveLength(4);
  });

  it('keeps all with maxLoadRatio Infinity', () => {
    expect(staying(zones({ a: 1, b: 9 }, Number.POSITIVE_INFINITY))).toBe(1);
  });
});
