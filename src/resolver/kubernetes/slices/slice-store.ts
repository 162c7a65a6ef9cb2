import type { EndpointSlice } from './endpoint-slice.js';

/**
 * How much memory the slices of one Service may take, in bytes: about 190,000 endpoints of ordinary length. A server that keeps creating
 * slices must not fill our memory.
 */
const MAX_SIZE = 64 * 1024 * 1024;
const MAX_SLICES = 10_000;

/** Approximate memory of a slice, in bytes. */
function sizeOf({ name, version, members, ports }: EndpointSlice): number {
  let size = 500 + name.length + version.length;
  for (const port of ports) size += 500 + port.name.length;
  for (const { address, uid, name: pod, zone, nodeName, hintZones, hintNodes } of members) {
    size += 200 + address.length;
    for (const text of [uid, pod, zone, nodeName]) size += text?.length ?? 0;
    for (const hints of [hintZones, hintNodes]) for (const hint of hints) size += 50 + hint.length;
  }
  return size;
}

/** Whether the slices of a complete list fit into a store. */
export function fitsStore(slices: readonly EndpointSlice[]): boolean {
  let size = 0;
  for (const slice of slices) size += sizeOf(slice);
  return slices.length <= MAX_SLICES && size <= MAX_SIZE;
}

/** The slices of one Service by name: what the API server says exists, and nothing else. */
export class SliceStore {
  readonly #slices = new Map<string, EndpointSlice>();
  #bytes = 0;

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

  /** Replaces one slice of the store, or removes it. False if the slice would exceed the limit: in that case nothing changes. */
  set(name: string, slice: EndpointSlice | undefined): boolean {
    const before = this.#slices.get(name);
    const bytes = this.#bytes - (before === undefined ? 0 : sizeOf(before)) + (slice === undefined ? 0 : sizeOf(slice));
    if (slice === undefined) this.#slices.delete(name);
    else if (bytes > MAX_SIZE || (before === undefined && this.#slices.size >= MAX_SLICES)) return false;
    else this.#slices.set(name, slice);
    this.#bytes = bytes;
    return true;
  }

  /**
   * Replaces all slices of the store with slices that fit: those that are not among them are gone. Returns the names of all slices before
   * and after. Equal versions do not prove that a slice is unchanged: an API server restored from a backup reuses versions.
   */
  replace(slices: readonly EndpointSlice[]): ReadonlySet<string> {
    const names = new Set(this.#slices.keys());
    this.#slices.clear();
    this.#bytes = 0;
    for (const slice of slices) {
      names.add(slice.name);
      this.set(slice.name, slice);
    }
    return names;
  }
}
