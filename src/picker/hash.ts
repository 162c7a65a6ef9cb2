import { type Endpoint, endpointAddress, withOtherFirst } from '../endpoint/endpoint.js';
import { checkFunction } from '../runtime/check.js';
import type { Complete } from '../runtime/complete.js';
import { hash32, mix32 } from '../runtime/hash.js';
import { maglevTable } from '../runtime/maglev.js';
import { checkedOption, choiceOption, numberOption, type OptionTable, optionTable } from '../runtime/options.js';
import { firstFitting } from './fallback.js';
import { p2c } from './p2c.js';
import {
  fits,
  type OwnTarget,
  ownSet,
  type Picker,
  type PickerContext,
  type PickerFactory,
  type PickRequest,
  type PickSet,
} from './picker.js';

/**
 * Options of `hash`: how keys map to endpoints, and when an endpoint has too many calls to take its keys' calls. Invalid options throw
 * EVENKEEL_OPTION.
 */
export interface HashOptions {
  /**
   * How keys map to endpoints.
   * - `auto`: rendezvous up to 16 endpoints, Maglev above. When a Service grows past 16, nearly all its keys move once.
   * - `maglev`: always Maglev: no such jump, but a few more keys move when a small set changes.
   * @defaultValue 'auto'
   */
  readonly method?: 'auto' | 'maglev' | undefined;
  /**
   * How many times its fair share of the calls in flight an endpoint may have before its keys' calls go to other endpoints, at least 1.05;
   * Infinity = no limit. The count covers the calls of this process, and those of all clients while servers report them. @defaultValue
   * Infinity
   */
  readonly maxLoadRatio?: number | undefined;
  /**
   * An endpoint with fewer calls in flight than this takes its keys' calls whatever `maxLoadRatio` says, because with few calls, chance
   * alone gives one endpoint twice as many as another. @defaultValue 1
   */
  readonly minInFlight?: number | undefined;
  /**
   * What decides which keys an endpoint gets.
   * - `address`: its address and port. Processes that discover the endpoints in different ways agree.
   * - `name`: its pod's name and port, so the pod that replaces one of a StatefulSet gets the keys of its predecessor. Only EndpointSlices
   *   contain names: an endpoint without one, or whose name another endpoint has too, counts by its address. Every process that should
   *   agree must find the endpoints by EndpointSlices.
   * @defaultValue 'address'
   */
  readonly placeBy?: 'address' | 'name' | undefined;
  /**
   * The picker for calls without a key; `''`, null and anything that is neither a string nor a number count as no key.
   * @defaultValue p2c()
   */
  readonly withoutKey?: PickerFactory | undefined;
}

export const hashTable: OptionTable<Complete<HashOptions>> = optionTable('hash', {
  method: choiceOption('auto', ['auto', 'maglev']),
  maxLoadRatio: numberOption(Number.POSITIVE_INFINITY, { min: 1.05, infinite: true }),
  minInFlight: numberOption(1, { min: 1, max: 1_000_000, integer: true }),
  placeBy: choiceOption('address', ['address', 'name']),
  withoutKey: checkedOption(p2c(), (name, value) => {
    checkFunction(name, value);
    return value as PickerFactory;
  }),
});

/**
 * The number of entries in a table (Maglev). Shares are within one entry of the weights. The number is prime, so that a walk with any step
 * size visits all entries.
 */
const TABLE_SIZE = 65_537;
/** With up to this many endpoints, scoring each one (rendezvous) is about as fast as a table, and moves the fewest keys. */
const RENDEZVOUS_UP_TO = 16;
/** How many table entries are tried for an endpoint that can take the call before all endpoints are scored. */
const MAX_WALK = 64;
/** With more endpoints than `MANY`, the calls that servers report are added up at most once per `ADD_MS`. */
const MANY = 64;
const ADD_MS = 10;

/**
 * Calls with the same key go to the same endpoint (IPVS: sh, dh; mh is Maglev), for caches or state in the pods. When an endpoint is added
 * or removed, about 1 / n of the keys move. Keys map to all endpoints with weight, ready or not, and a call whose endpoint cannot take it
 * goes to another one, so a reconnect moves no key for good. Endpoints count by address and port, so processes that discover them in
 * different ways agree, or by name (`placeBy`).
 *
 * With `maxLoadRatio`, calls for an overloaded endpoint go to the next endpoints in the order of their key.
 * Sources: Thaler, Ravishankar, Using Name-Based Mappings to Increase Hit Rates, IEEE/ACM ToN 6(1), 1998 (rendezvous); Schindelhauer,
 * Schomaker, Weighted Distributed Hash Tables, SPAA 2005 (its weights); Eisenbud et al., NSDI 2016 (Maglev); Mirrokni et al., Consistent
 * Hashing with Bounded Loads, SODA 2018.
 */
