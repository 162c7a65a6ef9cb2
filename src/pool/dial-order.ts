import type { Rng } from '../runtime/rng.js';

/**
 * Returns new endpoints in the order in which they are dialed: drawn at random by weight, those on standby last. In list order, every client
 * that starts would connect to the same endpoint first.
 * Source: weighted sampling without replacement (Efraimidis, Spirakis, IPL 97(5), 2006).
 */
export function inDrawnOrder<N extends { readonly weight: number }>(newcomers: readonly N[], rng: Rng): N[] {
  return newcomers
    .map((newcomer) => {
      const { weight } = newcomer;
      const key = -Math.log(1 - rng.next());
      return { newcomer, standsBy: !hasShare(weight), key: hasShare(weight) ? key / weight : key };
    })
    .sort((a, b) => Number(a.standsBy) - Number(b.standsBy) || a.key - b.key)
    .map(({ newcomer }) => newcomer);
}

/** Whether an endpoint with this weight may get calls. A stage of the application may have set any weight, even NaN. */
export function hasShare(weight: number): boolean {
  return weight > 0 && weight < Number.POSITIVE_INFINITY;
}
