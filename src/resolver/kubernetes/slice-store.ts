import type { EndpointSlice } from './endpoint-slice.js';

/** The slices of one Service by name (S2): what the API server says exists, and nothing else. */
export class SliceStore {
  readonly #slices = new Map<string, EndpointSlice>();

  get size(): number {
    return this.#slices.size;
  }

  get(name: string): EndpointSlice | undefined {
    return this.#slices.get(name);
  }

  names(): IterableIterator<string> {
    return this.#slices.keys();
  }

  values(): IterableIterator<EndpointSlice> {
    return this.#slices.values();
  }

  /** Replaces one slice as a whole, or removes it. */
  put(name: string, slice: EndpointSlice | undefined): void {
    if (slice === undefined) this.#slices.delete(name);
    else this.#slices.set(name, slice);
  }

  /**
   * Replaces everything: what is absent is gone (W3). Returns the names of all slices there are and were. An equal
   * version is no proof that a slice is the same: a store restored from a backup gives its versions out once more.
   */
  replace(slices: readonly EndpointSlice[]): ReadonlySet<string> {
    const names = new Set(this.#slices.keys());
    this.#slices.clear();
    for (const slice of slices) {
      names.add(slice.name);
      this.#slices.set(slice.name, slice);
    }
    return names;
  }
}
