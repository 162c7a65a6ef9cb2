import type { Dispatcher } from 'undici';
import { checkNumber, optionError } from '../../index.js';
import { type HedgeOptions, type Hedging, hedgingOf } from './hedging.js';

/** How long a request may take, and whether a second pod is asked meanwhile. */
export interface CallOptions {
  /**
   * How long a request may take in all, in ms: waiting, every attempt, and the answer to its end. Then it fails with
   * EVENKEEL_DEADLINE. Or a function that says so for each request; undefined = as long as it takes.
   * @defaultValue no limit: the caller's own signal decides
   */
  readonly deadlineMs?: number | ((options: Dispatcher.DispatchOptions) => number | undefined);
  /** Asks a second pod when the first takes long. @defaultValue never */
  readonly hedge?: HedgeOptions;
}

/** Names of `CallOptions`. */
export const callOptionNames: readonly (keyof CallOptions)[] = Object.freeze(['deadlineMs', 'hedge'] as const);

/** The same, checked. */
export interface CallRules {
  readonly deadlineOf: ((options: Dispatcher.DispatchOptions) => number | undefined) | undefined;
  readonly hedging: Hedging | undefined;
}

/** Longest deadline, in ms. */
const MAX_DEADLINE_MS = 86_400_000;

/** Throws EVENKEEL_OPTION for what does not fit. */
export function callRules({ deadlineMs, hedge }: CallOptions): CallRules {
  return {
    deadlineOf: deadlineMs === undefined ? undefined : deadlineRule(deadlineMs),
    hedging: hedge === undefined ? undefined : hedgingOf(hedge),
  };
}

function deadlineRule(deadlineMs: unknown): CallRules['deadlineOf'] {
  if (typeof deadlineMs === 'function') {
    return (options) => {
      const limitMs = deadlineMs(options);
      if (limitMs === undefined || limitMs === Number.POSITIVE_INFINITY) return undefined;
      // What is left of somebody else's deadline may be nothing: then it is over at once, and not without a limit.
      if (typeof limitMs === 'number' && limitMs <= 0) return 1;
      return checkNumber('deadlineMs()', limitMs, 0, { above: 0, max: MAX_DEADLINE_MS });
    };
  }
  if (typeof deadlineMs !== 'number') throw optionError('deadlineMs', 'a number or a function', deadlineMs);
  const limitMs = checkNumber('deadlineMs', deadlineMs, 0, { min: 1, max: MAX_DEADLINE_MS });
  return () => limitMs;
}
