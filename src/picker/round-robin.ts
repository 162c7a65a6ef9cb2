import type { Subchannel } from '../pool/subchannel.js';
import { drawIndex, type Rng } from '../runtime/rng.js';
import { soonestFitting } from './fallback.js';
import { IndexHeap } from './index-heap.js';
import { fits, type Picker, type PickerFactory, type PickRequest, type PickSet } from './picker.js';
import { Turns } from './turns.js';

/**
 * One after the other; the most even spread there is when all calls cost the same (IPVS: rr, and wrr with weights).
 * O(1) per pick with equal weights, O(log n) otherwise: calls are then interleaved, never in bursts, and no endpoint
 * is ever more than one call ahead of or behind its share of them.
 */
export const roundRobin =
  (): PickerFactory =>
  (set, previous, { rng }) =>
    set.equalWeights ? new RoundRobinPicker(set, previous, rng) : new StridePicker(set, previous, rng);

class RoundRobinPicker<C> implements Picker<C> {
  readonly #set: PickSet<C>;
  #cursor: number;

  constructor(set: PickSet<C>, previous: Picker<C> | undefined, rng: Rng) {
    this.#set = set;
    // Clients that start together must not march in step: the first place is drawn, later pickers carry on.
    this.#cursor =
      previous instanceof RoundRobinPicker ? previous.#cursor : drawIndex(rng, Math.max(1, set.subchannels.length));
  }

  pick(request: PickRequest<C>): Subchannel<C> | undefined {
    const { subchannels } = this.#set;
    const { length } = subchannels;
    let avoided: Subchannel<C> | undefined;
    for (let step = 0; step < length; step++) {
      if (++this.#cursor >= length) this.#cursor = 0;
      const subchannel = subchannels[this.#cursor] as Subchannel<C>;
      if (fits(subchannel, request)) return subchannel;
      if (avoided === undefined && subchannel.hasRoom) avoided = subchannel;
    }
    return avoided;
  }
}

/**
 * Unequal weights: whoever is due first, each due again after 1 / weight.
 * Source: stride scheduling (Waldspurger, Weihl, MIT/LCS/TM-528, 1995).
 */
class StridePicker<C> implements Picker<C> {
  readonly set: PickSet<C>;
  readonly turns: Turns;
  readonly #heap: IndexHeap;

  constructor(set: PickSet<C>, previous: Picker<C> | undefined, rng: Rng) {
    this.set = set;
    this.turns = new Turns(set, previous, rng);
    this.#heap = new IndexHeap(this.turns.due);
  }

  pick(request: PickRequest<C>): Subchannel<C> | undefined {
    const { subchannels } = this.set;
    for (let tries = subchannels.length; tries > 0; tries--) {
      const index = this.#heap.top;
      this.#take(index);
      const subchannel = subchannels[index] as Subchannel<C>;
      if (fits(subchannel, request)) return subchannel;
    }
    // One much heavier than the others may have had all the tries.
    const index = soonestFitting(this.set, this.turns.due, request);
    if (index === -1) return undefined;
    this.#take(index);
    return subchannels[index];
  }

  #take(index: number): void {
    const { turns } = this;
    const due = turns.due[index] as number;
    turns.now = due;
    turns.due[index] = due + (turns.step[index] as number);
    this.#heap.moved(index);
  }
}
