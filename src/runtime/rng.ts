/** The only source of randomness. Tests and simulations pass a seeded one. */
export interface Rng {
  /** Uniform in [0, 1). */
  next(): number;
}

/**
 * Real randomness; not for secrets. `Math.random` only seeds it, because each of its numbers is an object on the heap; this
 * generator is inlined where it is called. Source: sfc32 (Doty-Humphrey, PractRand).
 */
export const systemRng: Rng = seededByRuntime();

function seededByRuntime(): Rng {
  const state = Int32Array.from({ length: 4 }, () => Math.random() * 2 ** 32);
  return {
    next() {
      const b = state[1] as number;
      const c = state[2] as number;
      const counter = state[3] as number;
      const sum = ((state[0] as number) + b + counter) | 0;
      state[0] = b ^ (b >>> 9);
      state[1] = c + (c << 3);
      state[2] = ((c << 21) | (c >>> 11)) + sum;
      state[3] = counter + 1;
      return (sum >>> 0) / 4_294_967_296;
    },
  };
}

/** A uniform index in [0, length). */
export function drawIndex(rng: Rng, length: number): number {
  return (rng.next() * length) | 0;
}

/** Uniform in [min, max). */
export function between(rng: Rng, min: number, max: number): number {
  return min + (max - min) * rng.next();
}

/** `value` changed by up to ± `ratio` of itself, uniformly. */
export function jittered(rng: Rng, value: number, ratio: number): number {
  return value * (1 + ratio * (2 * rng.next() - 1));
}
