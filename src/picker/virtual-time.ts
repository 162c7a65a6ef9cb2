import type { Rng } from '../runtime/rng.js';
import type { OwnTarget, Picker, PickSet } from './picker.js';

/**
 * Says whose turn it is among endpoints. A turn breaks ties between equally loaded endpoints, so that with nothing in flight shares follow
 * the weights. Without turns, least-loaded rules send every call of an idle client to the heaviest endpoint (if the cost counts the next
 * call) or ignore weights (if it counts only running calls).
 *
 * Time here is virtual: every pick advances it by 1 / n, so one unit is a round. After a pick an endpoint is due again in mean weight /
 * weight units. An endpoint neither saves up turns it did not take nor owes more than one, so a turn only breaks ties; load decides.
 * Source: earliest deadline first over virtual time, as in fair queueing (Demers, Keshav, Shenker, SIGCOMM 1989; Bennett, Zhang, WF2Q+,
 * IEEE/ACM ToN 5(5), 1997).
 */
export class VirtualTime {
  /** The virtual time now. */
  now = 0;
  /** When each endpoint's next turn is, in virtual time. */
  readonly due: Float64Array;
  /** How far each endpoint's turns are apart in virtual time: mean weight / weight. */
  readonly step: Float64Array;
  readonly #perPick: number;

  /** New endpoints get a random place in the first round: clients that start together must not move in step. */
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

  /** The endpoint at `index` was picked: its turn moves on. */
  take(index: number): void {
    const now = this.now + this.#perPick;
    const due = this.due[index] as number;
    // The endpoint's next turn is one step after the time of this turn, but not in the past and at most one step ahead.
    this.due[index] = (due < now ? Math.max(due, now - this.#perPick) : now) + (this.step[index] as number);
    this.now = now;
  }
}

/** A picker that uses virtual time; its replacement carries on from it. */
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
