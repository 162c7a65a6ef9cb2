import type { EndpointSet } from '../endpoint/endpoint-set.js';
import type { Member } from '../pool/pool.js';
import type { JsonRecord, Members, Out } from './format.js';
import { plainEndpoint } from './live-subchannels.js';
import { changeOf } from './set-changes.js';

/** The endpoint set as last recorded, and which stage left an endpoint out. */
export class RecordedSet {
  members: Members = [];
  out: readonly Out[] = [];
  version = 0;
  /** The stage that last lowered an endpoint's weight or removed it, by the endpoint's key; filled while the stages run. */
  readonly #blamed = new Map<string, number>();

  /** Notes how a stage has changed the set. */
  staged(stage: number, before: EndpointSet, after: EndpointSet): void {
    const then = new Map(before.entries.map((entry) => [entry.endpoint.key, entry]));
    for (const { endpoint, weight } of after.entries) {
      const old = then.get(endpoint.key);
      then.delete(endpoint.key);
      if (old !== undefined && weight < old.weight) this.#blamed.set(endpoint.key, stage);
      else if (old !== undefined && weight > old.weight) this.#blamed.delete(endpoint.key);
    }
    for (const key of then.keys()) this.#blamed.set(key, stage);
  }

  /** Called when all stages have run. Returns the change of the set to record; undefined if nothing has changed. */
  publish(known: EndpointSet, members: readonly Member<unknown>[], nowMs: number): JsonRecord | undefined {
    const next = members.map(
      ({ subchannel, weight, suspect }) =>
        [subchannel.recordedAs, Number.isFinite(weight) ? weight : 0, suspect ? 1 : 0] as const,
    );
    const out = this.#outOf(known, members);
    this.#blamed.clear();
    const change = changeOf(this.members, next);
    const isSameOut = JSON.stringify(out) === JSON.stringify(this.out);
    if (change === undefined && isSameOut && known.version === this.version) return undefined;
    this.members = next;
    this.out = out;
    this.version = known.version;
    return { k: 'set', at: nowMs, version: known.version, changed: [], ...change, ...(!isSameOut && { out }) };
  }

  #outOf(known: EndpointSet, members: readonly Member<unknown>[]): readonly Out[] {
    const out: Out[] = [];
    const used = new Set<string>();
    for (const { subchannel, weight } of members) {
      const { key } = subchannel.endpoint;
      used.add(key);
      const stage = this.#blamed.get(key);
      if (!(weight > 0) || stage !== undefined) out.push({ id: subchannel.recordedAs, stage: stage ?? -1 });
    }
    for (const { endpoint } of known.entries) {
      if (used.has(endpoint.key)) continue;
      out.push({ id: -1, endpoint: plainEndpoint(endpoint), stage: this.#blamed.get(endpoint.key) ?? -1 });
    }
    return out;
  }
}
