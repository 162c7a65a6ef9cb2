import type { Picker, PickerFactory, PickRequest, PickSet } from '../../../src/picker/picker.js';
import type { Subchannel } from '../../../src/pool/subchannel.js';
import { drawIndex, type Rng } from '../../../src/runtime/rng.js';
import { Heap } from './heap.js';

/** Envoy's default. */
const ACTIVE_REQUEST_BIAS = 1;

/**
 * Least request. With equal weights two random hosts are compared by active requests (they may be the same host). With unequal
 * ones, as during slow start, hosts take turns by an earliest-deadline-first schedule over weight / (active + 1) ^ bias.
 * Source: Envoy, source/extensions/load_balancing_policies/common/load_balancer_impl.cc (LeastRequestLoadBalancer), and
 * extensions.load_balancing_policies.least_request.v3.
 */
export const envoyLeastRequest =
  (): PickerFactory =>
  (set, _previous, { rng }) =>
    set.equalWeights ? new TwoChoices(set, rng) : new Schedule(set);

class TwoChoices<C> implements Picker<C> {
  readonly #set: PickSet<C>;
  readonly #rng: Rng;

  constructor(set: PickSet<C>, rng: Rng) {
    this.#set = set;
    this.#rng = rng;
  }

  pick(_request: PickRequest<C>): Subchannel<C> | undefined {
    const { subchannels } = this.#set;
    const first = subchannels[drawIndex(this.#rng, subchannels.length)];
    const second = subchannels[drawIndex(this.#rng, subchannels.length)];
    if (first === undefined || second === undefined) return undefined;
    return second.inFlight < first.inFlight ? second : first;
  }
}

interface Turn<C> {
  readonly deadline: number;
  readonly order: number;
  readonly subchannel: Subchannel<C>;
  readonly weight: number;
}

class Schedule<C> implements Picker<C> {
  readonly #turns = new Heap<Turn<C>>(
    (a, b) => a.deadline < b.deadline || (a.deadline === b.deadline && a.order < b.order),
  );
  #order = 0;

  constructor({ subchannels, weights }: PickSet<C>) {
    subchannels.forEach((subchannel, index) => {
      this.#add(0, subchannel, weights[index] as number);
    });
  }

  pick(_request: PickRequest<C>): Subchannel<C> | undefined {
    const turn = this.#turns.first;
    if (turn === undefined) return undefined;
    this.#turns.shift();
    this.#add(turn.deadline, turn.subchannel, turn.weight);
    return turn.subchannel;
  }

  #add(now: number, subchannel: Subchannel<C>, weight: number): void {
    const own = weight / (subchannel.inFlight + 1) ** ACTIVE_REQUEST_BIAS;
    this.#turns.push({ deadline: now + 1 / own, order: this.#order++, subchannel, weight });
  }
}
