/** Decides how many calls of a balancer may run at once. Each balancer has one such object and notifies it of its calls. */
export interface Limit {
  /** How many calls may run at once now. It is read for every call, so it may change at any time. */
  readonly max: number;
  /**
   * How long calls wait in the order of their arrival, in ms. Once some call has waited longer, the newest call is served first and old
   * ones are shed.
   */
  readonly shedAfterMs: number;
  /**
   * The shortest time in which a response arrives, as far as known, in ms. Waiting calls whose deadline leaves less time than this are
   * shed. @defaultValue 0
   */
  readonly leastMs?: number | undefined;
  /**
   * A call succeeded. An adaptive limit learns from how long the call took while so many were running.
   *
   * @param latencyMs Time to the first byte, in ms.
   * @param inFlight How many calls of the balancer were running, including this one.
   * @param nowMs The time on the balancer's clock, in ms.
   */
  answered(latencyMs: number, inFlight: number, nowMs: number): void;
  /** A caller gave up on a call without a response after `waitedMs`; the response would have taken longer. */
  gaveUp(waitedMs: number, inFlight: number, nowMs: number): void;
  /** An endpoint refused a call because it is overloaded. */
  overloaded(nowMs: number): void;
}

/**
 * Creates a balancer's limit. It is called once per balancer, so that balancers do not share what their limits learn. `adaptive()` and
 * `fixed()` return such functions.
 */
export type LimitFactory = () => Limit;
