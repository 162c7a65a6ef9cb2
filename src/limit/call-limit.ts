import type { Outcome } from '../endpoint/outcome.js';
import { ignoreRejection } from '../runtime/ignore-rejection.js';
import type { Limit } from './limit.js';

/** Gets the errors that a limit of the application throws. */
export interface LimitWarnings {
  warn(message: string, error: unknown): void;
}

/** A balancer's limit, and the calls that count against it: those whose response has not begun. Its methods run for every call. */
export class CallLimit {
  readonly #limit: Limit;
  readonly #warnings: LimitWarnings;
  #running = 0;

  constructor(limit: Limit, warnings: LimitWarnings) {
    this.#limit = limit;
    this.#warnings = warnings;
  }

  /** How many calls may run at once. Infinity, so that nothing is limited, if the limit object throws or returns no number. */
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

  /** How long calls may wait before they are shed, in ms. Infinity, so that no call is shed, if the limit object throws. */
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

  /**
   * A call no longer counts against the limit: its response has begun, or it ended without one. A stream that goes on after its response
   * began does not count either.
   */
  freed(): void {
    this.#running--;
  }

  /**
   * A call ended, and the limit learns from it.
   *
   * @param latencyMs The time to the first byte, or until the caller gave up.
   */
  learn(outcome: Outcome, latencyMs: number, nowMs: number, answered: boolean): void {
    const limit = this.#limit;
    const { kind, cause } = outcome;
    try {
      if (cause === 'overload') ignoreRejection(limit.overloaded(nowMs));
      else if (kind === 'success') ignoreRejection(limit.answered(latencyMs, this.#running + 1, nowMs));
      else if (!answered && (kind === 'cancelled' || cause === 'timeout')) {
        ignoreRejection(limit.gaveUp(latencyMs, this.#running + 1, nowMs));
      }
    } catch (error) {
      this.#threw(error);
    }
  }

  #threw(error: unknown): void {
    this.#warnings.warn('a limit threw', error);
  }
}
