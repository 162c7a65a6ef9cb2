import { describe, expect, it } from 'vitest';
import { Cells } from '../../../src/load/cells.js';

describe('cells', () => {
  it('do not overlap across any number of arrays, and start at 0', () => {
    const cells = new Cells(3);
    const taken = Array.from({ length: 200 }, () => cells.take());
    for (const [index, { numbers, at }] of taken.entries()) {
      expect([...numbers.subarray(at, at + 3)]).toEqual([0, 0, 0]);
      numbers.fill(index + 1, at, at + 3);
    }
    for (const [index, { numbers, at }] of taken.entries()) {
      expect([...numbers.subarray(at, at + 3)]).toEqual([index + 1, index + 1, index + 1]);
    }
  });
});
