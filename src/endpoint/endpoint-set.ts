import type { Endpoint } from './endpoint.js';

/** One endpoint of a set, with what stages have decided about it. */
export interface EndpointEntry {
  /** The endpoint as the resolver published it. Stages never change it, only the other members of this entry. */
  readonly endpoint: Endpoint;
  /** The endpoint's share of picks relative to the others. 0 = standby: it stays connected but is not picked. */
  readonly weight: number;
  /** Whether a stage (health, outlier ejection) considers the endpoint broken. `panic`, the last stage, decides what follows. */
  readonly suspect: boolean;
  /**
   * Whether the endpoint meets an ejection criterion while the maximum number of endpoints is already suspect. Such an endpoint is used,
   * and counts towards panic.
   */
  readonly overLimit?: true;
  /** Set while an endpoint that was suspect gets one call at a time, until one succeeds. Each further round increments the number. */
  readonly probation?: number;
}

/**
 * All endpoints at one moment: immutable, with a version, each key once. Stages turn one set into another; an endpoint that a stage leaves
 * out is *absent*: no connection to it is kept.
 */
export class EndpointSet {
  /** The set before a resolver has published one: version 0, without entries. */
  static readonly empty: EndpointSet = new EndpointSet(0, []);
  /** Increases with every set that a resolver publishes. Stages keep it unchanged. */
  readonly version: number;
  /** The entries in the order in which the resolver lists them, each key once. */
  readonly entries: readonly EndpointEntry[];

  private constructor(version: number, entries: readonly EndpointEntry[]) {
    this.version = version;
    this.entries = entries;
  }

  /** Creates a set with the endpoints' own weights and without suspects. If several endpoints have the same key, the first counts. */
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

  /** How many entries there are, including standby and suspect ones. */
  get size(): number {
    return this.entries.length;
  }

  /** Returns a set of this version with other entries; this set itself if `entries` is the array it has. */
  withEntries(entries: readonly EndpointEntry[]): EndpointSet {
    return entries === this.entries ? this : new EndpointSet(this.version, entries);
  }

  /** Returns a set with the entries for which `keep` returns true; this set itself if all are kept. */
  filter(keep: (entry: EndpointEntry) => boolean): EndpointSet {
    const entries = this.entries.filter(keep);
    return entries.length === this.entries.length ? this : this.withEntries(entries);
  }

  /** Returns a set in which `change` has replaced the entries one by one; this set itself if it changed none. */
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
