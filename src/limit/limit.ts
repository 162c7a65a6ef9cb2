/** How many calls of a balancer may run at once. One object per balancer, which tells it about calls. */
export interface Limit {
  /** The limit. Read for every call. */
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
   * A call succeeded.
   * @param latencyMs Time to the first byte.
   * @param inFlight How many calls were running, including this one.
   */
  answered(latencyMs: number, inFlight: number, nowMs: number): void;
  /** A caller gave up on an unanswered call after this long: it would have taken longer. */
  gaveUp(waitedMs: number, inFlight: number, nowMs: number): void;
  /** An endpoint refused a call because it is overloaded. */
  overloaded(nowMs: number): void;
}

/** Makes the limit of a balancer. */
export type LimitFactory = () => Limit;
