import type { Random32 } from '../runtime/random32.js';

/**
 * Draws an index with a probability proportional to its weight, in O(1): first a column, then one of the two indexes that share this
 * column.
 * Source: Vose, A Linear Algorithm for Generating Random Numbers with a Given Distribution, IEEE TSE 17(9), 1991.
 */
export class WeightedDraw {
  /** The share of column i that belongs to index i; the rest belongs to `#alias[i]`. */
  readonly #share: Float64Array;
  readonly #alias: Uint32Array;

  /** @param weights At least one, each above 0. O(n). */
  constructor(weights: readonly number[]) {
    const { length } = weights;
    const mean = weights.reduce((sum, weight) => sum + weight, 0) / length;
    this.#share = Float64Array.from(weights, (weight) => weight / mean);
    this.#alias = Uint32Array.from({ length }, (_, index) => index);
    const small: number[] = [];
    const large: number[] = [];
    this.#share.forEach((share, index) => {
      (share < 1 ? small : large).push(index);
    });
    while (small.length > 0 && large.length > 0) {
      const under = small.pop() as number;
      const over = large.at(-1) as number;
      this.#alias[under] = over;
      const rest = (this.#share[over] as number) + (this.#share[under] as number) - 1;
      this.#share[over] = rest;
      if (rest < 1) small.push(large.pop() as number);
    }
    // Rounding may leave some columns over; each belongs to its own index alone.
    for (const index of [...small, ...large]) this.#share[index] = 1;
  }

  draw(random: Random32): number {
    // Column and share are drawn with two random numbers, because with many columns the fraction left of a single one would be too coarse.
    const column = random.index(this.#share.length);
    return random.next() < (this.#share[column] as number) ? column : (this.#alias[column] as number);
  }
}
