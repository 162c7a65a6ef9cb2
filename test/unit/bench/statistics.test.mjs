import { seededRng } from 'evenkeel/testing';
import { describe, expect, test } from 'vitest';
import { bootstrapMedian, judgeLimit, judgeRatio, median, quantile, shuffled } from '../../bench/lib/statistics.mjs';

const exact = (/** @type {number} */ value) => ({ median: value, low: value, high: value });
const around = (/** @type {number} */ low, /** @type {number} */ high) => ({ median: (low + high) / 2, low, high });
const random = () => {
  const rng = seededRng(7);
  return () => rng.next();
};

describe('median and quantile', () => {
  test('with an odd number of values, an even one, and a single one', () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([4, 1, 3, 2])).toBe(2.5);
    expect(median([9])).toBe(9);
  });

  test('sort as numbers, and leave the input unchanged', () => {
    const values = [10, 9, 100];
    expect(median(values)).toBe(10);
    expect(values).toEqual([10, 9, 100]);
  });

  test('use the nearest rank', () => {
    const values = Array.from({ length: 100 }, (_, i) => i + 1);
    expect(quantile(values, 0.99)).toBe(99);
    expect(quantile(values, 0.5)).toBe(50);
    expect(quantile(values, 0)).toBe(1);
    expect(quantile(values, 1)).toBe(100);
  });

  test('do not exist for an empty list', () => {
    expect(() => median([])).toThrow(RangeError);
    expect(() => quantile([], 0.5)).toThrow(RangeError);
  });
});

describe('bootstrap interval of the median', () => {
  test('of equal values is that value', () => {
    expect(bootstrapMedian(new Array(40).fill(1.5), random())).toEqual(exact(1.5));
  });

  test('is the same for the same random numbers', () => {
    const values = Array.from({ length: 40 }, (_, i) => Math.sin(i));
    expect(bootstrapMedian(values, random())).toEqual(bootstrapMedian(values, random()));
  });

  // Coverage of a percentile interval of the median at n = 40 is near 95 %. Of 300 independent trials the standard
  // deviation is 1.3 %, so 90 % leaves nearly four of them.
  test('holds the true median in about 95 % of trials', () => {
    const draw = random();
    let covered = 0;
    for (let trial = 0; trial < 300; trial++) {
      const values = Array.from({ length: 40 }, () => draw() + draw() + draw());
      const { low, high } = bootstrapMedian(values, draw, 500);
      if (low <= 1.5 && 1.5 <= high) covered++;
    }
    expect(covered / 300).toBeGreaterThan(0.9);
    expect(covered / 300).toBeLessThan(0.995);
  });
});

describe('verdict on a ratio', () => {
  const quiet = around(0.99, 1.01);
  const noisy = around(0.95, 1.02);

  test('a lower limit holds down to 0.02 below the number', () => {
    expect(judgeRatio(around(0.95, 1), { atLeast: 0.97 }, quiet)).toBe('holds');
    expect(judgeRatio(around(0.949, 1), { atLeast: 0.97 }, quiet)).toBe('undecided here');
  });

  test('an upper limit is its mirror image', () => {
    expect(judgeRatio(around(1, 1.07), { atMost: 1.05 }, quiet)).toBe('holds');
    expect(judgeRatio(around(1, 1.071), { atMost: 1.05 }, quiet)).toBe('undecided here');
    expect(judgeRatio(around(1.08, 1.2), { atMost: 1.05 }, quiet)).toBe('falls short');
  });

  test('fails when the whole interval is on the wrong side', () => {
    expect(judgeRatio(around(0.9, 0.95), { atLeast: 0.97 }, quiet)).toBe('falls short');
    expect(judgeRatio(around(0.9, 0.98), { atLeast: 0.97 }, quiet)).toBe('undecided here');
  });

  test('holds on no machine whose A/A strays by more than 0.03', () => {
    expect(judgeRatio(exact(1.1), { atLeast: 0.97 }, noisy)).toBe('undecided here');
    expect(judgeRatio(exact(1), { atLeast: 0.97 }, around(0.971, 1.029))).toBe('holds');
  });

  test('can still fail on a noisy machine if the result is worse by more than the noise', () => {
    expect(judgeRatio(exact(0.93), { atLeast: 0.97 }, noisy)).toBe('undecided here');
    expect(judgeRatio(exact(0.6), { atLeast: 0.97 }, noisy)).toBe('falls short');
  });
});

test('the verdict on a limit depends on the whole interval', () => {
  expect(judgeLimit(around(80, 100), 100)).toBe('holds');
  expect(judgeLimit(around(80, 101), 100)).toBe('undecided here');
  expect(judgeLimit(around(101, 120), 100)).toBe('falls short');
});

test('shuffling keeps every item, and puts each in each place', () => {
  const draw = random();
  const places = [0, 0, 0, 0];
  for (let i = 0; i < 4_000; i++) {
    const order = shuffled(['a', 'b', 'c', 'd'], draw);
    expect([...order].sort()).toEqual(['a', 'b', 'c', 'd']);
    const place = order.indexOf('a');
    places[place] = Number(places[place]) + 1;
  }
  // Expected 1,000 each with a standard deviation of 27; five of them.
  for (const count of places) expect(Math.abs(count - 1_000)).toBeLessThan(137);
});
