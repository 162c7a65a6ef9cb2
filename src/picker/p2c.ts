import type { Subchannel } from '../pool/subchannel.js';
import { drawIndex, drawOtherIndex, type Rng } from '../runtime/rng.js';
import { firstFitting } from './fallback.js';
import { fits, type Picker, type PickerFactory, type PickRequest, type PickSet } from './picker.js';

/**
 * Power of two choices: draws two distinct subchannels and takes the one with less load per weight. O(1) per pick.
 * The fullest server stays about ln ln n above the mean, with no coordination between clients.
 * Source: Mitzenmacher, The Power of Two Choices in Randomized Load Balancing, IEEE TPDS 12(10), 2001.
 */
export const p2c =
  (): PickerFactory =>
  (set, _previous, { rng }) =>
    new P2cPicker(set, rng);

class P2cPicker<C> implements Picker<C> {
  readonly #set: PickSet<C>;
  readonly #rng: Rng;

  constructor(set: PickSet<C>, rng: Rng) {
    this.#set = set;
    this.#rng = rng;
  }

  pick(request: PickRequest<C>): Subchannel<C> | undefined {
    const { subchannels, weights } = this.#set;
    const { length } = subchannels;
    if (length < 2) return firstFitting(this.#set, request, 0);
    const i = drawIndex(this.#rng, length);
    const j = drawOtherIndex(this.#rng, length, i); // never i: comparing a server with itself is a plain random pick
    const first = subchannels[i] as Subchannel<C>;
    const second = subchannels[j] as Subchannel<C>;
    if (!fits(first, request)) return fits(second, request) ? second : firstFitting(this.#set, request, i);
    if (!fits(second, request)) return first;
    const a = first.load.value(request.nowMs) / (weights[i] as number);
    const b = second.load.value(request.nowMs) / (weights[j] as number);
    return a <= b ? first : second;
  }
}
