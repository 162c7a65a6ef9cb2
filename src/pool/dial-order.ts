import type { Rng } from '../runtime/rng.js';
import type { Subchannel, SubchannelState } from './subchannel.js';

/** A new endpoint's subchannel, with the weight the stages gave it. */
interface Newcomer<C> {
  readonly subchannel: Subchannel<C>;
  readonly weight: number;
}

/**
 * This many endpoints are drawn for the first calls after a start: the first call goes to one of them, the second to the other.
 */
const DRAWN = 2;

/**
 * The order in which new endpoints are connected: drawn by weight, standby ones last. The first to be connected gets the first
 * calls; in list order that would be the same endpoint for every starting client.
 * Source: weighted sampling without replacement (Efraimidis, Spirakis, IPL 97(5), 2006).
 */
export function inDrawnOrder<C, N extends Newcomer<C>>(newcomers: readonly N[], rng: Rng): N[] {
  return newcomers
    .map((newcomer) => {
      const key = -Math.log(1 - rng.next());
      return { newcomer, standsBy: !hasShare(newcomer), key: hasShare(newcomer) ? key / newcomer.weight : key };
    })
    .sort((a, b) => Number(a.standsBy) - Number(b.standsBy) || a.key - b.key)
    .map(({ newcomer }) => newcomer);
}

/**
 * The endpoints that get the first calls after a start, when nothing was connected before: the first of the drawn order that do
 * not fail. Not simply those that connect first, because that would be the nearest or idlest endpoint for every client.
 */
export class FirstDrawn<C> {
  /** The endpoints that may get the first calls, with the first drawn at the end, where removing one moves little. */
  #order: Subchannel<C>[] = [];
  #isHalfServed = false;

  /** Nothing is connected, and these endpoints are about to be, in this order, after those that were added before. */
  add(newcomers: readonly Newcomer<C>[]): void {
    const order = newcomers.filter(hasShare).map(({ subchannel }) => subchannel);
    this.#order = [...order.reverse(), ...this.#order];
  }

  /** The start is over: endpoints are no longer drawn for first calls. */
  end(): void {
    if (this.#order.length > 0) this.#order = [];
  }

  /** Whether one of the drawn endpoints has had a call and another has not; as of the last `waiting`. */
  get isHalfServed(): boolean {
    return this.#isHalfServed;
  }

  /** Drawn endpoints without a call so far, connecting or ready, at most two. */
  get waiting(): readonly Subchannel<C>[] {
    const order = this.#order;
    const waiting: Subchannel<C>[] = [];
    let drawn = 0;
    for (let index = order.length - 1; index >= 0 && drawn < DRAWN; index--) {
      const subchannel = order[index] as Subchannel<C>;
      if (!mayConnect(subchannel.state)) {
        order.splice(index, 1);
        continue;
      }
      drawn++;
      if (subchannel.started === 0) waiting.push(subchannel);
    }
    this.#isHalfServed = waiting.length > 0 && waiting.length < drawn;
    return waiting;
  }
}

function mayConnect(state: SubchannelState): boolean {
  return state === 'idle' || state === 'connecting' || state === 'ready';
}

function hasShare({ weight }: { readonly weight: number }): boolean {
  return weight > 0 && weight < Number.POSITIVE_INFINITY;
}
