import { describe, expect, it } from 'vitest';
import { WeightedDraw } from '../../../src/picker/weighted-draw.js';
import { Random32 } from '../../../src/runtime/random32.js';
import { seededRng } from '../../../src/testing/seeded-rng.js';

/** Counts of `draws` draws out of `size`. */
function count(size: number, draws: number, draw: () => number): number[] {
  const counts = new Array<number>(size).fill(0);
  for (let left = draws; left > 0; left--) {
    const index = draw();
    counts[index] = (counts[index] as number) + 1;
  }
  return counts;
}

/** All counts within five standard deviations of a binomial. */
function expectEven(counts: readonly number[], shares: readonly number[]): void {
  const draws = counts.reduce((sum, each) => sum + each, 0);
  counts.forEach((each, index) => {
    const share = shares[index] as number;
    expect(Math.abs(each - draws * share)).toBeLessThanOrEqual(5 * Math.sqrt(draws * share * (1 - share)) + 1e-9);
  });
}

describe('Random32', () => {
  it.each([1, 2, 3, 10, 1_000])('draws %i indexes evenly', (size) => {
    const random = new Random32(seededRng(3));
    expectEven(
      count(size, 200_000, () => random.index(size)),
      new Array<number>(size).fill(1 / size),
    );
  });

  it('draws another index evenly, and never the excluded one', () => {
    const random = new Random32(seededRng(4));
    const counts = count(5, 100_000, () => random.otherIndex(5, 2));
    expect(counts[2]).toBe(0);
    expectEven(counts, [0.25, 0.25, 0, 0.25, 0.25]);
  });

  it('draws pairs evenly: one draw says nothing about the next', () => {
    const random = new Random32(seededRng(5));
    expectEven(
      count(25, 200_000, () => random.index(5) * 5 + random.index(5)),
      new Array<number>(25).fill(1 / 25),
    );
  });

  it('draws the same again with the same seed', () => {
    const roll = (): number[] => {
      const random = new Random32(seededRng(6));
      return Array.from({ length: 20 }, () => random.index(1_000));
    };
    expect(roll()).toEqual(roll());
  });
});

describe('a weighted draw', () => {
  it.each([[[1]], [[1, 1]], [[1, 2, 3, 4]], [[0.001, 1, 1_000]], [[5, 0.5, 0.5, 0.5, 0.5]]])(
    'has the shares %j',
    (weights) => {
      const total = weights.reduce((sum, weight) => sum + weight, 0);
      const draw = new WeightedDraw(weights);
      const random = new Random32(seededRng(7));
      expectEven(
        count(weights.length, 200_000, () => draw.draw(random)),
        weights.map((weight) => weight / total),
      );
    },
  );
});
