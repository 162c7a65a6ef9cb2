import type { Complete } from '../runtime/complete.js';
import { numberOption, type OptionTable, optionTable } from '../runtime/options.js';
import { Random32 } from '../runtime/random32.js';
import type { Rng } from '../runtime/rng.js';
import { MAX_WEIGHTED_CHOICES } from './draw-picker.js';
import { firstFitting } from './fallback.js';
import {
  fits,
  type OwnTarget,
  ownSet,
  type Picker,
  type PickerFactory,
  type PickRequest,
  type PickSet,
} from './picker.js';
import { WeightedDraw } from './weighted-draw.js';

/**
 * Options of `hotCold`: how many endpoints are drawn, and from when on an endpoint counts as busy. Invalid options throw EVENKEEL_OPTION.
 */
export interface HotColdOptions {
  /** How many endpoints are drawn per call, 2 to 16; at most 3 where weights differ. @defaultValue 5 */
  readonly choices?: number | undefined;
  /**
   * An endpoint counts as not busy while its calls in flight do not exceed this quantile of those seen in draws, 0 to 1. @defaultValue 0.8
   */
  readonly quantile?: number | undefined;
}

export const hotColdTable: OptionTable<Complete<HotColdOptions>> = optionTable('hotCold', {
  choices: numberOption(5, { min: 2, max: 16, integer: true }),
  quantile: numberOption(0.8, { min: 0, max: 1 }),
});

/** How far one draw moves the bound between hot and cold endpoints, in calls. */
const STEP = 0.05;

/**
 * Draws a few targets. Those with more calls in flight per weight than most are hot. Picks the cold one with the least load; if all are
 * hot, the one with the fewest calls. Meant for loads that measure latency (`peakEwma`): latency decides only between targets that are not
 * busy, and since load grows with every call in flight, one good measurement cannot attract all calls. O(1) per pick. Source: the hot-cold
 * lexicographic rule of Prequal (Wydrowski et al., Load is not what you should balance, NSDI 2024), with this process's own counts instead
 * of probes.
 */
export const hotCold = (options: HotColdOptions = {}): PickerFactory => {
  const { choices, quantile } = hotColdTable.resolve(options);
  const factory: PickerFactory = (set, previous, { rng }) =>
    new HotColdPicker(ownSet(set), previous, choices, quantile, rng);
  return factory;
};

class HotColdPicker implements Picker<OwnTarget> {
  readonly #set: PickSet<OwnTarget>;
  readonly #random: Random32;
  readonly #choices: number;
  readonly #quantile: number;
  readonly #weighted: WeightedDraw | undefined;
  readonly #steps: Float64Array;
  /** A target with more calls in flight per weight than this is hot. The bound follows the quantile of the draws. */
  #bound = 0;

  constructor(set: PickSet<OwnTarget>, previous: Picker | undefined, choices: number, quantile: number, rng: Rng) {
    this.#set = set;
    this.#random = new Random32(rng);
    this.#choices = set.equalWeights ? choices : Math.min(choices, MAX_WEIGHTED_CHOICES);
    this.#quantile = quantile;
    if (!set.equalWeights) this.#weighted = new WeightedDraw(set.weights);
    const mean = set.weights.reduce((sum, weight) => sum + weight, 0) / set.weights.length;
    this.#steps = Float64Array.from(set.weights, (weight) => mean / weight);
    if (previous instanceof HotColdPicker) this.#bound = previous.#bound;
  }

  pick(request: PickRequest): OwnTarget | undefined {
    const { nowMs } = request;
    const { targets } = this.#set;
    const { length } = targets;
    if (length === 0) return undefined;
    let best: OwnTarget | undefined;
    let bestIndex = -1;
    let bestHot = true;
    let bestCost = 0;
    let bound = this.#bound;
    const random = this.#random;
    const steps = this.#steps;
    const up = STEP * this.#quantile;
    const down = up - STEP;
    for (let draw = 0; draw < this.#choices; draw++) {
      let index: number;
      // Draws as `DrawPicker` does: with equal weights no draw repeats the best target so far; otherwise draws are by weight and may
      // repeat.
      if (this.#weighted !== undefined) index = this.#weighted.draw(random);
      else index = bestIndex === -1 || length < 2 ? random.index(length) : random.otherIndex(length, bestIndex);
      const target = targets[index] as OwnTarget;
      if (index === bestIndex || !fits(target, request)) continue;
      const { inFlight } = target;
      const calls = inFlight * (steps[index] as number);
      const hot = calls > bound;
      // The bound rises with each hot draw and falls with each cold one, which makes it approach the quantile (stochastic approximation).
      bound += hot ? up : down;
      if (bound < 0) bound = 0;
      if (hot && !bestHot) continue;
      // Cold targets are compared by their load with the next call included, hot ones by their calls alone, so that a fast but busy target
      // gets no more calls.
      let cost = calls;
      if (!hot) cost = (target.cost(nowMs) * (calls + 1)) / (inFlight + 1);
      if (best !== undefined && hot === bestHot && cost >= bestCost) continue;
      best = target;
      bestIndex = index;
      bestHot = hot;
      bestCost = cost;
    }
    this.#bound = bound;
    return best ?? firstFitting(this.#set, request, this.#random.index(length));
  }
}
