import { leastFitting } from './fallback.js';
import { IndexHeap } from './index-heap.js';
import { fits, type Picker, type PickRequest, type PickSet, type PickTarget } from './picker.js';
import type { VirtualTime } from './virtual-time.js';

/**
 * Picks the target whose turn is next; its turn comes again one step later. Calls are interleaved and never come in bursts. O(log n) per
 * pick. Source: stride scheduling (Waldspurger, Weihl, MIT/LCS/TM-528, 1995).
 */
export class StridePicker implements Picker {
  readonly set: PickSet;
  readonly time: VirtualTime;
  readonly #steps: Float64Array;
  readonly #heap: IndexHeap;

  /**
   * @param steps How far apart each target's turns are in virtual time. The owner may change the array between picks. @defaultValue mean
   * weight / weight
   */
  constructor(set: PickSet, time: VirtualTime, steps: Float64Array = time.step) {
    this.set = set;
    this.time = time;
    this.#steps = steps;
    this.#heap = new IndexHeap(time.due);
  }

  pick(request: PickRequest): PickTarget | undefined {
    const { targets } = this.set;
    for (let tries = targets.length; tries > 0; tries--) {
      const index = this.#heap.top;
      this.#take(index);
      const target = targets[index] as PickTarget;
      if (fits(target, request)) return target;
    }
    // No target that can take the call came up, perhaps because one with very short steps had all the turns, so all targets are looked at.
    const index = leastFitting(this.set, this.time.due, request);
    if (index === -1) return undefined;
    this.#take(index);
    return targets[index];
  }

  #take(index: number): void {
    const { time } = this;
    const due = time.due[index] as number;
    time.now = due;
    time.due[index] = due + (this.#steps[index] as number);
    this.#heap.update(index);
  }
}
