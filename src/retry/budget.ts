import { checkNumber } from '../runtime/check.js';
import type { Clock } from '../runtime/clock.js';

/** How many retries the traffic may carry. */
export interface RetryBudgetOptions {
  /** Share of calls that may be repeated, from 0 to 1. @defaultValue 0.2 */
  readonly ratio?: number;
  /** Retries per second that are always allowed, so that clients with little traffic can retry too. @defaultValue 10 */
  readonly minPerSecond?: number;
}

/**
 * Keeps retries a bounded share of the traffic: without it, a struggling Service gets several times its load at the
 * worst moment. A token bucket: each call deposits `ratio` tokens, time deposits `minPerSecond`, a retry withdraws one.
 * It holds at most ten seconds of `minPerSecond` plus 100 tokens, so that an hour of calm allows no storm.
 * Source: the retry budgets of Finagle and Tower.
 */
export class RetryBudget {
  readonly #ratio: number;
  readonly #perMs: number;
  readonly #limit: number;
  readonly #clock: Clock;
  #tokens: number;
  #updatedMs: number;

  constructor(options: RetryBudgetOptions, clock: Clock) {
    const perSecond = checkNumber('retry.budget.minPerSecond', options.minPerSecond, 10, { min: 0, max: 1e6 });
    this.#ratio = checkNumber('retry.budget.ratio', options.ratio, 0.2, { min: 0, max: 1 });
    this.#perMs = perSecond / 1_000;
    this.#limit = 100 + perSecond * 10;
    this.#clock = clock;
    this.#tokens = perSecond;
    this.#updatedMs = clock.now();
  }

  /** A call began. */
  deposit(): void {
    if (this.#tokens < this.#limit) this.#tokens += this.#ratio;
  }

  /** Whether a retry may be made; if so it is paid for. */
  withdraw(): boolean {
    const nowMs = this.#clock.now();
    this.#tokens = Math.min(this.#limit, this.#tokens + (nowMs - this.#updatedMs) * this.#perMs);
    this.#updatedMs = nowMs;
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }
}
