import { COST, INDEX, MAX_UNITS, ONLY_FIRST, PRICE, UNITS, WITHHELD } from '../load/latency-cell.js';
import { RuledLoad } from '../load/load-rule.js';
import { AVERAGE, FRONT, type RingStart } from '../load/ring-start.js';
import { checkNoOptions } from '../runtime/check.js';
import { hash32 } from '../runtime/hash.js';
import { Random32 } from '../runtime/random32.js';
import type { Rng } from '../runtime/rng.js';
import { firstFitting } from './fallback.js';
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

/** With fewer endpoints than this there is no ring: turns are exactly even and cost little. */
const MIN_ENDPOINTS = 4;
/**
 * A pick passes over this many idle endpoints that fail, are slow or may not be used before it gives up looking for a good one. Then, or if
 * none is idle, it compares the first `COMPARED` and `DRAWS` of all that may be used, or all if they are few.
 */
const MAX_LOOKS = 16;
const COMPARED = 4;
const DRAWS = 4;
/** While servers report their load, between so many endpoints from the front on are compared, and so many draws of the others. */
const MIN_REPORTING = 8;
const MAX_REPORTING = 16;
const REPORTING_DRAWS = 4;
/** Random numbers from 0 to 1 are compared as integers of this range, because V8 would put fractions on the heap. */
const RANGE = 2 ** 20;

/**
 * All clients sort the endpoints into the same ring and turn it at the same rate: three endpoints a second. Each client has a start of its
 * own on the ring. A call goes to the first endpoint from there on that has none of this client's calls. O(1) per pick, apart from one step
 * for each 32 endpoints that are busy. The default picker.
 *
 * So a client's calls are on few endpoints at a time, its aperture, and its own count says how busy they are: an endpoint that is slow now
 * keeps its call and gets no other. As the ring turns, each client uses all endpoints alike. As all turn at the same rate, clients keep
 * their distance; where they crowd, calls are slower, and they move apart. A slow endpoint is passed over in a part of its turns, one that
 * fails counts as having more calls. The first calls of a client, and single calls after a pause, take turns.
 *
 * With two or three endpoints, with weights that differ, and with a load other than `relativeLatency`, this picker is `p2c`.
 *
 * Sources: the aperture of Finagle, there of random or coordinated starts; ordered hunting, as in telephone exchanges.
 */
export const rotatingAperture = (...none: []): PickerFactory => {
  checkNoOptions('rotatingAperture', none);
  const withoutRing = p2c();
  return (set, previous, context) => {
    const own = ownSet(set);
    const start = startOf(own);
    if (start === undefined) return withoutRing(set, previous, context);
    return new RotatingAperture(own, start, context.rng);
  };
};

/** The client's start on the ring; undefined if the endpoints of `set` cannot form one. */
function startOf(set: PickSet<OwnTarget>): RingStart | undefined {
  if (!set.equalWeights || set.all.length < MIN_ENDPOINTS) return undefined;
  let found: RingStart | undefined;
  for (const { load } of set.all) {
    const start = load instanceof RuledLoad ? load.rule.ring : undefined;
    if (start === undefined || (found ?? start) !== start) return undefined;
    found = start;
  }
  return found;
}

class RotatingAperture implements Picker<OwnTarget> {
  readonly #set: PickSet<OwnTarget>;
  readonly #start: RingStart;
  readonly #random: Random32;
  /** All endpoints of the set in ring order, so that clients agree on it whatever their connections do; undefined = not ready. */
  readonly #ring: (OwnTarget | undefined)[];
  /** The loads of the endpoints, by index in the ring. */
  readonly #loads: RuledLoad[];
  /** One bit for each endpoint, 32 in a number: 0 = it was busy when a pick last looked, and none of its calls has ended since. */
  readonly #mayBeIdle: Int32Array;

