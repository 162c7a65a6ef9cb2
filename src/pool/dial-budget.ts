/** How many dials to endpoints that failed lately a balancer pays for per second. */
const PER_SECOND = 50;
/** As many may be made at once, after a second without any. */
const LIMIT = PER_SECOND;

/**
 * What a balancer may spend on endpoints that do not answer: each keeps its own pauses, but thousands of them, a partition
 * or a Service whose pods are gone, would together cost a core and a storm of SYNs. A token bucket; a dial that brings a
 * connection costs nothing in the end, so that what has come back is connected to without delay.
 */
export class DialBudget {
  #tokens = LIMIT;
  #updatedMs = Number.NEGATIVE_INFINITY;

  /** Pays for a dial, if it can. */
  take(nowMs: number): boolean {
    this.#tokens = Math.min(LIMIT, this.#tokens + Math.max(0, nowMs - this.#updatedMs) * (PER_SECOND / 1_000));
    this.#updatedMs = nowMs;
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }

  /** A dial that was paid for brought a connection. */
  giveBack(): void {
    this.#tokens = Math.min(LIMIT, this.#tokens + 1);
  }

  /** How long until the next can be paid for, in whole ms, as of the last `take`. */
  get waitMs(): number {
    return Math.max(1, Math.ceil((1 - this.#tokens) * (1_000 / PER_SECOND)));
  }
}
