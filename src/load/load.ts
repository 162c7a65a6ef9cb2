import type { Outcome } from '../endpoint/outcome.js';

/** How busy one endpoint is, as a comparable number. Lives with its subchannel, so it survives new sets and pickers. */
export interface Load {
  /** True if `value` changes with time alone; pickers that keep an order then have to look again. */
  readonly decays: boolean;
  /** A call begins. */
  start(nowMs: number): void;
  /**
   * A call that began at `startedMs` ended. One whose time says nothing, since our own event loop stood still, ends as
   * `not-started`.
   */
  end(startedMs: number, nowMs: number, outcome: Outcome): void;
  /** The cost of one more call now, above 0; smaller is better. Pickers divide it by the weight. Best a whole number. */
  value(nowMs: number): number;
  /**
   * How many calls per second the endpoint could bear, against others with the same load metric; undefined = it does
   * not know. What `weightedRoundRobin` multiplies weights by.
   */
  rate?(nowMs: number): number | undefined;
}

/** A load metric as an option: one `Load` is made per subchannel. */
export type LoadFactory = () => Load;
