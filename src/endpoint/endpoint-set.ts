import type { Endpoint } from './endpoint.js';

/** One endpoint as the stages see it. */
export interface EndpointEntry {
  /** The endpoint as the resolver published it; stages change only what stands beside it. */
  readonly endpoint: Endpoint;
  /** Share of picks relative to the others. 0 = standby: stay connected, do not pick. */
  readonly weight: number;
  /** A stage (health, outlier ejection) considers it broken. Panic, the last stage, decides what that means. */
  readonly suspect: boolean;
  /** It meets an ejection criterion, but the maximum number is already suspect: it is used, and counts towards panic. */
  readonly overLimit?: true;
  /** It was suspect and gets one call at a time until one succeeds. Each round increments it. */
  readonly probation?: number;
}

/**
 * All endpoints at one moment: immutable, versioned, each key once. Stages turn one set into another;
 * an endpoint a stage leaves out is *absent*: no connection is kept to it.
 */
export class EndpointSet {
  /** Version 0, without entries: what there is before a resolver has published. */
  static readonly empty: EndpointSet = new EndpointSet(0, []);
  /** Increases with every set a resolver publishes; stages keep it. */
  readonly version: number;
  /** The entries in the resolver's order, each key once. */
  readonly entries: readonly EndpointEntry[];

  private constructor(version: number, entries: readonly EndpointEntry[]) {
    this.version = version;
    this.entries = entries;
  }

  /** A new set with the endpoints' own weights and no suspects. If several endpoints have the same key, the first is taken. */
  static of(version: number, endpoints: readonly Endpoint[]): EndpointSet {
    const seen = new Set<string>();
    const entries: EndpointEntry[] = [];
    for (const endpoint of endpoints) {
      if (seen.has(endpoint.key)) continue;
      seen.add(endpoint.key);
      entries.push({ endpoint, weight: endpoint.weight, suspect: false });
    }
    return new EndpointSet(version, entries);
  }

  /** How many entries there are, standby and suspect ones included. */
  get size(): number {
    return this.entries.length;
  }

  /** A set of this version with other entries; this set itself if they are the same array. */
  withEntries(entries: readonly EndpointEntry[]): EndpointSet {
    return entries === this.entries ? this : new EndpointSet(this.version, entries);
  }

  /** A set with the entries for which `keep` returns true; this set itself if all are kept. */
  filter(keep: (entry: EndpointEntry) => boolean): EndpointSet {
    const entries = this.entries.filter(keep);
    return entries.length === this.entries.length ? this : this.withEntries(entries);
  }

  /** A set whose entries were replaced one by one; this set itself if `change` returns every entry unchanged. */
  map(change: (entry: EndpointEntry) => EndpointEntry): EndpointSet {
    let changed = false;
    const entries = this.entries.map((entry) => {
      const next = change(entry);
      if (next !== entry) changed = true;
      return next;
    });
    return changed ? this.withEntries(entries) : this;
  }
}
