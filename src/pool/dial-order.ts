import type { Rng } from '../runtime/rng.js';
import type { Subchannel, SubchannelState } from './subchannel.js';

/** A new endpoint's subchannel, with the weight the stages gave it. */
interface Newcomer<C> {
  readonly subchannel: Subchannel<C>;
  readonly weight: number;
}

/** How many endpoints are drawn for the first calls after a start. The first call goes to one of them, the second call to the other. */
const DRAWN = 2;

/**
 * Returns new endpoints in the order in which they are connected: drawn at random by weight, those on standby last. The first to be
 * connected gets the first calls; in list order, that would be the same endpoint for every client that starts.
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
 * The endpoints that get the first calls after a start, when nothing was connected before: the first of the drawn order that do not fail.
 * Taking those that connect first would favor the nearest or idlest endpoint in every client.
 */
export class FirstDrawn<C> {
  /** The endpoints that may get the first calls. The first of the drawn order is at the end, where removing it moves no others. */
  #order: Subchannel<C>[] = [];
  #isHalfServed = false;

  /**
   * Adds endpoints that are about to be connected in this order while nothing is connected. They come after those that were added before.
   */
  add(newcomers: readonly Newcomer<C>[]): void {
    const order = newcomers.filter(hasShare).map(({ subchannel }) => subchannel);
    this.#order = [...order.reverse(), ...this.#order];
  }

  /** Ends the start: no endpoint is reserved for first calls any longer. */
  end(): void {
    if (this.#order.length > 0) this.#order = [];
  }

  /** Whether one of the drawn endpoints has had a call and another has not, as of the last read of `waiting`. */
  get isHalfServed(): boolean {
    return this.#isHalfServed;
  }

  /** The drawn endpoints, at most two, that have had no call yet and are connecting or ready. */
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
