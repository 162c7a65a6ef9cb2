import { FakeClock } from 'evenkeel/testing';
import { describe, expect, it } from 'vitest';
import { LogPositions, ReplicationLag } from '../../../../src/adapter/kit/replication-lag.js';

describe('LogPositions', () => {
  it('counts from when any server first had what a replica has not replayed', () => {
    const positions = new LogPositions(10_000);
    positions.reached(100, 0);
    positions.reached(200, 1_000);
    positions.reached(300, 2_000);
    expect(positions.lagMs(300, 9_000, 5_000)).toBe(0);
    expect(positions.lagMs(250, 9_000, 5_000)).toBe(3_000);
    expect(positions.lagMs(100, 9_000, 5_000)).toBe(4_000);
  });

  it('makes no replica late while nothing is written', () => {
    const positions = new LogPositions(10_000);
    positions.reached(100, 0);
    positions.reached(100, 50_000);
    expect(positions.lagMs(100, 50_000, 50_000)).toBe(0);
  });

  it('uses the age of the last commit until it has watched for long enough', () => {
    const positions = new LogPositions(10_000);
    positions.reached(100, 0);
    expect(positions.lagMs(90, 30_000, 10)).toBe(30_000);
    expect(positions.lagMs(90, undefined, 10)).toBe(10);
    expect(positions.lagMs(90, 5, 10)).toBe(10);
  });

  it('keeps only the positions it needs', () => {
    const positions = new LogPositions(5_000);
    for (let second = 0; second < 5_000; second++) positions.reached(second, second * 1_000);
    expect(positions.lagMs(4_997, undefined, 4_999_000)).toBe(1_000);
    expect(positions.lagMs(0, 60_000, 4_999_000)).toBe(60_000);
  });

  it('stays exact enough when servers are queried very often', () => {
    const positions = new LogPositions(1_000_000);
    for (let ms = 0; ms < 5_000; ms++) positions.reached(ms, ms);
    const lag = positions.lagMs(2_500, undefined, 5_000);
    expect(lag).toBeGreaterThan(2_300);
    expect(lag).toBeLessThan(2_501);
  });

  it('starts again after forget()', () => {
    const positions = new LogPositions(1_000);
    positions.reached(1_000, 0);
    positions.forget();
    positions.reached(500, 1);
    expect(positions.lagMs(500, 1_000, 2)).toBe(0);
  });
});

describe('ReplicationLag', () => {
  const at = (offset: number, history = 'a', silentMs?: number) => ({ history, offset, silentMs });

  it('reports a replica that for too long lacks what another has', () => {
    const clock = new FakeClock();
    const lag = new ReplicationLag(5_000, clock);
    lag.primaryReached(at(100));
    expect(lag.isBehind(at(90))).toBe(false);
    clock.advance(5_001);
    lag.primaryReached(at(200));
    expect(lag.isBehind(at(90))).toBe(true);
    // It has all but what is new.
    expect(lag.isBehind(at(100))).toBe(false);
  });

  it('reports a replica without contact to its primary for long', () => {
    const lag = new ReplicationLag(5_000, new FakeClock());
    lag.primaryReached(at(100));
    expect(lag.isBehind(at(90, 'a', 6_000))).toBe(true);
    expect(lag.isBehind(at(100, 'a', 6_000))).toBe(false);
  });

  it('reports a replica that follows another primary, while ours answers', () => {
    const clock = new FakeClock();
    const lag = new ReplicationLag(5_000, clock);
    lag.primaryReached(at(100, 'a'));
    lag.reached(at(900, 'b'));
    // A promotion reaches the replicas within moments.
    expect(lag.isBehind(at(900, 'b'))).toBe(false);
    clock.advance(5_001);
    expect(lag.isBehind(at(900, 'b'))).toBe(true);
    lag.primaryReached(undefined);
    expect(lag.isBehind(at(900, 'b'))).toBe(false);
  });

  it('compares replicas with each other while the primary does not answer', () => {
    const clock = new FakeClock();
    const lag = new ReplicationLag(5_000, clock);
    lag.reached(at(200));
    clock.advance(5_001);
    expect(lag.isBehind(at(100))).toBe(true);
    expect(lag.isBehind(at(200))).toBe(false);
  });

  it('remembers a limited number of histories', () => {
    const clock = new FakeClock();
    const lag = new ReplicationLag(5_000, clock);
    for (let history = 0; history < 100; history++) lag.reached(at(100, String(history)));
    clock.advance(5_001);
    expect(lag.isBehind(at(50, '99'))).toBe(true);
    expect(lag.isBehind(at(50, '1'))).toBe(false);
  });
});
