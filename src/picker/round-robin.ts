import type { Subchannel } from '../pool/subchannel.js';
import { drawIndex } from '../runtime/rng.js';
import { fits, type Picker, type PickerFactory, type PickRequest, type PickSet } from './picker.js';

/** One after the other; the most even spread there is when all calls cost the same. O(1) per pick. */
export const roundRobin =
  (): PickerFactory =>
  (set, previous, { rng }) =>
    new RoundRobinPicker(
      set,
      // Clients that start together must not march in step: the first place is drawn, later pickers carry on.
      previous instanceof RoundRobinPicker ? previous.cursor : drawIndex(rng, Math.max(1, set.subchannels.length)),
    );

class RoundRobinPicker<C> implements Picker<C> {
  readonly #set: PickSet<C>;
  cursor: number;

  constructor(set: PickSet<C>, cursor: number) {
    this.#set = set;
    this.cursor = cursor;
  }

  pick(request: PickRequest<C>): Subchannel<C> | undefined {
    const { subchannels } = this.#set;
    const { length } = subchannels;
    let avoided: Subchannel<C> | undefined;
    for (let step = 0; step < length; step++) {
      if (++this.cursor >= length) this.cursor = 0;
      const subchannel = subchannels[this.cursor] as Subchannel<C>;
      if (fits(subchannel, request)) return subchannel;
      if (avoided === undefined && subchannel.inFlight < subchannel.capacity) avoided = subchannel;
    }
    return avoided;
  }
}
