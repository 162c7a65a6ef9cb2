import type { Subchannel } from '../pool/subchannel.js';
import type { Rng } from '../runtime/rng.js';
import type { Picker, PickRequest, PickSet } from './picker.js';
import { Turns } from './turns.js';

/**
 * Looks at every subchannel and takes the cheapest: exact, and O(n), so for small sets. The cost of an idle endpoint is
 * halved when its turn has come and rises to its full value right after a pick: equal ones alternate by weight, and one
 * that is twice as slow as the best is left alone while the best is idle.
 */
export class ScanPicker<C> implements Picker<C> {
  readonly set: PickSet<C>;
  readonly turns: Turns;

  constructor(set: PickSet<C>, previous: Picker<C> | undefined, rng: Rng) {
    this.set = set;
    this.turns = new Turns(set, previous, rng);
  }

  pick(request: PickRequest<C>): Subchannel<C> | undefined {
    const { nowMs, avoid } = request;
    const { subchannels } = this.set;
    const { turns } = this;
    const { step, due, now } = turns;
    let best = -1;
    let bestCost = 0;
    let bestAvoided = true;
    for (let index = 0; index < subchannels.length; index++) {
      const subchannel = subchannels[index] as Subchannel<C>;
      const { inFlight } = subchannel;
      if (inFlight >= subchannel.capacity) continue;
      const avoided = avoid?.has(subchannel) === true;
      if (avoided && !bestAvoided) continue;
      const unit = subchannel.load.value(nowMs) / (inFlight + 1);
      const wait = Math.max(0, (due[index] as number) - now);
      const cost = unit * (inFlight * (step[index] as number) + 0.5 + 0.5 * wait);
      // Of those that cost the same, the one that has been due the longest.
      const cheaper = cost < bestCost || (cost === bestCost && (due[index] as number) < (due[best] as number));
      if (best === -1 || (bestAvoided && !avoided) || cheaper) {
        best = index;
        bestCost = cost;
        bestAvoided = avoided;
      }
    }
    if (best === -1) return undefined;
    turns.take(best);
    return subchannels[best];
  }
}
