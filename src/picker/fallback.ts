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
