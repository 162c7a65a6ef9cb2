import type { Picker, PickerFactory, PickRequest, PickSet, PickTarget } from '../../../src/picker/picker.js';
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

class TwoChoices implements Picker {
  readonly #set: PickSet;
  readonly #rng: Rng;

  constructor(set: PickSet, rng: Rng) {
    this.#set = set;
    this.#rng = rng;
  }

  pick(_request: PickRequest): PickTarget | undefined {
    const { targets } = this.#set;
    const first = targets[drawIndex(this.#rng, targets.length)];
    const second = targets[drawIndex(this.#rng, targets.length)];
    if (first === undefined || second === undefined) return undefined;
    return second.inFlight < first.inFlight ? second : first;
  }
}

interface Turn {
  readonly deadline: number;
  readonly order: number;
  readonly subchannel: PickTarget;
  readonly weight: number;
}

class Schedule implements Picker {
  readonly #turns = new Heap<Turn>(
    (a, b) => a.deadline < b.deadline || (a.deadline === b.deadline && a.order < b.order),
  );
  #order = 0;

  constructor({ targets, weights }: PickSet) {
    targets.forEach((subchannel, index) => {
      this.#add(0, subchannel, weights[index] as number);
    });
  }

  pick(_request: PickRequest): PickTarget | undefined {
    const turn = this.#turns.first;
    if (turn === undefined) return undefined;
    this.#turns.shift();
    this.#add(turn.deadline, turn.subchannel, turn.weight);
    return turn.subchannel;
  }

  #add(now: number, subchannel: PickTarget, weight: number): void {
    const own = weight / (subchannel.inFlight + 1) ** ACTIVE_REQUEST_BIAS;
    this.#turns.push({ deadline: now + 1 / own, order: this.#order++, subchannel, weight });
  }
}
