import type { EndpointSlice } from './endpoint-slice.js';

/**
 * How much memory the slices of one Service may take, in bytes. That is enough for about 190,000 endpoints, and keeps a faulty API server
 * from filling the memory.
 */
const MAX_SIZE = 64 * 1024 * 1024;
const MAX_SLICES = 10_000;

/** Estimates how much memory a slice takes, in bytes. */
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

/** The slices of one Service, by name, exactly as the API server last reported them. */
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

  /**
   * Replaces one slice of the store; undefined removes it. Returns false without changing anything if the store would become too large.
   */
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
   * Replaces all slices of the store. Returns the names of all slices before and after, because every one of them may have changed.
   * Slices with equal versions may differ, too: an API server that was restored from a backup uses version numbers again.
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
