import type { BalancerSnapshot, EndpointSnapshot } from '../balancer/snapshot.js';

/** The length of the window in which recent picks are counted, in ms: at least this, and at most twice this. */
const WINDOW_MS = 60_000;
/** With fewer picks per endpoint than this, how even they are means nothing. */
const MIN_PICKS = 10;

interface Mark {
  readonly atMs: number;
  /** How many picks each endpoint has had so far, by endpoint key. */
  readonly started: ReadonlyMap<string, number>;
}

/** Which endpoints of a balancer were picked recently: how evenly, and in which zones. Updated now and then, not per call. */
export class RecentPicks {
  #before: Mark;
  #last: Mark;

  constructor(nowMs: number) {
    this.#last = { atMs: nowMs, started: new Map() };
    this.#before = this.#last;
  }

  /** Takes a snapshot into account. Returns the picks since the window began, for the current endpoints. */
  look({ endpoints }: BalancerSnapshot, nowMs: number): RecentShares {
    if (this.#before.started.size === 0 && endpoints.length > 0) {
      // The counts of a first snapshot start when the balancer was created; endpoints that come later are new.
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
  /**
   * The most picks of a ready endpoint, divided by the mean, by weight. Undefined with too few picks, and where the picker keeps an order
   * of preference: one client then uses as few endpoints as it has calls in flight, and only many clients together are even.
   */
  readonly most: number | undefined;
  /** The fewest picks of a ready endpoint, divided by the mean, by weight; undefined where `most` is. */
  readonly least: number | undefined;
  /** The picks by zone of their endpoints; empty if no zone is known. */
  readonly zones: ReadonlyMap<string, number>;
}

/** The most and the fewest picks of an endpoint, as multiples of the mean. Leaves out endpoints that joined within the window. */
function extremes(
  endpoints: readonly EndpointSnapshot[],
  picks: readonly number[],
  isKnown: (endpoint: EndpointSnapshot) => boolean,
): Pick<RecentShares, 'most' | 'least'> {
  if (endpoints.some(({ place }) => place !== undefined)) return { most: undefined, least: undefined };
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
