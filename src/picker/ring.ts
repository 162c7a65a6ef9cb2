import { hash32 } from '../runtime/hash.js';

/** How many points on the hash ring an endpoint with the mean weight has. */
const POINTS = 160;
/** About how many points a hash ring has at most: hashing and sorting so many takes about 5 ms. */
const MAX_POINTS = 65_536;

/**
 * A hash ring. An endpoint has points on it in proportion to its weight, and a key belongs to the next point. Shares differ by about 1 /
 * sqrt(160) = 8 %; a look-up takes O(log n). Use it to agree with other software's rings; otherwise Maglev is faster and more even.
 * Source: Karger et al., Consistent Hashing and Random Trees, STOC 1997.
 */
export class Ring {
  readonly #points: Uint32Array;
  readonly #owners: Uint32Array;

  /** @param names At least one name, all different. @param weights The weight of each name, above 0. */
  constructor(names: readonly string[], weights: readonly number[]) {
    const { length } = names;
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    const mean = Math.max(1, Math.min(POINTS, MAX_POINTS / length));
    const counts = weights.map((weight) => Math.max(1, Math.round((mean * weight * length) / total)));
    const points = new Uint32Array(counts.reduce((sum, count) => sum + count, 0));
    const owners = new Uint32Array(points.length);
    let next = 0;
    names.forEach((name, owner) => {
      for (let point = 0; point < (counts[owner] as number); point++) {
        points[next] = hash32(name, point);
        owners[next++] = owner;
      }
    });
    [this.#points, this.#owners] = sortedByPoint(points, owners);
  }

  get size(): number {
    return this.#points.length;
  }

  /** Returns the position on the ring to which a key with this hash belongs. */
  entryOf(hash: number): number {
    const point = hash >>> 0;
    const points = this.#points;
    let low = 0;
    let high = points.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((points[middle] as number) < point) low = middle + 1;
      else high = middle;
    }
    return low === points.length ? 0 : low;
  }

  /** Returns the index of the endpoint that owns a position on the ring. */
  at(entry: number): number {
    return this.#owners[entry] as number;
  }
}

const RADIX_BITS = 16;
const RADIX = 2 ** RADIX_BITS;

/** Returns the points of a hash ring in ascending order, with their owners. A radix sort: stable, O(n). */
function sortedByPoint(points: Uint32Array, owners: Uint32Array): [Uint32Array, Uint32Array] {
  const { length } = points;
  let from = [points, owners] as [Uint32Array, Uint32Array];
  let to = [new Uint32Array(length), new Uint32Array(length)] as [Uint32Array, Uint32Array];
  const starts = new Uint32Array(RADIX);
  for (let shift = 0; shift < 32; shift += RADIX_BITS) {
    const [fromPoints, fromOwners] = from;
    const [toPoints, toOwners] = to;
    starts.fill(0);
    for (let index = 0; index < length; index++) {
      const digit = ((fromPoints[index] as number) >>> shift) % RADIX;
      starts[digit] = (starts[digit] as number) + 1;
    }
    let before = 0;
    for (let digit = 0; digit < RADIX; digit++) {
      const count = starts[digit] as number;
      starts[digit] = before;
      before += count;
    }
    for (let index = 0; index < length; index++) {
      const digit = ((fromPoints[index] as number) >>> shift) % RADIX;
      const at = starts[digit] as number;
      starts[digit] = at + 1;
      toPoints[at] = fromPoints[index] as number;
      toOwners[at] = fromOwners[index] as number;
    }
    [from, to] = [to, from];
  }
  return from;
}
