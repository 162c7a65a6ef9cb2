import type { Outcome } from '../endpoint/outcome.js';
import type { Limit } from '../limit/limit.js';

/** Who is told that a limit threw. */
export interface LimitWarnings {
  warn(message: string, error: unknown): void;
}

/** A balancer's limit, with the calls it counts: those whose answer has not begun. On the path of every call. */
export class CallLimit {
  readonly #limit: Limit;
  readonly #warnings: LimitWarnings;
  #running = 0;

  constructor(limit: Limit, warnings: LimitWarnings) {
    this.#limit = limit;
    this.#warnings = warnings;
  }

  get max(): number {
    return this.#limit.max;
  }

  get running(): number {
    return this.#running;
  }

  get shedAfterMs(): number {
    return this.#limit.shedAfterMs;
  }

  get leastMs(): number {
    const { leastMs } = this.#limit;
    return typeof leastMs === 'number' && leastMs > 0 ? leastMs : 0;
  }

  get hasRoom(): boolean {
    return this.#running < this.#limit.max;
  }

  started(): void {
    this.#running++;
  }

  /** The answer of a call has begun, or it ended without one: it makes room. A stream counts no longer than that. */
  freed(): void {
    this.#running--;
  }

  /**
   * A call ended, before or after it made room.
   * @param latencyMs Until the first byte, or until the caller gave up.
   */
  learn(outcome: Outcome, latencyMs: number, nowMs: number, answered: boolean): void {
    const limit = this.#limit;
    const { kind, cause } = outcome;
    try {
      if (cause === 'overload') limit.overloaded(nowMs);
      else if (kind === 'success') limit.answered(latencyMs, this.#running + 1, nowMs);
      else if (!answered && (kind === 'cancelled' || cause === 'timeout')) {
        limit.gaveUp(latencyMs, this.#running + 1, nowMs);
      }
    } catch (error) {
      this.#warnings.warn('a limit threw', error);
    }
  }
}
