/**
 * A binary heap over the indexes 0 … n − 1, the smallest key on top. Callers change keys in the typed array, because a
 * number passed as an argument would be boxed. The heap tracks the position of each index, so any key can change in
 * O(log n).
 */
export class IndexHeap {
  /** The key of each index. Call `moved` after changing one. */
  readonly keys: Float64Array;
  /** Heap order: position to index, and back. */
  readonly #indexAt: Uint32Array;
  readonly #placeOf: Uint32Array;

  /** @param keys Used as is, not copied. O(n). */
  constructor(keys: Float64Array) {
    this.keys = keys;
    this.#indexAt = Uint32Array.from(keys, (_, index) => index);
    this.#placeOf = Uint32Array.from(this.#indexAt);
    for (let place = (keys.length >>> 1) - 1; place >= 0; place--) this.#sink(place);
  }

  /** The index with the smallest key. Needs at least one. */
  get top(): number {
    return this.#indexAt[0] as number;
  }

  /** The key of `index` has changed. */
  moved(index: number): void {
    const place = this.#placeOf[index] as number;
    this.#rise(place);
    if (this.#placeOf[index] === place) this.#sink(place);
  }

  #rise(from: number): void {
    const { keys } = this;
    const indexAt = this.#indexAt;
    const placeOf = this.#placeOf;
    const index = indexAt[from] as number;
    const key = keys[index] as number;
    let place = from;
    while (place > 0) {
      const parent = (place - 1) >>> 1;
      const above = indexAt[parent] as number;
      if ((keys[above] as number) <= key) break;
      indexAt[place] = above;
      placeOf[above] = place;
      place = parent;
    }
    indexAt[place] = index;
    placeOf[index] = place;
  }

  #sink(from: number): void {
    const { keys } = this;
    const indexAt = this.#indexAt;
    const placeOf = this.#placeOf;
    const { length } = indexAt;
    const index = indexAt[from] as number;
    const key = keys[index] as number;
    let place = from;
    for (;;) {
      let child = 2 * place + 1;
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
      indexAt[place] = below;
      placeOf[below] = place;
      place = child;
    }
    indexAt[place] = index;
    placeOf[index] = place;
  }
}
