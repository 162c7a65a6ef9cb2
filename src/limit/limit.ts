/** How many calls of a balancer may run at once. One object per balancer, which notifies it of calls. */
export interface Limit {
  /** How many calls may run at once, at this moment. Read for every call, so it may change at any time. */
  readonly max: number;
  /**
   * Once calls have waited this long, in ms, older ones are shed and the newest is served first. Until then, first come, first
   * served.
   */
  readonly shedAfterMs: number;
  /**
   * The shortest time a response takes, as far as known, in ms. Waiting calls whose deadline leaves less than this are shed.
   * @defaultValue 0
   */
  readonly leastMs?: number | undefined;
  /**
   * A call succeeded: an adaptive limit learns from how long that took with so many calls running.
   * @param latencyMs Time to the first byte, in ms.
   * @param inFlight How many calls of the balancer were running, including this one.
   * @param nowMs The time of the balancer's clock, in ms.
   */
  answered(latencyMs: number, inFlight: number, nowMs: number): void;
  /** A caller gave up on an unanswered call after `waitedMs`: the call would have taken longer. */
  gaveUp(waitedMs: number, inFlight: number, nowMs: number): void;
  /** An endpoint refused a call because it is overloaded. */
  overloaded(nowMs: number): void;
}

/** Makes the limit of a balancer; called once for each, so that none shares what it learned: what `adaptive()` and `fixed()` return. */
export type LimitFactory = () => Limit;
