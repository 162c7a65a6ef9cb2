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
  /** Whether it compares endpoints by `Subchannel.cost`. Only then are they asked how busy they are. @defaultValue false */
  readonly comparesLoad?: boolean;
  /** A call on `subchannel` ended: for pickers that keep an order. */
  ended?(subchannel: Subchannel<C>): void;
}

/** The input of a pick. ONE object, reused by the balancer: a picker must not keep it. */
export interface PickRequest<C> {
  nowMs: number;
  /** What hash pickers hash; undefined = no affinity. */
  key: string | undefined;
  /** Subchannels that failed this call before. */
  avoid: ReadonlySet<Subchannel<C>> | undefined;
  /** Some of the set that said lately how busy they are, because they were asked: worth comparing, besides those drawn. */
  informed?: readonly Subchannel<C>[] | undefined;
}

/**
 * A request to reuse. Its time begins as no number at all: V8 then keeps a pointer to the clock's number in it and hands
 * that on, where a field of numbers would be boxed anew for every load that is asked.
 */
export function createPickRequest<C>(): PickRequest<C> {
  const request = { nowMs: undefined as unknown as number, key: undefined, avoid: undefined, informed: undefined };
  request.nowMs = 0;
  return request;
}

/** What a picker may choose from. Parallel arrays; weights are above 0. */
export interface PickSet<C> {
  /** Ready to take calls. */
  readonly subchannels: readonly Subchannel<C>[];
  readonly weights: readonly number[];
  /** Whether all `weights` are the same. */
  readonly equalWeights: boolean;
  /** Every subchannel with weight, ready or not: for pickers whose result must not change with a reconnect. */
  readonly all: readonly Subchannel<C>[];
  readonly allWeights: readonly number[];
}

export interface PickerContext {
  readonly rng: Rng;
}

/** A picker as an option. `previous` is the one being replaced, of any kind, so that a cursor can be continued. */
export type PickerFactory = <C>(set: PickSet<C>, previous: Picker<C> | undefined, context: PickerContext) => Picker<C>;

/** True if `subchannel` can take one more call that does not avoid it. */
export function fits<C>(subchannel: Subchannel<C>, request: PickRequest<C>): boolean {
  return subchannel.hasRoom && (request.avoid === undefined || !request.avoid.has(subchannel));
}
