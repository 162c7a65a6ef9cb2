import type { BalancerSnapshot, EndpointSnapshot } from '../balancer/snapshot.js';

/** Recent picks are those of a window that is at least this long, in ms, and at most twice as long. */
const WINDOW_MS = 60_000;
/** With fewer picks per endpoint than this, chance decides how even they are, and nothing is reported. */
const MIN_PICKS = 10;

interface Mark {
  readonly atMs: number;
  /** How many picks each endpoint had so far, by its key. */
  readonly started: ReadonlyMap<string, number>;
}

/**
 * How recent picks of a balancer were spread over its endpoints: how evenly, and over which zones. It is updated when metrics are read, not
 * per call.
 */
export class RecentPicks {
  #before: Mark;
  #last: Mark;

  constructor(nowMs: number) {
    this.#last = { atMs: nowMs, started: new Map() };
    this.#before = this.#last;
  }

  /** Takes a snapshot into account. Returns how the picks since the window began were spread over the current endpoints. */
  update({ endpoints }: BalancerSnapshot, nowMs: number): RecentShares {
    if (this.#before.started.size === 0 && endpoints.length > 0) {
      // The counts in a first snapshot go back to when the balancer was created, so its endpoints begin at 0. Endpoints that come later are
      // new.
      this.#last = { atMs: this.#last.atMs, started: new Map(endpoints.map(({ key }) => [key, 0])) };
      this.#before = this.#last;
    }
    const { started } = this.#before;
    const picks = endpoints.map((endpoint) => endpoint.started - (started.get(endpoint.key) ?? 0));
    if (nowMs - this.#last.atMs >= WINDOW_MS) {
      this.#before = this.#last;
      this.#last = { atMs: nowMs, started: new Map(endpoints.map(({ key, started }) => [key, started])) };
    }
    const isKnown = (endpoint: EndpointSnapshot): boolean => started.has(endpoint.key);
    return { ...extremes(endpoints, picks, isKnown), zones: zoneShares(endpoints, picks) };
  }
}

export interface RecentShares {
  /** The most picks of any ready endpoint, as a multiple of the mean by weight; undefined after too few picks. */
  readonly most: number | undefined;
  /** The fewest picks of any ready endpoint, as a multiple of the mean by weight; undefined where `most` is undefined. */
  readonly least: number | undefined;
  /** The share of picks that went to each zone; empty if no zone is known. */
  readonly zones: ReadonlyMap<string, number>;
}

/**
 * Returns the most and the fewest picks of an endpoint, as multiples of the mean. Endpoints that joined within the window are left out.
 */
function extremes(
  endpoints: readonly EndpointSnapshot[],
  picks: readonly number[],
  isKnown: (endpoint: EndpointSnapshot) => boolean,
): Pick<RecentShares, 'most' | 'least'> {
  let total = 0;
  let weights = 0;
  let most = 0;
  let least = Number.POSITIVE_INFINITY;
  let count = 0;
  endpoints.forEach((endpoint, index) => {
    const { state, weight, suspect } = endpoint;
    if (state !== 'ready' || weight <= 0 || suspect || !isKnown(endpoint)) return;
    const picked = picks[index] as number;
    count++;
    total += picked;
    weights += weight;
    most = Math.max(most, picked / weight);
    least = Math.min(least, picked / weight);
  });
  if (count === 0 || total < MIN_PICKS * count) return { most: undefined, least: undefined };
  const mean = total / weights;
  return { most: most / mean, least: least / mean };
}

function zoneShares(endpoints: readonly EndpointSnapshot[], picks: readonly number[]): Map<string, number> {
  const zones = new Map<string, number>();
  let total = 0;
  endpoints.forEach(({ zone }, index) => {
    const picked = picks[index] as number;
    total += picked;
    if (zone !== undefined) zones.set(zone, (zones.get(zone) ?? 0) + picked);
  });
  if (total === 0) return new Map();
  return new Map([...zones].map(([zone, picked]) => [zone, picked / total]));
}
