import type { LoadReport, Outcome } from '../endpoint/outcome.js';

/** How many endpoints `p2c` compares for each call by default. */
export const DEFAULT_CHOICES = 3;

/** How busy one endpoint is, as a comparable number. A load lives with its subchannel, so it survives new sets and pickers. */
export interface Load {
  /** Whether `value` changes with time alone. Pickers that keep an order must then check it again at each pick. */
  readonly decays: boolean;
  /** A call starts on the endpoint. */
  start(nowMs: number): void;
  /**
   * A call that started at `startedMs` ended. If its duration means nothing because this process's event loop was blocked, it ends as
   * `not-started`.
   */
  end(startedMs: number, nowMs: number, outcome: Outcome): void;
  /**
   * A load report of the endpoint arrived while a call was running. The outcome of that call will contain the report too.
   *
   * @param inFlight How many calls of this client run on the endpoint now, including the one the report came with.
   */
  reported?(report: LoadReport, inFlight: number, nowMs: number): void;
  /**
   * The cost of one more call on the endpoint now: above 0, smaller is better, preferably an integer. Pickers divide it by the endpoint's
   * weight.
   */
  value(nowMs: number): number;
  /**
   * How many calls per second the endpoint could handle, relative to other endpoints with this load; undefined = unknown.
   * `weightedRoundRobin` multiplies weights by it.
   */
  rate?(nowMs: number): number | undefined;
  /** How many endpoints `p2c` compares for each call if its option `choices` is not set. It may change at any time. @defaultValue 3 */
  readonly choices?: number;
}

/** All loads of one balancer, for loads that compare an endpoint with the others. It stays the same object while the balancer lives. */
export interface LoadSet {
  /** The loads of the balancer's endpoints, one each, including endpoints that are draining. */
  readonly loads: Iterable<Load>;
}

/** Creates loads, one for each endpoint; the value of the option `load`. */
export type LoadFactory = (set: LoadSet) => Load;
