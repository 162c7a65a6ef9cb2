import { jittered, type Rng } from './rng.js';

/** A growing pause between attempts. */
export interface BackoffOptions {
  /** First pause, in ms. */
  readonly initialMs: number;
  /** Each pause is this many times the one before. */
  readonly factor: number;
  /** Longest pause before jitter, in ms. */
  readonly maxMs: number;
  /** Random variation as a share of the pause: 0.2 means ± 20 %. */
  readonly jitterRatio: number;
}

/** The pause before attempt `attempt` + 1, in ms; `attempt` counts failures so far, from 1. */
export function backoffDelay(options: BackoffOptions, attempt: number, rng: Rng): number {
  const base = Math.min(options.maxMs, options.initialMs * options.factor ** Math.max(0, attempt - 1));
  return jittered(rng, base, options.jitterRatio);
}
