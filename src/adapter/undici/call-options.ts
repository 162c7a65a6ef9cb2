import type { Dispatcher } from 'undici';
import { type DeadlineOf, deadlineRule } from '../http/deadline-rule.js';
import { type HedgeOptions, type Hedging, hedgingOf } from './hedging.js';

/** How long a request may take, and whether a second pod is asked in parallel. */
export interface CallOptions {
  /**
   * How long a request may take in all, in ms: waiting, every attempt, and the whole response. Then it fails with
   * EVENKEEL_DEADLINE. Or a function of the request; undefined = no limit.
   * @defaultValue no limit: the caller's own signal decides
   */
  readonly deadlineMs?: number | DeadlineOf<Dispatcher.DispatchOptions> | undefined;
  /** Asks a second pod when the first is slow. @defaultValue never */
  readonly hedge?: HedgeOptions | undefined;
}

/** Names of `CallOptions`. */
export const callOptionNames: readonly (keyof CallOptions)[] = Object.freeze(['deadlineMs', 'hedge'] as const);

/** The same, checked. */
export interface CallRules {
  readonly deadlineOf: DeadlineOf<Dispatcher.DispatchOptions> | undefined;
  readonly hedging: Hedging | undefined;
}

/** Throws EVENKEEL_OPTION for what does not fit. */
export function callRules({ deadlineMs, hedge }: CallOptions): CallRules {
  return {
    deadlineOf: deadlineMs === undefined ? undefined : deadlineRule(deadlineMs),
    hedging: hedge === undefined ? undefined : hedgingOf(hedge),
  };
}
