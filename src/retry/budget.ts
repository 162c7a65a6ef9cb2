import type { Clock } from '../runtime/clock.js';
import type { Complete } from '../runtime/complete.js';
import { numberOption, type OptionTable, optionTable } from '../runtime/options.js';

/** Options of a retry budget: how many retries are allowed in relation to traffic. An invalid option throws EVENKEEL_OPTION. */
export interface RetryBudgetOptions {
  /** The share of calls that may be retried, from 0 to 1. @defaultValue 0.2 */
  readonly ratio?: number | undefined;
  /** How many retries per second are allowed in any case, so that clients with little traffic can retry too. @defaultValue 10 */
  readonly minPerSecond?: number | undefined;
}

export const retryBudgetTable: OptionTable<Complete<RetryBudgetOptions>> = optionTable('retry.budget', {
  ratio: numberOption(0.2, { min: 0, max: 1 }),
  minPerSecond: numberOption(10, { min: 0, max: 1e6 }),
});

/** Fills in the defaults of a retry budget's options and checks them. Throws EVENKEEL_OPTION. */
export const resolveRetryBudget = (options?: RetryBudgetOptions): Complete<RetryBudgetOptions> =>
  retryBudgetTable.resolve(options);

/** What calls have deposited in the retry budget expires after about this long, in ms. */
const KEPT_MS = 10_000;
/**
 * The passing of time adds at most this much, in ms, of `minPerSecond` to the budget, because a quiet period must not save up for a storm.
 */
const SAVED_MS = 2_000;
/**
 * The retry budget reads the clock at least once per this many calls. With more calls in between, it would be too uncertain when they were
 * made.
 */
const SETTLES_AFTER = 128;

/**
 * Limits retries to a share of the traffic: without a budget, a struggling Service gets several times its load at the worst moment. It is a
 * token bucket: each call deposits `ratio` tokens, time deposits `minPerSecond` per second, and a retry withdraws one. The bucket holds
 * what ten seconds of recent traffic deposit, plus two seconds of `minPerSecond`: enough for all calls of a dying pod, but a quiet period
 * saves up nothing for a storm.
 * Source: the retry budgets of Finagle and Tower.
 */
export class RetryBudget {
  readonly #ratio: number;
  readonly #perMs: number;
  readonly #clock: Clock;
  /** How many calls have deposited since `#updatedMs`. They are counted without reading the clock. */
  #undated = 0;
  #tokens: number;
  /** How many calls had deposited by `#updatedMs`. */
  #callsBefore = 0;
  #updatedMs: number;
  /** How many calls were made recently: in this period of `KEPT_MS`, and in the one before. */
  #spanCalls = 0;
  #spanCallsBefore = 0;
  #spanSinceMs: number;

  constructor(options: RetryBudgetOptions, clock: Clock) {
    const { ratio, minPerSecond } = resolveRetryBudget(options);
    this.#ratio = ratio;
    this.#perMs = minPerSecond / 1_000;
    this.#clock = clock;
    this.#tokens = minPerSecond;
    this.#updatedMs = clock.now();
    this.#spanSinceMs = this.#updatedMs;
  }

  /** How many calls were started since the budget was created. */
  get calls(): number {
    return this.#callsBefore + this.#undated;
  }

  /** For how many retries the budget would pay now. */
  get left(): number {
    this.#settle();
    return Math.floor(this.#tokens);
  }

  /** Says that a call has started. Each call adds a fraction of a retry to the budget. */
  deposit(): void {
    if (++this.#undated >= SETTLES_AFTER) this.#settle();
  }

  /** Withdraws the token for a retry. Returns false if the budget does not cover one. */
  withdraw(): boolean {
    this.#settle();
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }

  /** Returns the token of the last retry, which could not be made. */
  refund(): void {
    this.#tokens++;
  }

  /** Credits the calls counted since the last time, as if all were made now. */
  #settle(): void {
    const nowMs = this.#clock.now();
    const calls = this.#undated;
    this.#undated = 0;
    this.#callsBefore += calls;
    const spanMs = nowMs - this.#spanSinceMs;
    if (spanMs >= KEPT_MS) {
      const isNext = spanMs < 2 * KEPT_MS;
      this.#spanCallsBefore = isNext ? this.#spanCalls : 0;
      this.#spanCalls = 0;
      this.#spanSinceMs = isNext ? this.#spanSinceMs + KEPT_MS : nowMs;
    }
    this.#spanCalls += calls;
    const recent = this.#spanCalls + this.#spanCallsBefore * (1 - (nowMs - this.#spanSinceMs) / KEPT_MS);
    const limit = this.#ratio * recent + this.#perMs * SAVED_MS;
    const deposited = calls * this.#ratio + (nowMs - this.#updatedMs) * this.#perMs;
    this.#tokens = Math.min(limit, this.#tokens + deposited);
    this.#updatedMs = nowMs;
  }
}
