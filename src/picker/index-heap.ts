/**
 * A binary heap of the indexes 0 … n − 1, with the smallest key on top. Callers change keys in the typed array, because V8 would put a
 * number that is passed as an argument on the heap of objects. The position of each index is tracked, so any key can change in O(log n).
 */
export class IndexHeap {
  /** The key of each index. After changing a key, call `update`. */
  readonly keys: Float64Array;
  /** The order of the heap: which index is at each position, and at which position each index is. */
  readonly #indexAt: Uint32Array;
  readonly #positionOf: Uint32Array;

  /** @param keys The initial keys. The array is used itself, not copied. O(n). */
  constructor(keys: Float64Array) {
    this.keys = keys;
    this.#indexAt = Uint32Array.from(keys, (_, index) => index);
    this.#positionOf = Uint32Array.from(this.#indexAt);
    for (let position = (keys.length >>> 1) - 1; position >= 0; position--) this.#sink(position);
  }

  /** The index with the smallest key. The heap must not be empty. */
  get top(): number {
    return this.#indexAt[0] as number;
  }

  /** Restores the order after the key of `index` has changed. */
  update(index: number): void {
    const position = this.#positionOf[index] as number;
    this.#rise(position);
    if (this.#positionOf[index] === position) this.#sink(position);
  }

  #rise(from: number): void {
    const { keys } = this;
    const indexAt = this.#indexAt;
    const positionOf = this.#positionOf;
    const index = indexAt[from] as number;
    const key = keys[index] as number;
    let position = from;
    while (position > 0) {
      const parent = (position - 1) >>> 1;
      const above = indexAt[parent] as number;
      if ((keys[above] as number) <= key) break;
      indexAt[position] = above;
      positionOf[above] = position;
      position = parent;
    }
    indexAt[position] = index;
    positionOf[index] = position;
  }

  #sink(from: number): void {
    const { keys } = this;
    const indexAt = this.#indexAt;
    const positionOf = this.#positionOf;
    const { length } = indexAt;
    const index = indexAt[from] as number;
    const key = keys[index] as number;
    let position = from;
    for (;;) {
      let child = 2 * position + 1;
      if (child >= length) break;
      let below = indexAt[child] as number;
      if (child + 1 < length) {
        const other = indexAt[child + 1] as number;
        if ((keys[other] as number) < (keys[below] as number)) {
          child++;
          below = other;
        }
      }
      if ((keys[below] as number) >= key) break;
      indexAt[position] = below;
      positionOf[below] = position;
      position = child;
    }
    indexAt[position] = index;
    positionOf[index] = position;
  }
}
