import { KNOWN, MOST_UNITS, ORDER_COST, PLACE, TRIALS, TYPICAL, UNITS, UPDATED } from '../load/latency-cell.js';
import type { Load } from '../load/load.js';
import { RuledLoad } from '../load/load-rule.js';
import {
  AVERAGE,
  ENDED,
  ENOUGH_KNOWN,
  FAR,
  FORGOTTEN_MS,
  MEDIAN,
  type Preferences,
  RAISE_AT,
  RAISES,
  SUSPICIOUS,
  TURN_AT,
  USUAL,
} from '../load/preference.js';
import { checkNoOptions } from '../runtime/check.js';
import { Random32 } from '../runtime/random32.js';
import type { Rng } from '../runtime/rng.js';
import { BitSet } from './bit-set.js';
import { p2c } from './p2c.js';
import {
  fits,
  type OwnTarget,
  ownSet,
  type Picker,
  type PickerFactory,
  type PickRequest,
  type PickSet,
} from './picker.js';

/** With fewer endpoints than this, there is no order of preference: turns are exactly even and cost little. */
const ORDERED_FROM = 4;
/**
 * Neighbors in the order of preference change places if the later one is faster by about a tenth. Latencies are compared as logarithms.
 */
const MARGIN = 0.1;
/**
 * The order of preference may change at the end of one call in this many. If it could change at each, noise would move endpoints as fast as
 * knowledge does.
 */
const EVERY = 4;
/**
 * How often an endpoint that is not in use is raised in the order of preference, in ms. The time varies by half, so that clients do not
 * raise endpoints at the same moment.
 */
const RAISE_MS = 5_000;
/** This share of the raised endpoints goes to a random place among those in use; the others go to the edge of those. */
const RAISED_FURTHER = 0.1;
/**
 * If the caller never has two calls in flight, the first two endpoints of the order change places after a random time between these two, in
 * ms.
 */
const MOST_TURN_MS = 10_000;
const LEAST_TURN_MS = 7_500;
/** An endpoint on which a call costs more than this is not raised in the order of preference. */
const PRICED: number = 1.02 * UNITS;
/**
 * A client with fewer calls in flight than `TRIES_BELOW`, on average, draws a new endpoint for `FIRST_TRIALS` calls as often as any other
 * endpoint, because its order alone would find the new endpoint late.
 */
const TRIES_BELOW = 0.25;
const FIRST_TRIALS = 4;
/**
 * While servers report their load, a pick compares between `LEAST_FIRST` and `MOST_FIRST` endpoints from the beginning of the order, as
 * many as are in use, and `DRAWS` drawn from the rest.
 */
const LEAST_FIRST = 8;
const MOST_FIRST = 16;
const DRAWS = 4;
/** The `PLACE` in the cell of an endpoint that has left the set. */
const LEFT = -1;

/**
 * Each client keeps the endpoints in an order of its own, random at first. A call goes to the first endpoint in the order with the fewest
 * of this client's calls, so usually to the first that has none. O(1) per pick. The default picker.
 *
 * So a client's calls are on few endpoints at a time, and its own count shows how busy they are. An endpoint that is slow now keeps its
 * call and gets no other. Neighbors in the order change places by latency, so clients move away from each other's endpoints and from slow ones.
 * Every five seconds one of the endpoints that are not in use moves to the edge of those that are. An endpoint that fails, or takes nearly
 * three times as long as the median, counts as having more calls. Over many clients, load and latency are even among the endpoints; one
 * client alone uses as many endpoints as it has calls in flight.
 *
 * With two or three endpoints, with weights that differ, and with a load other than `relativeLatency`, this picker is `p2c`.
 *
 * Sources: ordered hunting, as in telephone exchanges; self-organizing lists by transposition (Rivest, On self-organizing sequential search
 * heuristics, CACM 19(2), 1976).
 */
export const preferenceOrder = (...none: []): PickerFactory => {
  checkNoOptions('preferenceOrder', none);
  const unordered = p2c();
  const factory: PickerFactory = (set, previous, context) => {
    const own = ownSet(set);
    const preferences = preferencesOf(own);
    if (preferences === undefined) return unordered(set, previous, context);
    return new PreferenceOrder(own, previous, preferences, context.rng);
  };
  return factory;
};

/** Whether `preferenceOrder` keeps the endpoints of `set` in an order. */
export const keepsOrder = (set: PickSet<OwnTarget>): boolean => preferencesOf(set) !== undefined;

/**
 * The place in an order of preference of the target with this load, from 1; undefined if the target never had one, or has left the set.
 */
export function placeOf(load: Load): number | undefined {
  if (!(load instanceof RuledLoad) || load.rule.preferences === undefined) return undefined;
  const place = read(load, PLACE);
  return place > 0 ? place : undefined;
}

