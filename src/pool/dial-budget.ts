/** Dials per second to endpoints that failed recently. */
const PER_SECOND = 50;
/** The maximum burst, after a second without any. */
const LIMIT = PER_SECOND;

/**
 * Limits dials to endpoints that do not answer. Each endpoint has its own pauses, but thousands of them (a partition, or a
 * Service whose pods are gone) would together cost a core and a storm of SYNs. A token bucket; a successful dial is refunded,
 * so that endpoints that return are connected without delay.
 */
export class DialBudget {
  #tokens = LIMIT;
  #updatedMs = Number.NEGATIVE_INFINITY;

  /** Pays for a dial, if the budget allows. */
  take(nowMs: number): boolean {
    this.#tokens = Math.min(LIMIT, this.#tokens + Math.max(0, nowMs - this.#updatedMs) * (PER_SECOND / 1_000));
    this.#updatedMs = nowMs;
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }

  /** A dial that was paid for succeeded. */
  giveBack(): void {
    this.#tokens = Math.min(LIMIT, this.#tokens + 1);
  }

  /** Time until the next one can be paid for, in whole ms, as of the last `take`. */
  get waitMs(): number {
    return Math.max(1, Math.ceil((1 - this.#tokens) * (1_000 / PER_SECOND)));
  }
}