export const hash = (options: HashOptions = {}): PickerFactory => {
  const settings = hashTable.resolve(options);
  const factory: PickerFactory = (set, previous, context) => new HashPicker(ownSet(set), previous, context, settings);
  return factory;
};

/** How the hash of a key leads to an endpoint: through a table of entries, or by scoring every endpoint. */
interface Mapping {
  readonly names: readonly string[];
  readonly weights: readonly number[];
  readonly equal: boolean;
  readonly method: string;
  /** For each entry of the table, the index of the endpoint that owns it. */
  readonly table: Int32Array | undefined;
  /** The hash of each endpoint's name, for scoring endpoints (rendezvous). */
  readonly hashes: Int32Array;
}

class HashPicker implements Picker<OwnTarget> {
  readonly #set: PickSet<OwnTarget>;
  readonly #mapping: Mapping;
  readonly #maxLoadRatio: number;
  readonly #minInFlight: number;
  /** The picker that the option `withoutKey` sets for calls without a key. */
  readonly #withoutKey: Picker;
  /** With `maxLoadRatio`: each endpoint's share of the weight of all ready endpoints, by its index in the set's `all`. */
  readonly #shares: Float64Array | undefined;
  readonly #members: ReadonlySet<OwnTarget> | undefined;
  #inFlight = 0;
  /**
   * While servers report their calls in flight: the sum over all endpoints and clients, including the call being picked for. Otherwise 0.
   */
  #reported = 0;
  #reportedAtMs = Number.NEGATIVE_INFINITY;
  /**
   * With `maxLoadRatio`: the target picked last, and how many calls it had started by then. Only the next pick shows whether the last one
   * became a call.
   */
  #picked: OwnTarget | undefined;
  #startedBefore = 0;

  constructor(
    set: PickSet<OwnTarget>,
    previous: Picker | undefined,
    context: PickerContext,
    settings: Complete<HashOptions>,
  ) {
    const { maxLoadRatio, minInFlight, withoutKey } = settings;
    const before = previous instanceof HashPicker ? (previous as HashPicker) : undefined;
    this.#set = set;
    this.#withoutKey = withoutKey(set, before === undefined ? previous : before.#withoutKey, context);
    this.#mapping = mappingOf(set, settings, before === undefined ? undefined : before.#mapping);
    this.#maxLoadRatio = maxLoadRatio;
    this.#minInFlight = minInFlight;
    if (maxLoadRatio === Number.POSITIVE_INFINITY) return;
    const { all, allWeights } = set;
    // Shares are of the ready endpoints' weight: with shares of all weight, some calls would find every endpoint above its bound.
    const total = set.weights.reduce((sum, weight) => sum + weight, 0);
    this.#shares = Float64Array.from(allWeights, (weight) => weight / total);
    this.#members = new Set(all);
    for (const { inFlight } of all) this.#inFlight += inFlight;
  }

