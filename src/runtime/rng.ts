/** The source of random numbers that evenkeel uses everywhere. Tests and simulations pass one with a fixed seed. */
export interface Rng {
  /** Returns a random number from 0 up to, but not including, 1. */
  next(): number;
}

/**
 * A generator of random numbers whose state can be stored and restored. It must not be used for secrets. Source: sfc32 (Doty-Humphrey,
 * PractRand).
 */
export class Sfc32 implements Rng {
  /** The state of the generator: four words. */
  readonly state: Int32Array = new Int32Array(4);

  /** @param seed Provides the initial state. Without it, `state` must be filled before the first number is drawn. */
  constructor(seed?: Rng) {
    if (seed === undefined) return;
    for (let word = 0; word < 4; word++) this.state[word] = seed.next() * 4_294_967_296;
    this.state[3] = 1;
    // The first few numbers depend on only a part of the seed, so they are skipped.
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
 * Random numbers that differ in each process. They must not be used for secrets. `Math.random` only provides the seed, because V8
 * allocates an object for each number that it returns.
 */
export const systemRng: Rng = new Sfc32({ next: Math.random });

/** Returns a random index from 0 to `length` - 1. */
export function drawIndex(rng: Rng, length: number): number {
  return (rng.next() * length) | 0;
}

/** Returns a random number from `min` up to, but not including, `max`. */
export function between(rng: Rng, min: number, max: number): number {
  return min + (max - min) * rng.next();
}

/** Returns `value`, changed at random by at most `ratio` of itself in either direction. */
export function jittered(rng: Rng, value: number, ratio: number): number {
  return value * (1 + ratio * (2 * rng.next() - 1));
}
