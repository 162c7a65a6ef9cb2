import type { LoadReport, Outcome } from '../endpoint/outcome.js';

/** How many endpoints `p2c` compares for a call by default. */
export const DEFAULT_CHOICES = 3;

/** How busy one endpoint is, as a comparable number. A load lives with its subchannel, so it survives new sets and pickers. */
export interface Load {
  /** True if `value` changes over time by itself; pickers that keep an order must then recheck it. */
  readonly decays: boolean;
  /** A call starts on the endpoint. */
  start(nowMs: number): void;
  /**
   * A call that started at `startedMs` ended. If its duration is meaningless because our own event loop was blocked, it ends as
   * `not-started`.
   */
  end(startedMs: number, nowMs: number, outcome: Outcome): void;
  /**
   * A load report of the endpoint arrived with the response to a running call, whose outcome includes the report too.
   * @param inFlight Our calls on the endpoint at this moment, including the one the report came with.
   */
  reported?(report: LoadReport, inFlight: number, nowMs: number): void;
  /** The cost of one more call now, above 0; smaller is better. Pickers divide it by the weight. Preferably an integer. */
  value(nowMs: number): number;
  /**
   * How many calls per second the endpoint could handle, relative to others with the same load; undefined = unknown.
   * `weightedRoundRobin` multiplies weights by it.
   */
  rate?(nowMs: number): number | undefined;
  /** How many endpoints `p2c` compares for each call, if its option `choices` is not set; may change. @defaultValue 3 */
  readonly choices?: number;
}

/** All loads of one balancer, for a load that compares an endpoint with the others. Stays the same object. */
export interface LoadSet {
  /** The loads of the balancer's endpoints, one each, including endpoints that are draining. */
  readonly loads: Iterable<Load>;
}

/** A load metric as an option: one `Load` is made per subchannel. */
export type LoadFactory = (set: LoadSet) => Load;

/** What a load knows about an endpoint, for people. */
export interface LoadFacts {
  /** The endpoint's place in the order of preference, from 1; absent if it has none now. */
  readonly place?: number;
  /** The endpoint's latency that the load computes with, in ms. */
  readonly latencyMs?: number;
  /** Share of the endpoint's calls that failed, 0 to 1. */
  readonly failing?: number;
  /** Other clients' calls in flight on the endpoint, as last reported. */
  readonly others?: number;
  /** The endpoint's utilization that the load computes with. */
  readonly utilization?: number;
  /** How long ago the endpoint reported, in ms. */
  readonly reportAgeMs?: number;
}
