import type { Endpoint } from '../endpoint/endpoint.js';
import type { EndpointEntry, EndpointSet } from '../endpoint/endpoint-set.js';
import { checkString } from '../runtime/check.js';
import type { Complete } from '../runtime/complete.js';
import { described } from '../runtime/described.js';
import { numberOption, type OptionTable, optionTable, requiredOption } from '../runtime/options.js';
import type { Stage, StageContext, StageFactory, Tracker } from './stage.js';

/** Options of `zone`: the zone of this process, and how much load its endpoints may get. Invalid options throw EVENKEEL_OPTION. */
export interface ZoneOptions {
  /** The zone in which this process runs, as in the pods' label `topology.kubernetes.io/zone`. */
  readonly zone: string;
  /**
   * How many times the mean load of all endpoints the endpoints of this zone may get, at least 1; Infinity = all calls stay in the zone
   * while one of its endpoints is usable. @defaultValue 1.5
   */
  readonly maxLoadRatio?: number | undefined;
}

export const zoneTable: OptionTable<Complete<ZoneOptions>> = optionTable('zone', {
  zone: requiredOption(checkString),
  maxLoadRatio: numberOption(1.5, { min: 1, infinite: true }),
});

/**
 * Prefers endpoints of this zone: no cross-zone charges, lower latency. Endpoints of other zones stay connected.
 *
 * It assumes that calls come evenly from every zone that has endpoints, because the number of clients is unknown: with z zones, n usable
 * endpoints and l of them in this zone, each local endpoint gets n / (z × l) times the mean load. Up to `maxLoadRatio`, all calls stay in
 * the zone; above it, just enough calls stay to meet the limit, and the rest is spread over the other zones. Endpoints without a
 * connection, suspect ones and those on probation do not count as usable, so calls leave a zone that fails: put this stage after those that
 * mark endpoints as suspect.
 * Source: the arithmetic of Envoy's zone-aware routing and of Kubernetes' topology hints (KEP-2433), which also bound the overload of a
 * zone.
 */
export const zone = (options: ZoneOptions): StageFactory => {
  const { zone: own, maxLoadRatio } = zoneTable.resolve(options);
  return described((context) => new Zone(own, maxLoadRatio, context), 'zone');
};

class Zone implements Stage {
  readonly #own: string;
  readonly #maxLoadRatio: number;
  readonly #context: StageContext;
  readonly #connected = new Set<string>();

  constructor(own: string, maxLoadRatio: number, context: StageContext) {
    this.#own = own;
    this.#maxLoadRatio = maxLoadRatio;
    this.#context = context;
  }

  track({ key }: Endpoint): Tracker {
    const set = (connected: boolean): void => {
      if (connected === this.#connected.has(key)) return;
      if (connected) this.#connected.add(key);
      else this.#connected.delete(key);
      this.#context.invalidate();
    };
    return { connected: () => set(true), disconnected: () => set(false), closed: () => set(false) };
  }

  apply(set: EndpointSet): EndpointSet {
    const own = set.entries.filter((entry) => entry.endpoint.zone === this.#own);
    if (own.length === 0 || own.length === set.size) return set;
    // Before any connection is open, all endpoints count as usable, so that the first calls stay local too.
    const anyConnected = set.entries.some((entry) => this.#isUsable(entry, false));
    const usable = set.entries.filter((entry) => this.#isUsable(entry, !anyConnected));
    const weightOf = (entries: readonly EndpointEntry[]): number =>
      entries.reduce((sum, { weight }) => sum + weight, 0);
    const ownWeight = weightOf(usable.filter((entry) => entry.endpoint.zone === this.#own));
    if (ownWeight === 0) return set;
    const total = weightOf(usable);
    const zones = new Set(usable.map(({ endpoint }) => endpoint.zone)).size;
    const loadRatio = total / (zones * ownWeight);
    if (loadRatio <= this.#maxLoadRatio) return this.#weigh(set, 0);
    // This share of the calls stays with local endpoints; the others get the rest, by weight.
    const stay = this.#maxLoadRatio / loadRatio;
    const otherWeight = total - ownWeight;
    return this.#weigh(set, ((1 - stay) / otherWeight) * (ownWeight / stay));
  }

  /** Multiplies the weights of endpoints in other zones by `factor`. */
  #weigh(set: EndpointSet, factor: number): EndpointSet {
    return set.map((entry) =>
      entry.endpoint.zone === this.#own || entry.weight <= 0 ? entry : { ...entry, weight: entry.weight * factor },
    );
  }

  #isUsable({ endpoint, weight, suspect, probation }: EndpointEntry, evenUnconnected: boolean): boolean {
    if (weight <= 0 || suspect || probation !== undefined) return false;
    return evenUnconnected || this.#connected.has(endpoint.key);
  }
}