/** What the loads of `set` know about the preference of endpoints; undefined if the endpoints cannot be ordered. */
function preferencesOf(set: PickSet<OwnTarget>): Preferences | undefined {
  if (!set.equalWeights || set.targets.length < ORDERED_FROM) return undefined;
  let found: Preferences | undefined;
  for (const { load } of set.all) {
    const preferences = load instanceof RuledLoad ? load.rule.preferences : undefined;
    if (preferences === undefined || (found ?? preferences) !== preferences) return undefined;
    found = preferences;
  }
  return found;
}

/**
 * Picks by an order of preference. The order covers all endpoints of the set, so that an endpoint that reconnects has its place again. Each
 * endpoint's load stores the endpoint's place too, where the next picker finds it.
 */
class PreferenceOrder implements Picker<OwnTarget> {
  readonly #preferences: Preferences;
  readonly #random: Random32;
  readonly #order: OwnTarget[];
  /** The loads of the ordered endpoints, by their place in the order. */
  readonly #loads: RuledLoad[];
  /** Ready endpoints that are new to the order: without extra calls, it would take long until every client's order has led to them. */
  readonly #untried: OwnTarget[];
  /** The places of endpoints that are ready. */
  readonly #ready: BitSet;
  /**
   * `#level`: no endpoint is known to cost less for one more call than this, rounded up to whole calls. `#cheap`: the places of endpoints
   * that may cost no more. So neither many calls in flight nor many endpoints make a pick look at all of them.
   */
  #level = UNITS;
  readonly #cheap: BitSet;

