import { describe, expect, it } from 'vitest';
import { LogPositions } from '../../../../src/adapter/pg/lag.js';

describe('LogPositions', () => {
  it('counts from when a server first knew what another has not replayed', () => {
    const positions = new LogPositions(10_000);
    positions.reached(100, 0);
    positions.reached(200, 1_000);
    positions.reached(300, 2_000);
    expect(positions.lagMs(300, 9_000, 5_000)).toBe(0);
    expect(positions.lagMs(250, 9_000, 5_000)).toBe(3_000);
    expect(positions.lagMs(100, 9_000, 5_000)).toBe(4_000);
  });

  it('makes nobody late while nothing is written', () => {
    const positions = new LogPositions(10_000);
    positions.reached(100, 0);
    positions.reached(100, 50_000);
    expect(positions.lagMs(100, 50_000, 50_000)).toBe(0);
  });

  it('goes by the age of the last commit while nobody has watched for long enough', () => {
    const positions = new LogPositions(10_000);
    positions.reached(100, 0);
    expect(positions.lagMs(90, 30_000, 10)).toBe(30_000);
    expect(positions.lagMs(90, undefined, 10)).toBe(10);
    expect(positions.lagMs(90, 5, 10)).toBe(10);
  });

  it('keeps what it needs, and no more', () => {
    const positions = new LogPositions(5_000);
    for (let second = 0; second < 5_000; second++) positions.reached(second, second * 1_000);
    expect(positions.lagMs(4_997, undefined, 4_999_000)).toBe(1_000);
    expect(positions.lagMs(0, 60_000, 4_999_000)).toBe(60_000);
  });

  it('stays exact enough when servers are asked very often', () => {
    const positions = new LogPositions(1_000_000);
    for (let ms = 0; ms < 5_000; ms++) positions.reached(ms, ms);
    const lag = positions.lagMs(2_500, undefined, 5_000);
    expect(lag).toBeGreaterThan(2_300);
    expect(lag).toBeLessThan(2_501);
  });

  it('begins anew', () => {
    const positions = new LogPositions(1_000);
    positions.reached(1_000, 0);
    positions.forget();
    positions.reached(500, 1);
    expect(positions.lagMs(500, 1_000, 2)).toBe(0);
  });
});
