/** The only source of randomness. Tests and simulations pass a seeded one. */
export interface Rng {
  /** A uniform random number in [0, 1). */
  next(): number;
}

/**
 * Random numbers whose state can be stored and restored. Not for secrets. Source: sfc32 (Doty-Humphrey, PractRand).
 */
export class Sfc32 implements Rng {
  /** The state of the generator: four words. */
  readonly state: Int32Array = new Int32Array(4);

  /** @param seed Provides the initial state; without a seed the state is to be restored. */
  constructor(seed?: Rng) {
    if (seed === undefined) return;
    for (let word = 0; word < 4; word++) this.state[word] = seed.next() * 4_294_967_296;
    this.state[3] = 1;
    // The first numbers of a seed are skipped, because they depend on few of its bits.
    for (let turn = 0; turn < 12; turn++) this.next();
  }

  next(): number {
    const { state } = this;
    const b = state[1] as number;
    const c = state[2] as number;
    const counter = state[3] as number;
    const sum = ((state[0] as number) + b + counter) | 0;
    state[0] = b ^ (b >>> 9);
    state[1] = c + (c << 3);
    state[2] = ((c << 21) | (c >>> 11)) + sum;
    state[3] = counter + 1;
    return (sum >>> 0) / 4_294_967_296;
  }
}

/**
 * Real randomness; not for secrets. `Math.random` only seeds it, because each of its numbers is an object on the heap; `Sfc32` is
 * inlined where it is called.
 */
export const systemRng: Rng = new Sfc32({ next: Math.random });

/** A uniform index in [0, length). */
export function drawIndex(rng: Rng, length: number): number {
  return (rng.next() * length) | 0;
}

/** A uniform random number in [min, max). */
export function between(rng: Rng, min: number, max: number): number {
  return min + (max - min) * rng.next();
}

/** `value` changed by up to ± `ratio` of itself, uniformly. */
export function jittered(rng: Rng, value: number, ratio: number): number {
  return value * (1 + ratio * (2 * rng.next() - 1));
}
