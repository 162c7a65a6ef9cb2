import type { Rng } from '../runtime/rng.js';
import type { OwnTarget, Picker, PickSet } from './picker.js';

/**
 * Keeps whose turn it is among the targets of a set. A turn breaks ties between equally loaded targets, so that with nothing in flight
 * shares follow the weights. Without turns, least-loaded rules send every call of an idle client to the heaviest target (if the cost counts
 * the next call) or ignore weights (if it counts only running calls).
 *
 * Time is virtual: every pick advances it by 1 / n, so one unit is a round. After a pick, a target's turn comes again mean weight / weight
 * units later. A target neither saves up turns that it did not take nor owes more than one, so load decides and turns only break ties.
 * Source: earliest deadline first over virtual time, as in fair queueing (Demers, Keshav, Shenker, SIGCOMM 1989; Bennett, Zhang, WF2Q+,
 * IEEE/ACM ToN 5(5), 1997).
 */
export class VirtualTime {
  /** The virtual time now. */
  now = 0;
  /** When each target's next turn is, in virtual time, by its index. */
  readonly due: Float64Array;
  /** How far apart each target's turns are, in virtual time: mean weight / weight. */
  readonly step: Float64Array;
  readonly #perPick: number;

  /** A new target gets a random moment in the first round, so that clients that start together do not all use the same targets. */
  constructor(set: PickSet<OwnTarget>, previous: Picker | undefined, rng: Rng) {
    const { targets, weights } = set;
    const { length } = targets;
    let total = 0;
    for (const weight of weights) total += weight;
    this.step = Float64Array.from(weights, (weight) => total / length / weight);
    this.due = Float64Array.from(this.step, (step) => step * rng.next());
    this.#perPick = 1 / length;
    if (keepsTime(previous)) {
      for (let index = 0; index < length; index++) {
        const target = targets[index];
        const before = target?.indexInSet ?? -1;
        if (previous.set.targets[before] !== target) continue;
        const step = this.step[index] as number;
        this.due[index] = Math.min((previous.time.due[before] as number) - previous.time.now, step);
      }
    }
    writeIndexes(set);
  }

  /** The target at `index` was picked, so its next turn is later. */
  take(index: number): void {
    const now = this.now + this.#perPick;
    const due = this.due[index] as number;
    // The next turn is one step after this turn, but a turn that was missed or taken early counts as taken about now.
    this.due[index] = (due < now ? Math.max(due, now - this.#perPick) : now) + (this.step[index] as number);
    this.now = now;
  }
}

/** A picker that uses virtual time. The picker that replaces it continues from that time. */
export interface TimeKeeper {
  readonly time: VirtualTime;
  readonly set: PickSet<OwnTarget>;
}

function keepsTime(picker: object | undefined): picker is TimeKeeper {
  return (picker as Partial<TimeKeeper> | undefined)?.time instanceof VirtualTime;
}

/** Writes each target's index in `set` into the target. */
function writeIndexes(set: PickSet<OwnTarget>): void {
  set.targets.forEach((target, index) => {
    target.indexInSet = index;
  });
}
