import { describe, expect, it } from 'vitest';
import { IndexHeap } from '../../../src/picker/index-heap.js';
import { drawIndex } from '../../../src/runtime/rng.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';

describe('a heap of indexes', () => {
  it('has the smallest key on top, whatever changes', () => {
    const rng = seededRng(1);
    for (const size of [1, 2, 3, 7, 64, 1_000]) {
      const keys = Float64Array.from({ length: size }, () => Math.floor(rng.next() * 50));
      const heap = new IndexHeap(keys);
      for (let change = 0; change < 2_000; change++) {
        expect(keys[heap.top]).toBe(Math.min(...keys));
        const index = change % 2 === 0 ? heap.top : drawIndex(rng, size);
        keys[index] = Math.floor(rng.next() * 50);
        heap.update(index);
      }
    }
  });
});