  constructor(set: PickSet<OwnTarget>, previous: Picker | undefined, preferences: Preferences, rng: Rng) {
    this.#preferences = preferences;
    this.#random = new Random32(rng);
    if (previous instanceof PreferenceOrder) previous.#leave(set.all);
    const order = ordered(set.all, this.#edge, this.#random);
    this.#order = order;
    this.#loads = order.map(loadOf);
    this.#loads.forEach((load, place) => {
      write(load, PLACE, place + 1);
    });
    this.#ready = new BitSet(order.length);
    const ready = new Set(set.targets);
    order.forEach((target, place) => {
      if (ready.has(target)) this.#ready.add(place);
    });
    this.#untried = order.filter((target, place) => this.#ready.has(place) && read(loadOf(target), TRIALS) > 0);
    this.#cheap = new BitSet(order.length);
    this.#cheap.copy(this.#ready);
  }

  pick(request: PickRequest): OwnTarget | undefined {
    const { nowMs, avoid } = request;
    const preferences = this.#preferences;
    const { state } = preferences;
    preferences.average(nowMs);
    if (nowMs >= (state[RAISE_AT] as number)) this.#raise(nowMs);
    if (nowMs >= (state[TURN_AT] as number)) this.#turn(nowMs);
    if (this.#untried.length > 0 && avoid === undefined && (state[AVERAGE] as number) < TRIES_BELOW) {
      const tried = this.#try();
      if (tried !== undefined) return tried;
    }
    if (preferences.costs.hasReports) {
      const best = this.#withReports(request);
      if (best !== undefined) return best;
    } else if (avoid === undefined) {
      const found = this.#fewest();
      if (found !== undefined) return found;
    }
    const cheapest = this.#cheapest(request);
    if (avoid === undefined) this.#atLevel(cheapest === undefined ? UNITS : wholeCalls(costOf(cheapest)));
    return cheapest;
  }

  ended(target: OwnTarget): void {
    const load = loadOf(target);
    const place = read(load, PLACE) - 1;
    if (this.#order[place] !== target) return;
    const isCompared = read(load, KNOWN) >= ENOUGH_KNOWN;
    if (isCompared && (this.#preferences.state[ENDED] as number) % EVERY === 0) this.#compare(place);
    const cost = wholeCalls(costOf(target));
    if (cost < this.#level) {
      this.#level = cost;
      this.#cheap.clear();
    }
    this.#recheck(read(load, PLACE) - 1);
  }

  /** Returns a new endpoint now and then, as often as an even draw among all endpoints would. */
  #try(): OwnTarget | undefined {
    const untried = this.#untried;
    const index = this.#random.index(this.#order.length);
    const target = untried[index];
    if (target === undefined || target.inFlight > 0 || !target.hasRoom) return undefined;
    const load = loadOf(target);
    if (read(load, ORDER_COST) > PRICED) return undefined;
    const left = read(load, TRIALS) - 1;
    write(load, TRIALS, left);
    if (left === 0) untried.splice(index, 1);
    return target;
  }

  /**
   * The first endpoint of the order among the cheapest by this client's own calls; undefined if finding it would mean looking at all
   * endpoints.
   */
  #fewest(): OwnTarget | undefined {
    const found = this.#first();
    if (found !== undefined) return found;
    this.#atLevel(this.#level + UNITS);
    return this.#first();
  }

  /** The first endpoint of the order that costs no more than `#level`; undefined if there is none. */
  #first(): OwnTarget | undefined {
    const order = this.#order;
    const level = this.#level;
    const { words } = this.#cheap;
    for (let word = 0; word < words.length; word++) {
      for (let bits = words[word] as number; bits !== 0; bits &= bits - 1) {
        const target = order[(word << 5) + 31 - Math.clz32(bits & -bits)] as OwnTarget;
        if (!target.hasRoom || costOf(target) > level) continue;
        words[word] = bits;
        return target;
      }
      words[word] = 0;
    }
    return undefined;
  }

  /**
   * Picks while servers report their load. Compares the first endpoints of the order, where each place costs a little more than the one
   * before. If none of them is about as good as idle, a few drawn from the rest are compared too.
   */
  #withReports(request: PickRequest): OwnTarget | undefined {
    const order = this.#order;
    const ready = this.#ready;
    const { costs } = this.#preferences;
    const { length } = order;
    const first = Math.min(length, Math.max(LEAST_FIRST, Math.min(this.#edge + 1, MOST_FIRST)));
    costs.compare(request.nowMs);
    let best: OwnTarget | undefined;
    for (let place = 0; place < first; place++) {
      const target = order[place] as OwnTarget;
      if (!ready.has(place) || !fits(target, request)) continue;
      const { numbers, at } = this.#loads[place] as RuledLoad;
      if (costs.isCheaper(numbers, at, target.inFlight, place)) best = target;
    }
    if (first === length || (best !== undefined && !costs.isDear)) return best;
    for (let draw = 0; draw < DRAWS; draw++) {
      const place = first + this.#random.index(length - first);
      const target = order[place] as OwnTarget;
      if (!ready.has(place) || !fits(target, request)) continue;
      const { numbers, at } = this.#loads[place] as RuledLoad;
      if (costs.isCheaper(numbers, at, target.inFlight, first)) best = target;
    }
    return best;
  }

  /** The first endpoint of the order among the cheapest that have room, preferably one that the call does not avoid. O(n). */
  #cheapest(request: PickRequest): OwnTarget | undefined {
    const order = this.#order;
    let best: OwnTarget | undefined;
    let bestFits = false;
    for (let place = 0; place < order.length; place++) {
      const target = order[place] as OwnTarget;
      if (!this.#ready.has(place) || !target.hasRoom) continue;
      const good = fits(target, request);
      if (bestFits && !good) continue;
      if (best !== undefined && good === bestFits && costOf(target) >= costOf(best)) continue;
      best = target;
      bestFits = good;
    }
    return best;
  }

  #atLevel(level: number): void {
    this.#level = level;
    this.#cheap.copy(this.#ready);
  }

  /** Notes that the endpoint at `place` may cost less than before. */
  #recheck(place: number): void {
    this.#cheap.set(place, this.#ready.has(place));
  }

  /** The last place of the order that is in use now, or is about to be. */
  get #edge(): number {
    return Math.ceil(this.#preferences.state[AVERAGE] as number) + 1;
  }

  /** A call on the endpoint at `place` has ended, so the endpoint may change places with one of its neighbors. */
  #compare(place: number): void {
    const { state } = this.#preferences;
    const loads = this.#loads;
    const load = loads[place] as RuledLoad;
    const typical = read(load, TYPICAL);
    if (typical < (state[MEDIAN] as number) - SUSPICIOUS) {
      this.#last(place);
      return;
    }
    const before = loads[place - 1];
    if (before !== undefined && read(before, KNOWN) >= ENOUGH_KNOWN && typical < read(before, TYPICAL) - MARGIN) {
      this.#exchange(place - 1, place);
      return;
    }
    const after = loads[place + 1];
    if (after === undefined) return;
    const isKnown = knows(after, read(load, UPDATED));
    const limit = isKnown ? read(after, TYPICAL) + MARGIN : (state[USUAL] as number) + FAR;
    if (typical > limit) this.#exchange(place, place + 1);
  }

  /**
   * Moves the endpoint at `place` to the end of the order. Up to the edge of those in use, the endpoints behind it move up; further back
   * only the last one changes its place. Moving all would take O(n) each time that one of many endpoints answers far too fast.
   */
  #last(place: number): void {
    const last = this.#order.length - 1;
    const beyond = Math.max(place, Math.min(this.#edge + 1, last));
    for (let next = place + 1; next <= beyond; next++) this.#exchange(next - 1, next);
    if (beyond < last) this.#exchange(beyond, last);
  }

  /** Moves one endpoint that is not in use to the edge of those that are, so that new and recovered endpoints are found. */
  #raise(nowMs: number): void {
    const { state } = this.#preferences;
    const random = this.#random;
    state[RAISE_AT] = nowMs + RAISE_MS * (0.5 + random.next());
    // Endpoints may also have become cheaper with time alone, so all are looked at again.
    this.#atLevel(UNITS);
    const edge = this.#edge;
    const beyond = this.#order.length - edge - 1;
    if (beyond <= 0) return;
    const place = edge + 1 + random.index(beyond);
    const to = random.next() < RAISED_FURTHER ? random.index(edge + 1) : edge;
    const load = this.#loads[place] as RuledLoad;
    if (!this.#ready.has(place) || read(load, ORDER_COST) > PRICED) return;
    const ageMs = nowMs - read(load, UPDATED);
    const isSlow = read(load, TYPICAL) > (state[USUAL] as number) + FAR;
    if (isSlow && read(load, KNOWN) > 0 && ageMs < FORGOTTEN_MS) return;
    if (ageMs > FORGOTTEN_MS / 3) write(load, KNOWN, 0);
    (state[RAISES] as number)++;
    this.#exchange(place, to);
  }

  /**
   * Makes the first two endpoints of the order change places, for a caller that never has two calls in flight, unless the second is slower
   * or more expensive.
   */
  #turn(nowMs: number): void {
    const { state } = this.#preferences;
    state[TURN_AT] = nowMs + LEAST_TURN_MS + (MOST_TURN_MS - LEAST_TURN_MS) * this.#random.next();
    if ((state[AVERAGE] as number) >= 1 || !this.#ready.has(1)) return;
    const [first, second] = this.#loads as [RuledLoad, RuledLoad];
    if (costOf(this.#order[1] as OwnTarget) > costOf(this.#order[0] as OwnTarget)) return;
    if (knows(second, nowMs) && read(second, TYPICAL) > read(first, TYPICAL) + MARGIN) return;
    this.#exchange(0, 1);
  }

  #exchange(a: number, b: number): void {
    const order = this.#order;
    const loads = this.#loads;
    const ready = this.#ready;
    const [target, load, isReady] = [order[a] as OwnTarget, loads[a] as RuledLoad, ready.has(a)];
    const other = loads[b] as RuledLoad;
    order[a] = order[b] as OwnTarget;
    loads[a] = other;
    ready.set(a, ready.has(b));
    order[b] = target;
    loads[b] = load;
    ready.set(b, isReady);
    write(other, PLACE, a + 1);
    write(load, PLACE, b + 1);
    this.#recheck(a);
    this.#recheck(b);
  }

  /**
   * Marks the endpoints of the order that are not in `staying` as gone from the set. If one returns, it enters at the edge of those in use.
   */
  #leave(staying: readonly OwnTarget[]): void {
    const stays = new Set(staying);
    for (const target of this.#order) {
      if (!stays.has(target)) write(loadOf(target), PLACE, LEFT);
    }
  }
}

