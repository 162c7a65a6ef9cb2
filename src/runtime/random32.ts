import type { Rng } from './rng.js';

/**
 * Random integers for picks: an `Rng` returns a fraction, which is boxed wherever the call is not inlined. Repeatable for one
 * seed. Not for secrets.
 * Source: the splitmix32 finaliser over a Weyl sequence (Steele, Lea, Flood, OOPSLA 2014); period 2^32.
 */
export class Random32 implements Rng {
  #state: number;

  /** @param seed An integer, or a source of random numbers for one. */
  constructor(seed: number | Rng) {
    this.#state = (typeof seed === 'number' ? seed : seed.next() * 4_294_967_296) | 0;
  }

  /** A uniform random index in [0, length). Uneven by at most length / 2^32. */
  index(length: number): number {
    // The division is exact, and can be done before the number is drawn.
    return (this.#roll() * (length / 4_294_967_296)) | 0;
  }

  /** A uniform random index in [0, length) that is never `other`. Needs length ≥ 2. */
  otherIndex(length: number, other: number): number {
    const index = this.index(length - 1);
    // Adds 1 if index ≥ other, without a condition: the processor would guess its result wrong half the time.
    return index + ((other - index - 1) >>> 31);
  }

  /** A uniform random number in [0, 1). */
  next(): number {
    return this.#roll() / 4_294_967_296;
  }

  #roll(): number {
    const state = (this.#state + 0x9e3779b9) | 0;
    this.#state = state;
    let z = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    return (z ^ (z >>> 15)) >>> 0;
  }
}
