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

  /** Replaces one slice as a whole, or removes it. Returns whether anything changed. */
  put(name: string, slice: EndpointSlice | undefined): boolean {
    if (slice === undefined) return this.#slices.delete(name);
    // The same version again is the same slice (S10).
    const before = this.#slices.get(name);
    if (before !== undefined && before.version === slice.version && slice.version !== '') return false;
    this.#slices.set(name, slice);
    return true;
  }

  /** Replaces everything: what is absent is gone (W3). Returns the names of slices that changed. */
  replace(slices: readonly EndpointSlice[]): ReadonlySet<string> {
    const changed = new Set<string>();
    const present = new Set<string>();
    for (const slice of slices) {
      present.add(slice.name);
      if (this.put(slice.name, slice)) changed.add(slice.name);
    }
    for (const name of [...this.#slices.keys()]) {
      if (present.has(name)) continue;
      this.#slices.delete(name);
      changed.add(name);
    }
    return changed;
  }
}
