import type { Rng } from '../runtime/rng.js';

/** Repeatable randomness. Source: the splitmix32 finalizer over a Weyl sequence (Steele, Lea, Flood, OOPSLA 2014). */
export function seededRng(seed: number): Rng {
  let state = seed | 0;
  return {
    next() {
      state = (state + 0x9e3779b9) | 0;
      let z = state ^ (state >>> 16);
      z = Math.imul(z, 0x21f0aaad);
      z ^= z >>> 15;
      z = Math.imul(z, 0x735a2d97);
      return ((z ^ (z >>> 15)) >>> 0) / 4_294_967_296;
    },
  };
}
