/** The only source of chance. Tests and simulations pass a seeded one. */
export interface Rng {
  /** Uniform in [0, 1). */
  next(): number;
}

/** Chance from the runtime; not for secrets. */
export const systemRng: Rng = { next: Math.random };

/** A uniform index in [0, length). */
export function drawIndex(rng: Rng, length: number): number {
  return (rng.next() * length) | 0;
}

/** A uniform index in [0, length) that is never `other`. Needs length ≥ 2. */
export function drawOtherIndex(rng: Rng, length: number, other: number): number {
  const index = (rng.next() * (length - 1)) | 0;
  return index >= other ? index + 1 : index;
}

/** `value` moved by up to ± `ratio` of itself, uniformly. */
export function jittered(rng: Rng, value: number, ratio: number): number {
  return value * (1 + ratio * (2 * rng.next() - 1));
}