  pick(request: PickRequest): OwnTarget | undefined {
    this.#settle();
    const key = keyOf(request.key);
    if (key !== undefined && this.#shares !== undefined) this.#addReports(request.nowMs);
    const picked =
      key === undefined ? (this.#withoutKey.pick(request) as OwnTarget | undefined) : this.#byKey(request, key);
    if (picked !== undefined && this.#members !== undefined) {
      this.#picked = picked;
      this.#startedBefore = picked.started;
    }
    return picked;
  }

  ended(target: OwnTarget): void {
    this.#settle();
    if (this.#members?.has(target) === true) this.#inFlight--;
    this.#withoutKey.ended?.(target);
  }

  /** Counts the last pick if a call began with it. */
  #settle(): void {
    const picked = this.#picked;
    if (picked === undefined) return;
    this.#picked = undefined;
    if (picked.started !== this.#startedBefore) this.#inFlight++;
  }

  #byKey(request: PickRequest, key: string): OwnTarget | undefined {
    const { all } = this.#set;
    const { table } = this.#mapping;
    const hashed = hash32(key);
    if (table === undefined) return this.#scored(request, hashed);
    // Divided by a constant: with the length of the array in its place, a pick took a tenth longer.
    let entry = (hashed >>> 0) % TABLE_SIZE;
    for (let step = MAX_WALK; step > 0; step--) {
      const index = table[entry] as number;
      if (this.#mayTake(index, request)) return all[index];
      if (++entry === TABLE_SIZE) entry = 0;
    }
    return this.#scored(request, hashed);
  }

  /**
   * Picks the endpoint with the highest score for the key (rendezvous) among those that can take the call. O(n). If weights differ, a score
   * s becomes −weight / ln(s), which gives shares by weight. Equal weights would not change the order, so keys move only as far as weights
   * change.
   */
  #scored(request: PickRequest, hashed: number): OwnTarget | undefined {
    const { all } = this.#set;
    const { hashes, equal, weights } = this.#mapping;
    let best = -1;
    let bestScore = Number.NEGATIVE_INFINITY;
    for (let index = 0; index < all.length; index++) {
      let score = mix32(hashes[index] as number, hashed);
      if (!equal) score = -(weights[index] as number) / Math.log((score + 2_147_483_648.5) / 4_294_967_296);
      if (score <= bestScore || !this.#mayTake(index, request)) continue;
      best = index;
      bestScore = score;
    }
    if (best !== -1) return all[best];
    return firstFitting(this.#set, request, (hashed >>> 0) % Math.max(1, this.#set.targets.length));
  }

  #mayTake(index: number, request: PickRequest): boolean {
    const target = this.#set.all[index] as OwnTarget;
    if (!fits(target, request)) return false;
    if (this.#shares === undefined) return true;
    // How many calls this endpoint may have: its share of all calls including this one, rounded up so that every endpoint may take a first
    // call.
    const share = this.#maxLoadRatio * (this.#shares[index] as number);
    const least = this.#minInFlight;
    if (this.#reported === 0) return target.inFlight < Math.max(least, Math.ceil(share * (this.#inFlight + 1)));
    return callsThere(target, request.nowMs) <= Math.max(least, Math.ceil(share * this.#reported));
  }

  /** Adds up the calls that servers report. It reads every endpoint, so with many endpoints it runs only now and then. */
  #addReports(nowMs: number): void {
    const { targets } = this.#set;
    if (targets.length > MANY && nowMs - this.#reportedAtMs < ADD_MS) return;
    this.#reportedAtMs = nowMs;
    this.#reported = 0;
    // The `unit` of a load is 0 while no server reports its calls.
    if (targets.length === 0 || (targets[0] as OwnTarget).unit === 0) return;
    let sum = 1;
    for (let index = 0; index < targets.length; index++) sum += callsThere(targets[index] as OwnTarget, nowMs) - 1;
    this.#reported = sum;
  }
}

/** How many calls of all clients are in flight on a target, plus one. The target's latency and failures make no difference. */
function callsThere(target: OwnTarget, nowMs: number): number {
  return target.cost(nowMs) / (target.unit || 1);
}

/**
 * Converts what an application's key function returned to a key: a number becomes its digits; '', null and anything else that is no key
 * mean that the call has none.
 */
function keyOf(key: unknown): string | undefined {
  if (typeof key === 'string') return key === '' ? undefined : key;
  if (typeof key === 'bigint' || (typeof key === 'number' && Number.isFinite(key))) return String(key);
  return undefined;
}

/** Returns the mapping from keys to a set's endpoints. It is `before` itself if endpoints and weights are unchanged. */
function mappingOf(
  set: PickSet<OwnTarget>,
  { method, placeBy }: Complete<HashOptions>,
  before: Mapping | undefined,
): Mapping {
  const { all, allWeights: weights } = set;
  const endpoints = all.map(({ endpoint }) => endpoint);
  const names = placeBy === 'name' ? podNames(endpoints) : endpoints.map(steadyAddress);
  if (before?.method === method && sameList(before.names, names) && sameList(before.weights, weights)) return before;
  const equal = weights.every((weight) => weight === weights[0]);
  const hashes = Int32Array.from(names, (name) => hash32(name));
  let table: Int32Array | undefined;
  if (names.length > RENDEZVOUS_UP_TO || (names.length > 1 && method === 'maglev')) {
    table = maglevTable(names, weights, TABLE_SIZE);
  }
  return { names, weights, equal, method, table, hashes };
}

/**
 * The names of the endpoints' pods, used as the names that are hashed. Two endpoints with one name would get very different numbers of
 * keys, so they count by address.
 */
function podNames(endpoints: readonly Endpoint[]): string[] {
  const found = endpoints.map(({ name, port }) => (name === undefined ? undefined : `${name}:${port}`));
  const times = new Map<string | undefined, number>();
  for (const name of found) times.set(name, (times.get(name) ?? 0) + 1);
  return found.map((name, index) =>
    name !== undefined && times.get(name) === 1 ? name : steadyAddress(endpoints[index] as Endpoint),
  );
}

/** The IPv4 address if an endpoint has two, whichever of them is in use, so that keys stay on their endpoint when it changes. */
function steadyAddress(endpoint: Endpoint): string {
  return endpointAddress(endpoint.address.includes(':') ? withOtherFirst(endpoint) : endpoint);
}

function sameList<T>(a: readonly T[], b: readonly T[]): boolean {
  return a.length === b.length && a.every((item, index) => item === b[index]);
}
