import { Random32 } from '../runtime/random32.js';
import type { Rng } from '../runtime/rng.js';
import type { CostRule } from './cost.js';
import { firstFitting } from './fallback.js';
import { fits, type OwnTarget, type Picker, type PickRequest, type PickSet } from './picker.js';
import { WeightedDraw } from './weighted-draw.js';

/**
 * Maximum number of endpoints drawn for a call with unequal weights. An idle endpoint with a small weight beats a busy one with a large
 * weight, and each further draw lets it win more than its share.
 */
export const MAX_WEIGHTED_CHOICES: number = 3;
/** Maximum number of endpoints drawn for a call with equal weights. */
const MAX_CHOICES = 16;
/** How many extra endpoints are drawn for a call to replace those that cannot take it. */
const SPARE_DRAWS = 4;

/**
 * Draws a few targets at random and takes the cheapest; on a tie, the first one drawn. O(1) per pick.
 *
 * Equal weights: each draw differs from the best so far. Unequal weights: draws are by weight and may repeat, so even in a
 * small set an endpoint is a candidate at most two or three times as often as its share. With nothing in flight the first
 * draw wins, so shares follow the weights.
 */
export class DrawPicker implements Picker<OwnTarget> {
  readonly #rule: CostRule;
  readonly #set: PickSet<OwnTarget>;
  readonly #random: Random32;
  /** How many endpoints are drawn; undefined: as many as the load's `choices` says. */
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
    // The search starts at a new random index: continuing from a draw would double its neighbor's share.
    return best ?? firstFitting(this.#set, request, random.index(length));
  }
}
