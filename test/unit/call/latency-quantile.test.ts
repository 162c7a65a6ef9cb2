import { describe, expect, it } from 'vitest';
import { LatencyQuantile } from '../../../src/call/latency-quantile.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';
import { bytesPerCall } from '../../support/allocation.js';

describe('the latency quantile', () => {
  it('is 0 without samples', () => {
    expect(new LatencyQuantile().quantile(0.99)).toBe(0);
  });

  it('is never below the true one and at most a bucket above it, over six orders of magnitude', () => {
    const rng = seededRng(1);
    const latency = new LatencyQuantile();
    const samples = Array.from({ length: 10_000 }, () => 10 ** (rng.next() * 5 - 0.3));
    for (const sample of samples) latency.add(sample);
    samples.sort((a, b) => a - b);
    for (const share of [0.5, 0.9, 0.99, 0.999]) {
      const exact = samples[Math.ceil(share * samples.length) - 1] as number;
      // Eighths of a millisecond, then quarters of a doubling.
      expect(latency.quantile(share)).toBeGreaterThanOrEqual(exact - 1 / 8);
      expect(latency.quantile(share)).toBeLessThanOrEqual(exact * 1.25 + 2 / 8);
    }
  });

  it('forgets old latencies', () => {
    const latency = new LatencyQuantile();
    for (let i = 0; i < 16_000; i++) latency.add(1_000);
    for (let i = 0; i < 200_000; i++) latency.add(1);
    expect(latency.quantile(0.99)).toBeLessThan(2);
  });

  it.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY, 1e12])('accepts %d without harm', (value) => {
    const latency = new LatencyQuantile();
    latency.add(value);
    expect(latency.quantile(1)).toBeGreaterThanOrEqual(0);
    latency.add(5);
    expect(Number.isFinite(latency.quantile(0.99))).toBe(true);
  });

  it('allocates nothing', () => {
    const latency = new LatencyQuantile();
    expect(bytesPerCall(() => latency.add(12.5), 0.9)).toBeLessThan(1);
  });
});
