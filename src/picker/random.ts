import { checkNoOptions } from '../runtime/check.js';
import { Random32 } from '../runtime/random32.js';
import type { Rng } from '../runtime/rng.js';
import { firstFitting } from './fallback.js';
import { fits, type Picker, type PickerFactory, type PickRequest, type PickSet, type PickTarget } from './picker.js';
import { WeightedDraw } from './weighted-draw.js';

/** Picks a random target by weight, which is what kube-proxy does per connection, but for each call. O(1) per pick. */
export const random = (...none: []): PickerFactory => {
  checkNoOptions('random', none);
  const factory: PickerFactory = (set, _previous, { rng }) => new RandomPicker(set, rng);
  return Object.assign(factory, { ignoresLoad: true });
};

class RandomPicker implements Picker {
  readonly #set: PickSet;
  readonly #random: Random32;
  readonly #weighted: WeightedDraw | undefined;

  constructor(set: PickSet, rng: Rng) {
    this.#set = set;
    this.#random = new Random32(rng);
    this.#weighted = set.equalWeights ? undefined : new WeightedDraw(set.weights);
  }

  pick(request: PickRequest): PickTarget | undefined {
    const { targets } = this.#set;
    if (targets.length === 0) return undefined;
    const index = this.#weighted === undefined ? this.#random.index(targets.length) : this.#weighted.draw(this.#random);
    const target = targets[index] as PickTarget;
    // The search for another target starts at a new random index. If it went on from `index`, that target's neighbor would get twice its
    // share.
    return fits(target, request) ? target : firstFitting(this.#set, request, this.#random.index(targets.length));
  }
}
