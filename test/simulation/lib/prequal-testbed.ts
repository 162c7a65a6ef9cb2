import type { Rng } from '../../../src/runtime/rng.js';
import type { WorldOptions } from './world.js';

/** A normal distribution of this mean and deviation, without what is below 0. */
const truncatedNormal =
  (meanMs: number, deviationMs: number) =>
  (rng: Rng): number => {
    for (;;) {
      const normal = Math.sqrt(-2 * Math.log(1 - rng.next())) * Math.cos(2 * Math.PI * rng.next());
      const value = meanMs + deviationMs * normal;
      if (value > 0) return value;
    }
  };

/** Mean of `truncatedNormal(m, m)` per m. */
const TRUNCATED_MEAN = 1.2876;
const CORES = 4;
const MEAN_SPEED = 0.75;
const WORK_MS = 80;
const exponential = (meanMs: number) => (rng: Rng) => -Math.log(1 - rng.next()) * meanMs;

/**
 * The testbed of Prequal (Wydrowski et al., NSDI 2024), after its description: 100 servers of four allocated cores, every other
 * one at half the speed. A fifth have neighbours that now and then cut into the allocation; the others find up to two cores more.
 */
export const prequalTestbed: Pick<
  WorldOptions,
  'servers' | 'clients' | 'deadlineMs' | 'networkMs' | 'serviceTime' | 'machine'
> & { readonly callsPerSecond: (load: number) => number } = {
  servers: 100,
  clients: 100,
  deadlineMs: 5_000,
  networkMs: 0.25,
  serviceTime: truncatedNormal(WORK_MS, WORK_MS),
  machine: (index) => ({
    allocated: CORES,
    speed: index % 2 === 0 ? 1 : 0.5,
    cores: index % 5 === 0 ? (rng) => CORES * (0.75 + 0.25 * rng.next()) : (rng) => CORES + 2 * rng.next(),
    coresForMs: exponential(3_000),
  }),
  /** Calls per second that use this share of what is allocated. */
  callsPerSecond: (load) => (load * 100 * CORES * MEAN_SPEED * 1_000) / (WORK_MS * TRUNCATED_MEAN),
};
