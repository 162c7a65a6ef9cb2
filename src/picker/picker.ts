import type { Subchannel } from '../pool/subchannel.js';
import type { Rng } from '../runtime/rng.js';

/**
 * Chooses a subchannel for each call. Immutable over its set; a new one is built when the set, a connection or a
 * weight changes. `pick` is synchronous, allocates nothing and never logs.
 */
export interface Picker<C> {
  /**
   * Picks once. Skips subchannels at capacity and prefers those not in `request.avoid`; if only avoided ones can take the call
   * it returns one of them. `undefined`: none can take it now. The caller starts the call or drops the pick.
   */
  pick(request: PickRequest<C>): Subchannel<C> | undefined;
  /** A call on `subchannel` ended: for pickers that keep an order. */
  ended?(subchannel: Subchannel<C>): void;
}

/** The input of a pick. The balancer reuses ONE object: a picker must not keep it. */
export interface PickRequest<C> {
  /** The time of the pick on the balancer's clock, in ms. */
  nowMs: number;
  /** What hash pickers hash; undefined = no affinity. */
  key: string | undefined;
  /** Subchannels that failed this call before. */
  avoid: ReadonlySet<Subchannel<C>> | undefined;
}

/**
 * A request to reuse. Its time starts as a value that is not a number: V8 then stores a pointer to the clock's number and
 * passes that on. A field that always held a number would be boxed again for every load that reads it.
 */
export function createPickRequest<C>(): PickRequest<C> {
  const request = { nowMs: undefined as unknown as number, key: undefined, avoid: undefined };
  request.nowMs = 0;
  return request;
}

/** What a picker may choose from. Parallel arrays; weights are above 0. */
export interface PickSet<C> {
  /** Ready to take calls. */
  readonly subchannels: readonly Subchannel<C>[];
  /** The weight of each of `subchannels`, by the same index; above 0. */
  readonly weights: readonly number[];
  /** Whether all `weights` are the same. */
  readonly equalWeights: boolean;
  /** Every subchannel with weight, ready or not: for pickers whose result must not change with a reconnect. */
  readonly all: readonly Subchannel<C>[];
  /** The weight of each of `all`, by the same index; above 0. */
  readonly allWeights: readonly number[];
}

/** What a picker gets besides its set, when it is created. */
export interface PickerContext {
  /** The only source of chance a picker may use, so that tests can repeat its picks. */
  readonly rng: Rng;
}

/** A picker as an option. `previous` is the picker being replaced, of any kind, so that a cursor can carry on. */
export type PickerFactory = <C>(set: PickSet<C>, previous: Picker<C> | undefined, context: PickerContext) => Picker<C>;

/** Whether `subchannel` can take one more call and `request` does not avoid it. */
export function fits<C>(subchannel: Subchannel<C>, request: PickRequest<C>): boolean {
  return subchannel.hasRoom && (request.avoid === undefined || !request.avoid.has(subchannel));
}