const loadOf = (target: OwnTarget): RuledLoad => target.load as RuledLoad;

/** Reads one of the numbers that are known about an endpoint. @param field An index of `latency-cell`. */
const read = ({ numbers, at }: RuledLoad, field: number): number => numbers[at + field] as number;

/** Changes one of the numbers that are known about an endpoint. @param field An index of `latency-cell`. */
const write = ({ numbers, at }: RuledLoad, field: number, value: number): void => {
  numbers[at + field] = value;
};

/**
 * The cost of one more call on a target, in `UNITS` (see `latency-cell`). It is an integer, because V8 would put a fraction on the heap.
 */
function costOf(target: OwnTarget): number {
  const cost = (target.inFlight + 1) * (read(loadOf(target), ORDER_COST) || UNITS);
  return cost < MOST_UNITS ? cost | 0 : MOST_UNITS;
}

const wholeCalls = (cost: number): number => Math.ceil(cost / UNITS) * UNITS;

/** Whether enough recent calls on an endpoint were measured to compare it with others. */
function knows(load: RuledLoad, nowMs: number): boolean {
  return read(load, KNOWN) >= ENOUGH_KNOWN && nowMs - read(load, UPDATED) < FORGOTTEN_MS;
}

/**
 * Returns the endpoints in the order of their places. An endpoint that has returned enters at the edge of those in use, a new one at a
 * random place.
 */
function ordered(all: readonly OwnTarget[], edge: number, random: Random32): OwnTarget[] {
  const placeOf = (target: OwnTarget): number => read(loadOf(target), PLACE);
  const order = all.filter((each) => placeOf(each) > 0).sort((a, b) => placeOf(a) - placeOf(b));
  const isFirst = all.every((each) => placeOf(each) === 0);
  for (const each of all) {
    const place = placeOf(each);
    if (place > 0) continue;
    if (place === 0 && !isFirst) write(loadOf(each), TRIALS, FIRST_TRIALS);
    order.splice(place === LEFT ? Math.min(edge, order.length) : random.index(order.length + 1), 0, each);
  }
  return order;
}
