import type { Subchannel } from '../pool/subchannel.js';
import type { PickRequest, PickSet } from './picker.js';
import { fits } from './picker.js';

/**
 * The rule every picker ends with when its own choice cannot take the call: from index `from` on, the first subchannel
 * with room that is not avoided, else the first with room at all, else undefined. O(n), off the usual path.
 */
export function firstFitting<C>(set: PickSet<C>, request: PickRequest<C>, from: number): Subchannel<C> | undefined {
  const { subchannels } = set;
  const { length } = subchannels;
  let avoided: Subchannel<C> | undefined;
  for (let step = 0; step < length; step++) {
    const subchannel = subchannels[(from + step) % length] as Subchannel<C>;
    if (fits(subchannel, request)) return subchannel;
    if (avoided === undefined && subchannel.hasRoom) avoided = subchannel;
  }
  return avoided;
}

/**
 * The same for pickers that keep an order: the index of the one with the smallest key (turn, cost), of those with room
 * that are not avoided, else of those with room; -1: none. O(n).
 */
export function leastFitting<C>(set: PickSet<C>, keys: Float64Array, request: PickRequest<C>): number {
  const { subchannels } = set;
  let best = -1;
  let bestFits = false;
  for (let index = 0; index < subchannels.length; index++) {
    const subchannel = subchannels[index] as Subchannel<C>;
    if (!subchannel.hasRoom) continue;
    const good = fits(subchannel, request);
    if (bestFits && !good) continue;
    if (best === -1 || (good && !bestFits) || (keys[index] as number) < (keys[best] as number)) {
      best = index;
      bestFits = good;
    }
  }
  return best;
}
