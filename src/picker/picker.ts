import type { Endpoint } from '../endpoint/endpoint.js';
import type { Load } from '../load/load.js';
import type { Rng } from '../runtime/rng.js';

/**
 * What a picker may choose: one endpoint, and what is known about it now. A picker's set holds the same object for as long as the endpoint
 * stays, so compare targets with `===`.
 */
export interface PickTarget {
  /** The latest data of the endpoint; its key never changes. */
  readonly endpoint: Endpoint;
  /** Calls of this process that run on the endpoint now. */
  readonly inFlight: number;
  /** Whether the endpoint can take one more call now. */
  readonly hasRoom: boolean;
  /** The cost of one more call on the endpoint now, according to the load: above 0, smaller is better. Divide it by the weight. */
  cost(nowMs: number): number;
}

/**
 * Chooses a target for each call. A picker keeps one immutable set; a new picker is built when the set, a connection or a weight changes.
 * `pick` is synchronous, allocates nothing and never logs.
 */
export interface Picker<T extends PickTarget = PickTarget> {
  /**
   * Picks a target for one call. Skips targets without room and prefers those not in `request.avoid`; if only avoided ones can take the
   * call it returns one of them. `undefined`: none can take it now. The caller starts the call or drops the pick.
   */
  pick(request: PickRequest): T | undefined;
  /** A call on `target` ended: for pickers that keep an order. */
  ended?(target: T): void;
}

/** The input of a pick. The balancer reuses ONE object: a picker must not keep it. */
export interface PickRequest {
  /** The time of the pick on the balancer's clock, in ms. */
  nowMs: number;
  /** The key of the call, which hash pickers hash; undefined = no affinity. */
  key: string | undefined;
  /** Targets on which this call failed before. */
  avoid: ReadonlySet<PickTarget> | undefined;
}

/**
 * A pick request to reuse. Its `nowMs` starts as a value that is not a number: V8 then stores a pointer to the clock's number and passes
 * that on. A field that always held a number would be boxed again for every load that reads it.
 */
export function createPickRequest(): PickRequest {
  const request = { nowMs: undefined as unknown as number, key: undefined, avoid: undefined };
  request.nowMs = 0;
  return request;
}

/** What a picker may choose from. Parallel arrays; weights are above 0. */
export interface PickSet<T extends PickTarget = PickTarget> {
  /** The targets that are ready to take calls. */
  readonly targets: readonly T[];
  /** The weight of each of `targets`, by the same index; above 0. */
  readonly weights: readonly number[];
  /** Whether all of `weights` are the same. */
  readonly equalWeights: boolean;
  /** Every target with weight, ready or not: for pickers whose result must not change with a reconnect. */
  readonly all: readonly T[];
  /** The weight of each of `all`, by the same index; above 0. */
  readonly allWeights: readonly number[];
}

/** What a picker gets besides its set, when it is created. */
export interface PickerContext {
  /** The only source of chance a picker may use, so that tests can repeat its picks. */
  readonly rng: Rng;
}

/** A picker as an option. `previous` is the picker being replaced, of any kind, so that a cursor can carry on. */
export type PickerFactory = (set: PickSet, previous: Picker | undefined, context: PickerContext) => Picker;

/** Whether `target` can take one more call and `request` does not avoid it. */
export function fits(target: PickTarget, request: PickRequest): boolean {
  return target.hasRoom && (request.avoid === undefined || !request.avoid.has(target));
}

/** What evenkeel's own pickers read of a target besides. Every set that a balancer makes holds subchannels, which have these members. */
export interface OwnTarget extends PickTarget {
  readonly load: Load;
  /** How many calls on the endpoint have begun since it was added. */
  readonly started: number;
  /** What each further call adds to the endpoint's cost; 0 = cost / (calls in flight + 1). */
  readonly unit: number;
  /** How many endpoints the target's load wants compared for a call. */
  readonly choices: number;
  /** The target's index in the current picker's set, for pickers that use it. */
  indexInSet: number;
}

/** A set as evenkeel's own pickers see it. */
export const ownSet = (set: PickSet): PickSet<OwnTarget> => set as PickSet<OwnTarget>;
