import type { Subchannel } from '../pool/subchannel.js';
import type { Rng } from '../runtime/rng.js';
import { IndexHeap } from './index-heap.js';
import { fits, type Picker, type PickRequest, type PickSet } from './picker.js';
import { Turns } from './turns.js';

/** After how much virtual time the turn of an endpoint at the top is brought up to date. Below 1, see `pick`. */
const STALE_AFTER = 1;

/**
 * Keeps subchannels ordered by load and takes the least loaded: exact, and O(log n) per pick and per end. Only for
 * loads that do not change with time alone.
 *
 * Keys are calls in flight per weight plus half the virtual time of the next turn, so they need no touch while nothing
 * happens to an endpoint. A turn long overdue would make its endpoint look less loaded than it is; it is brought up to
 * date when it reaches the top, so at most one call's difference hides behind turns. Each endpoint needs that at most
 * once per round, which is one update per pick.
 */
export class HeapPicker<C> implements Picker<C> {
  readonly set: PickSet<C>;
  readonly turns: Turns;
  readonly #heap: IndexHeap;
  /** The cost of a call on an idle endpoint: what turns, which are in calls, are scaled by. */
  readonly #unit: number;
  /** Picked, and not yet put in order: its call begins only after `pick` returned. -1: none. */
  #picked = -1;
  #nowMs = 0;

  constructor(set: PickSet<C>, previous: Picker<C> | undefined, rng: Rng) {
    this.set = set;
    this.turns = new Turns(set, previous, rng);
    let units = 0;
    for (const { load, inFlight } of set.subchannels) units += load.value(0) / (inFlight + 1);
    this.#unit = set.subchannels.length === 0 ? 1 : units / set.subchannels.length;
    this.#heap = new IndexHeap(Float64Array.from(set.subchannels, (_, index) => this.#key(index)));
  }

  pick(request: PickRequest<C>): Subchannel<C> | undefined {
    const { subchannels } = this.set;
    if (subchannels.length === 0) return undefined;
    this.#nowMs = request.nowMs;
    this.#settle();
    const { turns } = this;
    const heap = this.#heap;
    for (;;) {
      const index = heap.top;
      if ((turns.due[index] as number) < turns.now - STALE_AFTER) {
        turns.due[index] = turns.now;
        heap.update(index, this.#key(index));
        continue;
      }
      const subchannel = subchannels[index] as Subchannel<C>;
      return this.#take(fits(subchannel, request) ? index : this.#search(request));
    }
  }

  ended(subchannel: Subchannel<C>): void {
    this.#settle();
    const { slot } = subchannel;
    if (this.set.subchannels[slot] === subchannel) this.#heap.update(slot, this.#key(slot));
  }

  #take(index: number): Subchannel<C> | undefined {
    if (index === -1) return undefined;
    this.turns.take(index);
    this.#picked = index;
    return this.set.subchannels[index];
  }

  #settle(): void {
    const picked = this.#picked;
    if (picked === -1) return;
    this.#picked = -1;
    this.#heap.update(picked, this.#key(picked));
  }

  #key(index: number): number {
    const { load, inFlight } = this.set.subchannels[index] as Subchannel<C>;
    const unit = load.value(this.#nowMs) / (inFlight + 1);
    const step = this.turns.step[index] as number;
    return unit * inFlight * step + this.#unit * 0.5 * (this.turns.due[index] as number);
  }

  /** The least loaded that can take the call, when the top cannot; those to avoid only if there is no other. O(n). */
  #search(request: PickRequest<C>): number {
    const { subchannels } = this.set;
    let best = -1;
    let bestFits = false;
    for (let index = 0; index < subchannels.length; index++) {
      const subchannel = subchannels[index] as Subchannel<C>;
      if (subchannel.inFlight >= subchannel.capacity) continue;
      const good = fits(subchannel, request);
      if (bestFits && !good) continue;
      if (best === -1 || (good && !bestFits) || this.#heap.key(index) < this.#heap.key(best)) {
        best = index;
        bestFits = good;
      }
    }
    return best;
  }
}
