/** How many calls of a balancer may run at once. One object per balancer, which feeds it. */
export interface Limit {
  /** How many. Read for every call. */
  readonly max: number;
  /**
   * How long calls may wait for it, in ms, once some have waited that long: older ones are shed, and the newest is served first.
   * Until then, first come first served.
   */
  readonly shedAfterMs: number;
  /**
   * How long an answer takes at least, as far as is known, in ms: waiting calls with a deadline leave when less is left.
   * @defaultValue 0
   */
  readonly leastMs?: number | undefined;
  /**
   * A call succeeded.
   * @param latencyMs How long its first byte took.
   * @param inFlight How many calls were running, including this one.
   */
  answered(latencyMs: number, inFlight: number, nowMs: number): void;
  /** A caller gave up on a call that had no answer, after so long: it would have taken longer. */
  gaveUp(waitedMs: number, inFlight: number, nowMs: number): void;
  /** An endpoint refused a call because it has too much to do. */
  overloaded(nowMs: number): void;
}

/** Makes the limit of a balancer. */
export type LimitFactory = () => Limit;
