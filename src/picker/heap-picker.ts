import type { Rng } from '../runtime/rng.js';
import type { CostRule } from './cost.js';
import { leastFitting } from './fallback.js';
import { IndexHeap } from './index-heap.js';
import { fits, type OwnTarget, type Picker, type PickRequest, type PickSet } from './picker.js';
import { VirtualTime } from './virtual-time.js';

/** How far behind, in virtual time, the turn of the endpoint at the top of the heap may be before it is updated. */
const STALE_AFTER = 1;
/** How many calls a turn is worth with the cost rule `share`. With the other rules a turn only breaks ties. */
const TURN_IN_SHARES = 0.5;
const TURN_AS_TIE = 1e-6;
/** Added to the key of idle endpoints, which puts them before all others in the heap. */
const IDLE_FIRST = -1e13;

/**
 * Keeps targets ordered by load and takes the least loaded: exact, and O(log n) per pick and per end. Only for loads that do not change
 * with time alone.
 *
 * An endpoint's key in the heap is its cost plus a fraction of the virtual time of the next turn, so it stays valid while nothing happens
 * to the endpoint. A turn long overdue would make an endpoint look less loaded than it is, so it is updated when the endpoint reaches the
 * top; turns therefore never outweigh a call. Each endpoint needs that at most once per round: one update per pick.
 */
export class HeapPicker implements Picker<OwnTarget> {
  readonly set: PickSet<OwnTarget>;
  readonly time: VirtualTime;
  readonly #rule: CostRule;
  /** The heap's keys by the index of their endpoints; this is the heap's own array. */
  readonly #keys: Float64Array;
  /** The number of calls in flight from which each endpoint's key was computed. */
  readonly #counted: Int32Array;
  readonly #heap: IndexHeap;
  /** What one more call adds to the cost of an endpoint; converts virtual time, counted in calls, to a cost. */
  readonly #unit: number;
  /** The index of the last pick, not yet reordered because its call starts only after `pick` returns; -1 = none. */
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
