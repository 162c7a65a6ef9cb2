import type { Subchannel } from '../pool/subchannel.js';
import { Random32 } from '../runtime/random32.js';
import type { Rng } from '../runtime/rng.js';

/** Which endpoints are to be asked how busy they are: a few random ones per call, if their load would learn from it. */
export class ProbeDraws<C> {
  readonly #rng: Rng;
  readonly #perCall: number;
  /** Made when the first endpoint is drawn. */
  #random: Random32 | undefined;
  /** Fractions of `perCall` not used yet, below 1. */
  #credit = 0;

  constructor(rng: Rng, perCall: number) {
    this.#rng = rng;
    this.#perCall = perCall;
  }

  /** Begins again from nothing but chance. */
  refresh(): void {
    this.#random = undefined;
    this.#credit = 0;
  }

  draw(candidates: readonly Pick<Subchannel<C>, 'wantsReport'>[], nowMs: number, drawn: (index: number) => void): void {
    this.#random ??= new Random32(this.#rng);
    let credit = this.#credit + this.#perCall;
    for (; credit >= 1; credit--) {
      const index = this.#random.index(candidates.length);
      if (candidates[index]?.wantsReport(nowMs) === true) drawn(index);
    }
    this.#credit = credit;
  }
}
