import type { Subchannel } from '../pool/subchannel.js';
import { checkKeys, checkNumber } from '../runtime/check.js';
import type { Rng } from '../runtime/rng.js';
import { soonestFitting } from './fallback.js';
import { IndexHeap } from './index-heap.js';
import { fits, type Picker, type PickerFactory, type PickRequest, type PickSet } from './picker.js';
import { Turns } from './turns.js';

/** Options of `weightedRoundRobin`. */
export interface WeightedRoundRobinOptions {
  /** How often rates are read from the load, in ms. @defaultValue 1000 */
  readonly updateMs?: number;
}

/** Rates are kept within this factor of their mean, either way: a server's arithmetic may be off. */
const MAX_RATE_RATIO = 10;

/**
 * Round robin by weight, each weight times the rate its load knows of: how many calls per second the endpoint could
 * bear. Over `reported` loads that is what servers say of themselves; over loads that know no rate it is `roundRobin`.
 * Endpoints of unknown rate count as the mean of the others; with fewer than two known, weights alone decide.
 * Calls are interleaved, never in bursts. O(log n) per pick.
 * Sources: gRFC A58 for the rates, stride scheduling (Waldspurger, Weihl, MIT/LCS/TM-528, 1995) for the order.
 */
export const weightedRoundRobin = (options: WeightedRoundRobinOptions = {}): PickerFactory => {
  checkKeys('weightedRoundRobin', options, ['updateMs']);
  const updateMs = checkNumber('weightedRoundRobin.updateMs', options.updateMs, 1_000, { min: 10, max: 3_600_000 });
  return (set, previous, { rng }) => new WeightedRoundRobinPicker(set, previous, rng, updateMs);
};

class WeightedRoundRobinPicker<C> implements Picker<C> {
  readonly set: PickSet<C>;
  readonly turns: Turns;
  readonly #updateMs: number;
  readonly #heap: IndexHeap;
  readonly #steps: Float64Array;
  #updatedAtMs = Number.NEGATIVE_INFINITY;

  constructor(set: PickSet<C>, previous: Picker<C> | undefined, rng: Rng, updateMs: number) {
    this.set = set;
    this.turns = new Turns(set, previous, rng);
    this.#updateMs = updateMs;
    this.#heap = new IndexHeap(this.turns.due);
    this.#steps = Float64Array.from(this.turns.step);
  }

  pick(request: PickRequest<C>): Subchannel<C> | undefined {
    const { subchannels } = this.set;
    if (subchannels.length === 0) return undefined;
    if (request.nowMs - this.#updatedAtMs >= this.#updateMs) this.#update(request.nowMs);
    for (let tries = subchannels.length; tries > 0; tries--) {
      const index = this.#heap.top;
      this.#take(index);
      const subchannel = subchannels[index] as Subchannel<C>;
      if (fits(subchannel, request)) return subchannel;
    }
    // One of a weight and rate much above the others' may have had all the tries.
    const index = soonestFitting(this.set, this.turns.due, request);
    if (index === -1) return undefined;
    this.#take(index);
    return subchannels[index];
  }

  #take(index: number): void {
    const { turns } = this;
    const due = turns.due[index] as number;
    turns.now = due;
    turns.due[index] = due + (this.#steps[index] as number);
    this.#heap.moved(index);
  }

  #update(nowMs: number): void {
    this.#updatedAtMs = nowMs;
    const { subchannels } = this.set;
    const { step } = this.turns;
    let known = 0;
    let sum = 0;
    for (const { load } of subchannels) {
      const rate = load.rate?.(nowMs);
      if (rate === undefined) continue;
      known++;
      sum += rate;
    }
    const mean = sum / known;
    for (let index = 0; index < subchannels.length; index++) {
      const rate = known < 2 ? 1 : ((subchannels[index] as Subchannel<C>).load.rate?.(nowMs) ?? mean) / mean;
      const within = Math.min(Math.max(rate, 1 / MAX_RATE_RATIO), MAX_RATE_RATIO);
      this.#steps[index] = (step[index] as number) / within;
    }
  }
}
