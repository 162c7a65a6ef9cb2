import { checkNoOptions } from '../runtime/check.js';
import { drawIndex, type Rng } from '../runtime/rng.js';
import {
  fits,
  ownSet,
  type Picker,
  type PickerFactory,
  type PickRequest,
  type PickSet,
  type PickTarget,
} from './picker.js';
import { StridePicker } from './stride-picker.js';
import { VirtualTime } from './virtual-time.js';

/**
 * Picks the endpoints one after the other, the most even spread when all calls cost the same (IPVS: rr, and wrr with weights). O(1) per
 * pick with equal weights, O(log n) otherwise. With weights, calls to an endpoint are interleaved with others and never come in bursts, and
 * no endpoint is ever more than one call ahead of or behind its share.
 */
export const roundRobin = (...none: []): PickerFactory => {
  checkNoOptions('roundRobin', none);
  const factory: PickerFactory = (set, previous, { rng }) =>
    set.equalWeights
      ? new RoundRobinPicker(set, previous, rng)
      : new StridePicker(set, new VirtualTime(ownSet(set), previous, rng));
  return Object.assign(factory, { ignoresLoad: true });
};

class RoundRobinPicker implements Picker {
  readonly #set: PickSet;
  #cursor: number;

  constructor(set: PickSet, previous: Picker | undefined, rng: Rng) {
    this.#set = set;
    // The first position is random, so that clients that start together do not all use the same endpoint. Later pickers continue from the
    // last position.
    if (previous instanceof RoundRobinPicker && previous.#set.targets.length > 0) {
      this.#cursor = (previous as RoundRobinPicker).#cursorIn(set.targets);
    } else this.#cursor = drawIndex(rng, Math.max(1, set.targets.length));
  }

  /** The new index of the target that had the last turn; if that target has left, the index before the one it would have. */
  #cursorIn(targets: readonly PickTarget[]): number {
    const index = targets.indexOf(this.#set.targets[this.#cursor] as PickTarget);
    return index === -1 ? Math.max(-1, Math.min(this.#cursor, targets.length) - 1) : index;
  }

  pick(request: PickRequest): PickTarget | undefined {
    const { targets } = this.#set;
    const { length } = targets;
    let avoided: PickTarget | undefined;
    for (let step = 0; step < length; step++) {
      if (++this.#cursor >= length) this.#cursor = 0;
      const target = targets[this.#cursor] as PickTarget;
      if (fits(target, request)) return target;
      if (avoided === undefined && target.hasRoom) avoided = target;
    }
    return avoided;
  }
}
