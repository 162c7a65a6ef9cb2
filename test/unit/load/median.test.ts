import { describe, expect, it } from 'vitest';
import { lowerMedian } from '../../../src/load/median.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';

const sorted = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[(values.length - 1) >> 1] as number;
const found = (values: readonly number[], spare = 0): number =>
  lowerMedian(Float64Array.from([...values, ...new Array<number>(spare).fill(-1)]), values.length);

describe('the median', () => {
  it('is the lower of the two middle values', () => {
    expect([found([3]), found([2, 1]), found([9, 1, 5]), found([4, 3, 2, 1])]).toEqual([3, 1, 5, 2]);
  });

  it('is the same as by sorting, whatever the numbers and their order', () => {
    const rng = seededRng(1);
    for (let round = 0; round < 500; round++) {
      const count = 1 + Math.floor(rng.next() * 60);
      const kinds = 1 + Math.floor(rng.next() * 20);
      const values = Array.from({ length: count }, () => Math.floor(rng.next() * kinds));
      for (const given of [values, [...values].sort((a, b) => a - b), [...values].sort((a, b) => b - a)]) {
        expect(found(given)).toBe(sorted(given));
      }
    }
  });

  it('looks at no more numbers than the given limit', () => {
    expect(found([5, 6, 7], 10)).toBe(6);
  });
});
