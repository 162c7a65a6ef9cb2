import type { Endpoint } from '../endpoint/endpoint.js';
import type { Load } from '../load/load.js';
import type { Rng } from '../runtime/rng.js';

/**
 * One endpoint that a picker may choose, and what is known about it now. A set holds the same object for as long as its endpoint stays, so
 * targets can be compared with `===`.
 */
export interface PickTarget {
  /** The latest data of the endpoint; its key never changes. */
  readonly endpoint: Endpoint;
  /** How many calls of this process run on the endpoint now. */
  readonly inFlight: number;
  /** Whether the endpoint can take one more call now. */
  readonly hasRoom: boolean;
  /**
   * The cost of one more call on the endpoint now, according to the load: above 0, smaller is better. Pickers divide it by the endpoint's
   * weight.
   */
  cost(nowMs: number): number;
}

/**
 * Chooses a target for each call. A picker keeps one immutable set; a new picker is built when the set, a connection or a weight changes.
 * `pick` is synchronous, allocates nothing and never logs.
 */
export interface Picker<T extends PickTarget = PickTarget> {
  /**
   * Picks a target for one call. Skips targets without room and prefers those not in `request.avoid`; if only avoided ones can take the
   * call, returns one of them. Returns `undefined` if no target can take the call now. The caller then starts a call on the target, or
   * drops the pick.
   */
  pick(request: PickRequest): T | undefined;
  /** Called when a call on `target` ended. Pickers that keep targets in an order by load need it. */
  ended?(target: T): void;
}

/** What a picker may know about the call. The balancer reuses ONE object for all picks, so a picker must not keep it. */
export interface PickRequest {
  /** The time of the pick, in ms on the balancer's clock. */
  nowMs: number;
  /** The key of the call, which hash pickers hash; undefined = any endpoint will do. */
  key: string | undefined;
  /** Targets on which this call was tried before; undefined = none. */
  avoid: ReadonlySet<PickTarget> | undefined;
}

/**
 * Creates the pick request that all picks reuse. Its `nowMs` starts as something other than a number, so that V8 stores a pointer to the
 * clock's number in it and passes that pointer on. In a field that always held numbers, V8 would put the number on the heap again for every
 * load that reads it.
 */
export function createPickRequest(): PickRequest {
  const request = { nowMs: undefined as unknown as number, key: undefined, avoid: undefined };
  request.nowMs = 0;
  return request;
}

/** The endpoints that a picker may choose from, as parallel arrays. */
export interface PickSet<T extends PickTarget = PickTarget> {
  /** The targets that are connected and ready to take calls. */
  readonly targets: readonly T[];
  /** The weight of each target in `targets`, by its index; above 0. */
  readonly weights: readonly number[];
  /** Whether all of `weights` are the same. */
  readonly equalWeights: boolean;
  /** All targets with a weight above 0, ready or not, for pickers whose choice must not change when an endpoint reconnects. */
  readonly all: readonly T[];
  /** The weight of each target in `all`, by its index; above 0. */
  readonly allWeights: readonly number[];
}

/** What a picker's factory gets besides the set. */
export interface PickerContext {
  /** The only source of randomness that a picker may use, so that tests can repeat its picks. */
  readonly rng: Rng;
}

/**
 * Creates pickers; the value of the option `picker`. `previous` is the picker being replaced, of any kind, so that the new one can continue
 * from its state.
 */
export interface PickerFactory {
  (set: PickSet, previous: Picker | undefined, context: PickerContext): Picker;
  /**
   * Whether its pickers never read the cost of a call. The load is then `inFlight()` unless the options name another, so that nothing is
   * measured that nobody reads. @defaultValue false
   */
  readonly ignoresLoad?: boolean;
}

/** Whether `target` can take one more call and `request` does not avoid it. */
export function fits(target: PickTarget, request: PickRequest): boolean {
  return target.hasRoom && (request.avoid === undefined || !request.avoid.has(target));
}

/**
 * What evenkeel's own pickers read of a target, in addition to `PickTarget`. Every set that a balancer makes holds subchannels, which have
 * these members.
 */
export interface OwnTarget extends PickTarget {
  readonly load: Load;
  /** How many calls have begun on the endpoint since it was added. */
  readonly started: number;
  /** What each further call adds to the endpoint's cost; 0 = cost / (calls in flight + 1). */
  readonly unit: number;
  /** How many endpoints a picker should compare for a call, according to the load. */
  readonly choices: number;
  /** The target's index in the set of the current picker; only pickers that need it write and read it. */
  indexInSet: number;
}

/** The same set, with the members that evenkeel's own pickers read. */
export const ownSet = (set: PickSet): PickSet<OwnTarget> => set as PickSet<OwnTarget>;
