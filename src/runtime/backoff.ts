import { jittered, type Rng } from './rng.js';

/** The pauses between repeated attempts, which grow from one to the next. */
export interface BackoffOptions {
  /** The first pause, in ms. */
  readonly initialMs: number;
  /** Each pause is this many times the one before. */
  readonly factor: number;
  /** The longest pause, in ms, before the random part is added. */
  readonly maxMs: number;
  /** How much a pause varies at random, as a share of the pause: 0.2 means by up to 20 % in both directions. */
  readonly jitterRatio: number;
}

/** Returns the pause before the next attempt, in ms. `attempt` is the number of attempts that have failed so far. */
export function backoffDelay(options: BackoffOptions, attempt: number, rng: Rng): number {
  const base = Math.min(options.maxMs, options.initialMs * options.factor ** Math.max(0, attempt - 1));
  return jittered(rng, base, options.jitterRatio);
}
