import type { Rng } from './rng.js';

/**
 * A generator of random integers for picking endpoints. `Rng` returns fractions, which V8 often stores as objects; integers cost less.
 * The same seed results in the same numbers. It must not be used for secrets.
 * Source: the splitmix32 finaliser over a Weyl sequence (Steele, Lea, Flood, OOPSLA 2014); period 2^32.
 */
export class Random32 implements Rng {
  #state: number;

  /** @param seed An integer, or a source of random numbers that provides one. */
  constructor(seed: number | Rng) {
    this.#state = (typeof seed === 'number' ? seed : seed.next() * 4_294_967_296) | 0;
  }

  /** Returns a random index from 0 to `length` - 1. All are equally likely, up to a difference of `length` / 2^32. */
  index(length: number): number {
    // Dividing by a power of two has no rounding error, and the processor can do it before the random number is known.
    return (this.#roll() * (length / 4_294_967_296)) | 0;
  }

  /** Returns a random index from 0 to `length` - 1, but never `other`. `length` must be at least 2. */
  otherIndex(length: number, other: number): number {
    const index = this.index(length - 1);
    // This adds 1 if index ≥ other. It has no condition, because the processor would predict that wrongly half of the time.
    return index + ((other - index - 1) >>> 31);
  }

  /** Returns a random number from 0 up to, but not including, 1. */
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

/**
 * Random numbers that differ in each process. They must not be used for secrets. `Math.random` only provides the seed, because V8
 * allocates an object for each number that it returns.
 */
export const systemRng: Rng = new Random32({ next: Math.random });