  constructor(set: PickSet<OwnTarget>, start: RingStart, rng: Rng) {
    this.#set = set;
    this.#start = start;
    this.#random = new Random32(rng);
    this.#mayBeIdle = start.mayBeIdle = new Int32Array(Math.ceil(set.all.length / 32)).fill(-1);
    const all = inRingOrder(set.all);
    const ready = new Set(set.targets);
    this.#ring = all.map((target) => (ready.has(target) ? target : undefined));
    this.#loads = all.map(({ load }) => load as RuledLoad);
    this.#loads.forEach(({ numbers, at }, index) => {
      numbers[at + INDEX] = index;
    });
  }

  pick(request: PickRequest): OwnTarget | undefined {
    const random = this.#random;
    const { length } = this.#ring;
    const { state } = this.#start;
    this.#start.advance(request.nowMs, length, random);
    // An integer: V8 would check an index that may have a fraction at each use.
    const front = (state[FRONT] as number) | 0;
    const picked = this.#start.costs.hasReports ? this.#byReports(request, front) : this.#byCalls(request, front);
    return picked ?? firstFitting(this.#set, request, random.index(Math.max(1, this.#set.targets.length)));
  }

  /** The first endpoint from the front on that is idle, as far as this client knows; else the cheapest of some. */
  #byCalls(request: PickRequest, front: number): OwnTarget | undefined {
    const mayBeIdle = this.#mayBeIdle;
    const { length } = this.#ring;
    let place = 0;
    for (let looks = 0; place < length && looks < MAX_LOOKS; ) {
      const from = wrapped(front + place, length);
      const bits = (mayBeIdle[from >> 5] as number) >>> (from & 31);
      // How many endpoints this number has from here on, and how many of them are busy before the first that may be idle.
      const left = Math.min(32 - (from & 31), length - from);
      const busy = bits === 0 ? left : Math.min(left, 31 - Math.clz32(bits & -bits));
      place += busy;
      if (busy === left || place >= length) continue;
      const index = from + busy;
      if (this.#isWanted(request, index, place)) return this.#ring[index];
      // A busy one is not looked at again until a call on it ends.
      if (isSet(mayBeIdle, index)) looks++;
      place++;
    }
    let best: OwnTarget | undefined;
    let bestCost = MAX_UNITS;
    const isSmall = length <= MAX_LOOKS;
    let missing = isSmall ? length : COMPARED + DRAWS;
    for (let look = 0; missing > 0 && look < Math.min(length, MAX_LOOKS); look++) {
      const drawn = isSmall || look < COMPARED ? look : this.#random.index(length);
      const index = wrapped(front + drawn, length);
      const target = this.#ring[index];
      if (target === undefined || !fits(target, request)) continue;
      missing--;
      const { numbers, at } = this.#loads[index] as RuledLoad;
      // One that is slow gets its call where the others have so many that it would still be later there.
      if ((numbers[at + WITHHELD] as number) === ONLY_FIRST && drawn > 0) continue;
      const cost = Math.min((target.inFlight + 1) * ((numbers[at + COST] as number) || UNITS), MAX_UNITS - 1) | 0;
      if (cost >= bestCost) continue;
      best = target;
      bestCost = cost;
    }
    return best;
  }

  /** Whether an endpoint has no call of this client and is not passed over now. @param place How far it is from the front. */
  #isWanted(request: PickRequest, index: number, place: number): boolean {
    const target = this.#ring[index];
    if (target === undefined || !fits(target, request)) return false;
    if (target.inFlight !== 0) {
      (this.#mayBeIdle[index >> 5] as number) &= ~(1 << index);
      return false;
    }
    const { numbers, at } = this.#loads[index] as RuledLoad;
    if ((numbers[at + PRICE] as number) > UNITS) return false;
    const withheld = numbers[at + WITHHELD] as number;
    return withheld === 0 || !this.#isPassedOver(withheld, place);
  }

  /**
   * The cheapest of the first endpoints from the front on by what servers report, where each place costs a little more than the one before.
   * If none of them is about as good as idle, a few drawn from the rest are compared too.
   */
  #byReports(request: PickRequest, front: number): OwnTarget | undefined {
    const ring = this.#ring;
    const { costs, state } = this.#start;
    const { length } = ring;
    const calls = (state[AVERAGE] as number) | 0;
    const scan = Math.min(length, MAX_REPORTING, Math.max(MIN_REPORTING, calls + 3));
    const rest = scan === length ? 0 : scan;
    let best: OwnTarget | undefined;
    costs.compare(request.nowMs);
    for (let look = 0; look < scan + REPORTING_DRAWS; look++) {
      if (look === scan && best !== undefined && !costs.isDear) return best;
      const index = wrapped(front + (look < scan ? look : rest + this.#random.index(length - rest)), length);
      const target = ring[index];
      if (target === undefined || !fits(target, request)) continue;
      const { numbers, at } = this.#loads[index] as RuledLoad;
      const withheld = numbers[at + WITHHELD] as number;
      // A slow one that is drawn is not passed over: it costs more, but the others may have so many calls that they are even slower.
      if (withheld !== 0 && (look < scan || withheld === ONLY_FIRST) && this.#isPassedOver(withheld, look)) continue;
      if (costs.isCheaper(numbers, at, target.inFlight, Math.min(look, scan), look < scan ? PRICE : COST))
        best = target;
    }
    return best;
  }

  /** Whether an endpoint that stands out gets no call now. @param look How many endpoints nearer to the front were looked at before. */
  #isPassedOver(withheld: number, look: number): boolean {
    return withheld === ONLY_FIRST ? look > 0 : this.#random.index(RANGE) < withheld * RANGE;
  }
}

const isSet = (bits: Int32Array, index: number): boolean => ((bits[index >> 5] as number) & (1 << index)) !== 0;

const wrapped = (index: number, length: number): number => (index < length ? index : index - length);

/** Sorts endpoints into the ring. The order must be the same for all clients, whether they found the endpoints by DNS or in slices. */
function inRingOrder(targets: readonly OwnTarget[]): OwnTarget[] {
  const hashed = targets.map((target) => {
    const name = nameOnRing(target);
    return { target, name, hash: hash32(name) };
  });
  hashed.sort((a, b) => a.hash - b.hash || (a.name < b.name ? -1 : 1));
  return hashed.map(({ target }) => target);
}

/**
 * Port and address, hashed because neighbors in a list of addresses are neighbors on a node. DNS knows no uid; of two addresses, the IPv4
 * one counts, whichever is dialed first.
 */
function nameOnRing({ endpoint: { address, otherAddress, port } }: OwnTarget): string {
  const isSecond = otherAddress !== undefined && address.includes(':');
  return `${port} ${isSecond ? otherAddress : address}`;
}
