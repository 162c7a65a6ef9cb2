import type { LoadReport, Outcome } from '../endpoint/outcome.js';

/** How busy one endpoint is, as a comparable number. Lives with its subchannel, so it survives new sets and pickers. */
export interface Load {
  /** True if `value` changes over time by itself; pickers that keep an order must then recheck it. */
  readonly decays: boolean;
  /** A call starts. */
  start(nowMs: number): void;
  /**
   * A call that started at `startedMs` ended. If its duration means nothing because our own event loop was blocked, it ends as
   * `not-started`.
   */
  end(startedMs: number, nowMs: number, outcome: Outcome): void;
  /**
   * The endpoint said how busy it is: on a response to a call that runs, whose outcome the report is part of too, or because it was
   * asked.
   * @param inFlight Our calls on the endpoint at this moment, the one it came with included.
   */
  reported?(report: LoadReport, inFlight: number, nowMs: number): void;
  /**
   * Whether it would help to ask the endpoint how busy it is now. Asked for a few random endpoints with each call, where the
   * transport can ask. Absent: never.
   */
  wantsReport?(nowMs: number): boolean;
  /** The cost of one more call now, above 0; smaller is better. Pickers divide it by the weight. Preferably an integer. */
  value(nowMs: number): number;
  /**
   * How many calls per second the endpoint could handle, relative to others with the same load; undefined = unknown.
   * `weightedRoundRobin` multiplies weights by it.
   */
  rate?(nowMs: number): number | undefined;
  /** How many endpoints `p2c` compares for each call, unless its option `choices` says; may change. @defaultValue 3 */
  readonly choices?: number;
}

/** All loads of one balancer: for a load that compares an endpoint with the others. One object for as long as it lives. */
export interface LoadSet {
  /** One per endpoint, those that are draining included. */
  readonly loads: Iterable<Load>;
}

/** A load metric as an option: one `Load` is made per subchannel. */
export type LoadFactory = (set: LoadSet) => Load;
