/** A binary heap. */
export class Heap<T> {
  readonly #items: T[] = [];
  readonly #isBefore: (a: T, b: T) => boolean;

  constructor(isBefore: (a: T, b: T) => boolean) {
    this.#isBefore = isBefore;
  }

  /** The one before all others; undefined when there is none. */
  get first(): T | undefined {
    return this.#items[0];
  }

  push(item: T): void {
    const items = this.#items;
    let place = items.push(item) - 1;
    while (place > 0) {
      const parent = (place - 1) >>> 1;
      const above = items[parent] as T;
      if (!this.#isBefore(item, above)) break;
      items[place] = above;
      place = parent;
    }
    items[place] = item;
  }

  /** Removes the first. */
  shift(): void {
    const items = this.#items;
    const item = items.pop() as T;
    const { length } = items;
    if (length === 0) return;
    let place = 0;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= length) break;
      if (child + 1 < length && this.#isBefore(items[child + 1] as T, items[child] as T)) child++;
      const below = items[child] as T;
      if (!this.#isBefore(below, item)) break;
      items[place] = below;
      place = child;
    }
    items[place] = item;
  }
}
