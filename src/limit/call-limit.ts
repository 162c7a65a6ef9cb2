import type { Outcome } from '../endpoint/outcome.js';
import type { Limit } from './limit.js';

/** Where a limit that throws is reported. */
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

  /** Infinity if the limit throws, or names no number: then it limits nothing. */
  get max(): number {
    try {
      const { max } = this.#limit;
      if (max >= 0) return max;
      throw new TypeError(`max is ${String(max)}`);
    } catch (error) {
      this.#threw(error);
      return Number.POSITIVE_INFINITY;
    }
  }

  get running(): number {
    return this.#running;
  }

  /** Infinity if the limit throws: then no caller is shed. */
  get shedAfterMs(): number {
    try {
      return this.#limit.shedAfterMs;
    } catch (error) {
      this.#threw(error);
      return Number.POSITIVE_INFINITY;
    }
  }

  get leastMs(): number {
    try {
      const { leastMs } = this.#limit;
      return typeof leastMs === 'number' && leastMs > 0 ? leastMs : 0;
    } catch (error) {
      this.#threw(error);
      return 0;
    }
  }

  get hasRoom(): boolean {
    return this.#running < this.max;
  }

  started(): void {
    this.#running++;
  }

  /** The response to a call has begun, or the call ended without one: it makes room for another. A stream counts no longer than that. */
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
      this.#threw(error);
    }
  }

  #threw(error: unknown): void {
    this.#warnings.warn('a limit threw', error);
  }
}
