import type { Rng } from '../runtime/rng.js';
import type { CostRule } from './cost.js';
import type { OwnTarget, Picker, PickRequest, PickSet } from './picker.js';
import { VirtualTime } from './virtual-time.js';

/**
 * Compares all targets and picks the cheapest. Exact, but O(n), so it is for small sets. Ties are broken by turns.
 *
 * With the `share` rule, a turn is worth half a call: an idle endpoint costs half when its turn has come, and the full cost right after a
 * pick. So equal endpoints alternate by weight, and an endpoint twice as slow as the best gets no calls while the best is idle.
 */
export class ScanPicker implements Picker<OwnTarget> {
  readonly set: PickSet<OwnTarget>;
  readonly time: VirtualTime;
  // The three cost rules as one formula with the following parameters.
  /** For each target, how much the next call counts in its cost; and how much the wait for the target's turn counts. */
  readonly #toCome: Float64Array;
  readonly #waiting: number;
  /** The factor on the cost of an idle target. */
  readonly #whenIdle: number;

  constructor(rule: CostRule, set: PickSet<OwnTarget>, previous: Picker | undefined, rng: Rng) {
    this.set = set;
    this.time = new VirtualTime(set, previous, rng);
    this.#toCome = rule === 'share' ? new Float64Array(set.targets.length).fill(0.5) : this.time.step;
    this.#waiting = rule === 'share' ? 0.5 : 0;
    this.#whenIdle = rule === 'never-queue' ? 0 : 1;
  }

  pick(request: PickRequest): OwnTarget | undefined {
    const { nowMs, avoid } = request;
    const { targets } = this.set;
    const { step, due, now } = this.time;
    const toCome = this.#toCome;
    const waiting = this.#waiting;
    const whenIdle = this.#whenIdle;
    // `best` starts as a valid index: reading a typed array outside its bounds would make V8 put the values read from it on the heap.
    let best = 0;
    let found = false;
    let bestCost = 0;
    let bestAvoided = true;
    const knowsOthers = targets.length > 0 && (targets[0] as OwnTarget).unit !== 0;
    for (let index = 0; index < targets.length; index++) {
      const target = targets[index] as OwnTarget;
      if (!target.hasRoom) continue;
      const avoided = avoid?.has(target) === true;
      if (avoided && !bestAvoided) continue;
      const { inFlight } = target;
      const value = target.cost(nowMs);
      const wait = Math.max(0, (due[index] as number) - now);
      const next = (toCome[index] as number) + waiting * wait;
      let cost: number;
      if (knowsOthers) {
        const { unit } = target;
        cost = (value - unit) * (step[index] as number) + unit * next;
      } else cost = (value * (inFlight * (step[index] as number) + next)) / (inFlight + 1);
      if (inFlight === 0) cost *= whenIdle;
      const cheaper = cost < bestCost || (cost === bestCost && (due[index] as number) < (due[best] as number));
      if (!found || (bestAvoided && !avoided) || cheaper) {
        found = true;
        best = index;
        bestCost = cost;
        bestAvoided = avoided;
      }
    }
    if (!found) return undefined;
    this.time.take(best);
    return targets[best];
  }
}
