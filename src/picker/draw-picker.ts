import { Random32 } from '../runtime/random32.js';
import type { Rng } from '../runtime/rng.js';
import type { CostRule } from './cost.js';
import { firstFitting } from './fallback.js';
import { fits, type OwnTarget, type Picker, type PickRequest, type PickSet } from './picker.js';
import { WeightedDraw } from './weighted-draw.js';

/**
 * The largest number of endpoints drawn for a call if weights differ. An idle endpoint with a small weight beats a busy one with a large
 * weight, and every further draw would give it more than its share.
 */
const MAX_WEIGHTED_CHOICES: number = 3;
/** The largest number of endpoints drawn for a call if all weights are equal. */
const MAX_CHOICES = 16;
/** How many more endpoints are drawn for a call, at most, in place of drawn ones that cannot take it. */
const SPARE_DRAWS = 4;

/**
 * Draws a few targets at random and picks the cheapest; on a tie, the one drawn first. O(1) per pick.
 *
 * If weights are equal, no draw repeats the best target so far. If they differ, draws are by weight and may repeat, so that even in a small
 * set a target is drawn at most two or three times as often as its share. With nothing in flight, the first draw wins, so shares follow the
 * weights.
 */
export class DrawPicker implements Picker<OwnTarget> {
  readonly #rule: CostRule;
  readonly #set: PickSet<OwnTarget>;
  readonly #random: Random32;
  /** How many endpoints are drawn; undefined = as many as the load's `choices` says. */
  readonly #choices: number | undefined;
  readonly #mostChoices: number;
  readonly #weighted: WeightedDraw | undefined;
  /** For each endpoint, mean weight / weight; undefined with equal weights. */
  readonly #steps: Float64Array | undefined;

  /** @param set At least two targets. */
  constructor(rule: CostRule, set: PickSet<OwnTarget>, choices: number | undefined, rng: Rng) {
    this.#rule = rule;
    this.#set = set;
    this.#random = new Random32(rng);
    this.#choices = choices;
    this.#mostChoices = set.equalWeights ? MAX_CHOICES : MAX_WEIGHTED_CHOICES;
    if (set.equalWeights) return;
    this.#weighted = new WeightedDraw(set.weights);
    const mean = set.weights.reduce((sum, weight) => sum + weight, 0) / set.weights.length;
    this.#steps = Float64Array.from(set.weights, (weight) => mean / weight);
  }

  pick(request: PickRequest): OwnTarget | undefined {
    const { nowMs } = request;
    const { targets } = this.#set;
    const rule = this.#rule;
    const { length } = targets;
    const random = this.#random;
    let best: OwnTarget | undefined;
    let bestIndex = -1;
    let bestCost = 0;
    let missing = Math.min(this.#choices ?? (targets[0] as OwnTarget).choices, this.#mostChoices);
    for (let draws = missing + SPARE_DRAWS; draws > 0 && missing > 0; draws--) {
      let index: number;
      if (this.#weighted !== undefined) index = this.#weighted.draw(random);
      else index = bestIndex === -1 ? random.index(length) : random.otherIndex(length, bestIndex);
      const target = targets[index] as OwnTarget;
      if (!fits(target, request)) continue;
      missing--;
      if (index === bestIndex) continue;
      const step = this.#steps === undefined ? 1 : (this.#steps[index] as number);
      const { inFlight } = target;
      const value = target.cost(nowMs);
      let cost: number;
      if (step === 1 || rule !== 'share') cost = rule === 'never-queue' && inFlight === 0 ? 0 : value * step;
      else {
        const { unit } = target;
        cost = unit === 0 ? (value * (inFlight * step + 1)) / (inFlight + 1) : (value - unit) * step + unit;
      }
      if (best !== undefined && cost >= bestCost) continue;
      best = target;
      bestIndex = index;
      bestCost = cost;
    }
    // The search for another target starts at a new random index. If it went on from a drawn one, that target's neighbor would get twice
    // its share.
    return best ?? firstFitting(this.#set, request, random.index(length));
  }
}
