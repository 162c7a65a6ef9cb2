/** The source of random numbers that evenkeel uses everywhere. Tests and simulations pass one with a fixed seed. */
export interface Rng {
  /** Returns a random number from 0 up to, but not including, 1. */
  next(): number;
}

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
