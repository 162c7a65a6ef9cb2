import type { Subchannel } from '../pool/subchannel.js';
import { checkKeys, checkNumber } from '../runtime/check.js';
import type { Rng } from '../runtime/rng.js';
import type { Picker, PickerFactory, PickRequest, PickSet } from './picker.js';
import { StridePicker } from './stride-picker.js';
import { VirtualTime } from './virtual-time.js';

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
 * Source: gRFC A58 for the rates; the order is that of `StridePicker`.
 */
export const weightedRoundRobin = (options: WeightedRoundRobinOptions = {}): PickerFactory => {
  checkKeys('weightedRoundRobin', options, ['updateMs']);
  const updateMs = checkNumber('weightedRoundRobin.updateMs', options.updateMs, 1_000, { min: 10, max: 3_600_000 });
  return (set, previous, { rng }) => new WeightedRoundRobinPicker(set, previous, rng, updateMs);
};

class WeightedRoundRobinPicker<C> implements Picker<C> {
  readonly set: PickSet<C>;
  readonly time: VirtualTime;
  readonly #updateMs: number;
  /** 1 / (weight × rate). */
  readonly #steps: Float64Array;
  readonly #stride: StridePicker<C>;
  #updatedAtMs = Number.NEGATIVE_INFINITY;

  constructor(set: PickSet<C>, previous: Picker<C> | undefined, rng: Rng, updateMs: number) {
    this.set = set;
    this.time = new VirtualTime(set, previous, rng);
    this.#updateMs = updateMs;
    this.#steps = Float64Array.from(this.time.step);
    this.#stride = new StridePicker(set, this.time, this.#steps);
  }

  pick(request: PickRequest<C>): Subchannel<C> | undefined {
    if (request.nowMs - this.#updatedAtMs >= this.#updateMs) this.#update(request.nowMs);
    return this.#stride.pick(request);
  }

  #update(nowMs: number): void {
    this.#updatedAtMs = nowMs;
    const { subchannels } = this.set;
    const { step } = this.time;
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
