import { Random32 } from '../runtime/random32.js';
import type { Rng } from '../runtime/rng.js';

/** A source of random numbers that a seed repeats. Source: splitmix32, as `Random32`. */
export function seededRng(seed: number): Rng {
  return new Random32(seed);
}
