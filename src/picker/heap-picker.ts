import type { Rng } from '../runtime/rng.js';
import type { CostRule } from './cost.js';
import { leastFitting } from './fallback.js';
import { IndexHeap } from './index-heap.js';
import { fits, type OwnTarget, type Picker, type PickRequest, type PickSet } from './picker.js';
import { VirtualTime } from './virtual-time.js';

/** If an endpoint at the top of the heap missed its turn by more than this, in virtual time, its turn is moved to now. */
const STALE_AFTER = 1;
/**
 * What one unit of virtual time counts in a heap key, in calls: half a call with the cost rule `share`; almost nothing with the other
 * rules, where turns only break ties.
 */
const TURN_IN_SHARES = 0.5;
const TURN_AS_TIE = 1e-6;
/** Added to the heap key of idle endpoints, so that they come before all others. */
const IDLE_FIRST = -1e13;

/**
 * Keeps targets ordered by load and picks the least loaded one. Exact, with O(log n) per pick and per end of a call. Only for loads that do
 * not change with time alone.
 *
 * A target's key in the heap is its cost plus a fraction of the virtual time of its next turn, so it stays valid while nothing happens on
 * the target. A turn that is long overdue would make a target look less loaded than it is. Therefore the turn is updated when the target
 * reaches the top, and turns never outweigh a call. Each target needs that at most once per round, so it is about one update per pick.
 */
export class HeapPicker implements Picker<OwnTarget> {
  readonly set: PickSet<OwnTarget>;
  readonly time: VirtualTime;
  readonly #rule: CostRule;
  /** The keys of the heap by the index of their targets. The heap itself uses this array. */
  readonly #keys: Float64Array;
  /** From how many calls in flight each target's key was computed. */
  readonly #counted: Int32Array;
  readonly #heap: IndexHeap;
  /** What one more call adds to the cost of a target on average, which converts virtual time, counted in calls, to a cost. */
  readonly #unit: number;
  /** The index of the last pick, whose key is updated later because its call starts only after `pick` returns; -1 = none. */
  #picked = -1;

  constructor(rule: CostRule, set: PickSet<OwnTarget>, previous: Picker | undefined, rng: Rng) {
    this.#rule = rule;
    this.set = set;
    this.time = new VirtualTime(set, previous, rng);
    let units = 0;
    for (const { load, inFlight } of set.targets) units += load.value(0) / (inFlight + 1);
    this.#unit = set.targets.length === 0 ? 1 : units / set.targets.length;
    this.#keys = new Float64Array(set.targets.length);
    this.#counted = new Int32Array(set.targets.length);
    for (let index = 0; index < this.#keys.length; index++) this.#rekey(index);
    this.#heap = new IndexHeap(this.#keys);
  }

  pick(request: PickRequest): OwnTarget | undefined {
    const { targets } = this.set;
    if (targets.length === 0) return undefined;
    this.#settle();
    const { time } = this;
    const heap = this.#heap;
    for (;;) {
      const index = heap.top;
      const target = targets[index] as OwnTarget;
      const stale = (time.due[index] as number) < time.now - STALE_AFTER;
      if (!stale && target.inFlight === this.#counted[index]) {
        return this.#take(fits(target, request) ? index : leastFitting(this.set, this.#keys, request));
      }
      if (stale) time.due[index] = time.now;
      this.#rekey(index);
      heap.update(index);
    }
  }

  ended(target: OwnTarget): void {
    this.#settle();
    const { indexInSet: index } = target;
    if (this.set.targets[index] !== target) return;
    this.#rekey(index);
    this.#heap.update(index);
  }

  #take(index: number): OwnTarget | undefined {
    if (index === -1) return undefined;
    this.time.take(index);
    this.#picked = index;
    return this.set.targets[index];
  }

  #settle(): void {
    const picked = this.#picked;
    if (picked === -1) return;
    this.#picked = -1;
    this.#rekey(picked);
    this.#heap.update(picked);
  }

  /** Recomputes the key of the endpoint at `index`. */
  #rekey(index: number): void {
    const { load, inFlight } = this.set.targets[index] as OwnTarget;
    this.#counted[index] = inFlight;
    const unit = load.value(0) / (inFlight + 1); // time does not matter to the loads that a heap can order
    const step = this.time.step[index] as number;
    const due = this.#unit * (this.time.due[index] as number);
    if (this.#rule === 'share') this.#keys[index] = unit * inFlight * step + TURN_IN_SHARES * due;
    else if (this.#rule === 'never-queue' && inFlight === 0) this.#keys[index] = IDLE_FIRST + due;
    else this.#keys[index] = unit * (inFlight + 1) * step + TURN_AS_TIE * due;
  }
}
