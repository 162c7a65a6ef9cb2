import type { Complete } from '../runtime/complete.js';
import { numberOption, type OptionTable, optionTable } from '../runtime/options.js';
import type { Rng } from '../runtime/rng.js';
import {
  type OwnTarget,
  ownSet,
  type Picker,
  type PickerFactory,
  type PickRequest,
  type PickSet,
  type PickTarget,
} from './picker.js';
import { StridePicker } from './stride-picker.js';
import { VirtualTime } from './virtual-time.js';

/** Options of `weightedRoundRobin`: how often rates are read. An invalid option throws EVENKEEL_OPTION. */
export interface WeightedRoundRobinOptions {
  /** How often rates are read from the load, in ms. @defaultValue 1000 */
  readonly updateMs?: number | undefined;
}

export const weightedRoundRobinTable: OptionTable<Complete<WeightedRoundRobinOptions>> = optionTable(
  'weightedRoundRobin',
  {
    updateMs: numberOption(1_000, { min: 10, max: 3_600_000 }),
  },
);

/**
 * A rate counts as at most `MAX_OF_USUAL` times the median rate, and at least `MIN_OF_USUAL` of it. A server's report may be wrong or a
 * lie: with this bound, one of four servers gets at most half of the calls, whatever it claims. A server that claims too little harms no
 * other.
 */
const MAX_OF_USUAL = 3;
const MIN_OF_USUAL = 1 / 10;

/**
 * Round robin by weight times rate: the calls per second that the endpoint could handle, according to its load. With `reported` loads, the
 * servers report their rates; with loads that know no rate, this picker is `roundRobin`. An unknown rate counts as the median of the
 * others; with fewer than two known rates, weights alone decide. No rate counts as more than three times the median. Calls are interleaved
 * and never come in bursts. O(log n) per pick.
 * Source: gRFC A58 for the rates; `StridePicker` for the order.
 */
export const weightedRoundRobin = (options: WeightedRoundRobinOptions = {}): PickerFactory => {
  const { updateMs } = weightedRoundRobinTable.resolve(options);
  const factory: PickerFactory = (set, previous, { rng }) =>
    new WeightedRoundRobinPicker(ownSet(set), previous, rng, updateMs);
  return factory;
};

class WeightedRoundRobinPicker implements Picker {
  readonly set: PickSet<OwnTarget>;
  readonly time: VirtualTime;
  readonly #updateMs: number;
  /** How far apart each target's turns are in virtual time: 1 / (weight × rate). */
  readonly #steps: Float64Array;
  /** The rate of each target when rates were last read; 0 = unknown. */
  readonly #rates: Float64Array;
  /** The known rates, of which the median is computed; the array is reused. */
  readonly #known: Float64Array;
  readonly #stride: StridePicker;
  #updatedAtMs = Number.NEGATIVE_INFINITY;

  constructor(set: PickSet<OwnTarget>, previous: Picker | undefined, rng: Rng, updateMs: number) {
    this.set = set;
    this.time = new VirtualTime(set, previous, rng);
    this.#updateMs = updateMs;
    this.#steps = Float64Array.from(this.time.step);
    this.#rates = new Float64Array(this.#steps.length);
    this.#known = new Float64Array(this.#steps.length);
    this.#stride = new StridePicker(set, this.time, this.#steps);
  }

  pick(request: PickRequest): PickTarget | undefined {
    if (request.nowMs - this.#updatedAtMs >= this.#updateMs) this.#update(request.nowMs);
    return this.#stride.pick(request);
  }

  #update(nowMs: number): void {
    this.#updatedAtMs = nowMs;
    const { targets } = this.set;
    const { step } = this.time;
    const rates = this.#rates;
    const known = this.#known;
    let count = 0;
    for (let index = 0; index < targets.length; index++) {
      const rate = (targets[index] as OwnTarget).load.rate?.(nowMs);
      // The rate may come from a load of the application's own. A rate that is not a number would spoil the order of turns for good.
      const isRate = rate !== undefined && rate > 0 && rate < Number.POSITIVE_INFINITY;
      rates[index] = isRate ? rate : 0;
      if (isRate) known[count++] = rate;
    }
    // For an even number of rates, the smaller of the two middle rates is the median: of two endpoints, one that claims much must not set
    // it.
    const median = known.subarray(0, count).sort()[(count - 1) >> 1] as number;
    for (let index = 0; index < targets.length; index++) {
      const rate = rates[index] as number;
      const ratio = count < 2 || rate === 0 ? 1 : rate / median;
      const within = Math.min(Math.max(ratio, MIN_OF_USUAL), MAX_OF_USUAL);
      this.#steps[index] = (step[index] as number) / within;
    }
  }
}
