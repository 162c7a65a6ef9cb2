import { describe, expect, test } from 'vitest';
import { systemRng } from '../../../src/runtime/random32.js';
import { drawIndex, jittered } from '../../../src/runtime/rng.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';

describe.each([
  ['systemRng', systemRng],
  ['seededRng', seededRng(1)],
])('%s', (_name, rng) => {
  const DRAWS = 100_000;
  const CELLS = 100;

  test('draws from [0, 1), evenly', () => {
    const counts = new Array<number>(CELLS).fill(0);
    for (let draw = 0; draw < DRAWS; draw++) {
      const value = rng.next();
      if (!(value >= 0 && value < 1)) throw new Error(`${value} is outside [0, 1)`);
      const cell = Math.floor(value * CELLS);
      counts[cell] = (counts[cell] as number) + 1;
    }
    // Chi-square with 99 degrees of freedom: mean 99, standard deviation 14; 190 is passed once in 10^7 runs.
    const expected = DRAWS / CELLS;
    const chiSquare = counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
    expect(chiSquare).toBeLessThan(190);
  });

  test('gives independent numbers: one says nothing about the next', () => {
    let product = 0;
    let before = rng.next() - 0.5;
    for (let draw = 0; draw < DRAWS; draw++) {
      const value = rng.next() - 0.5;
      product += before * value;
      before = value;
    }
    // Correlation of independent draws has a standard deviation of 1 / sqrt(DRAWS) = 0.0032; six of them.
    expect(Math.abs((12 * product) / DRAWS)).toBeLessThan(0.019);
  });
});

test('seededRng repeats itself for one seed and differs for another', () => {
  const first = seededRng(7);
  const again = seededRng(7);
  const other = seededRng(8);
  const values = Array.from({ length: 10 }, () => first.next());
  expect(Array.from({ length: 10 }, () => again.next())).toEqual(values);
  expect(Array.from({ length: 10 }, () => other.next())).not.toEqual(values);
});

test('drawIndex and jittered stay within their bounds for the smallest and largest random number', () => {
  const lowest = { next: () => 0 };
  const highest = { next: () => 1 - 2 ** -32 };
  expect(drawIndex(lowest, 3)).toBe(0);
  expect(drawIndex(highest, 3)).toBe(2);
  expect(jittered(lowest, 100, 0.2)).toBeCloseTo(80);
  expect(jittered(highest, 100, 0.2)).toBeCloseTo(120);
});
