import type { Clock } from '../runtime/clock.js';
import type { Complete } from '../runtime/complete.js';
import { numberOption, type OptionTable, optionTable } from '../runtime/options.js';

/** How many retries are allowed in relation to traffic. */
export interface RetryBudgetOptions {
  /** Share of calls that may be retried, from 0 to 1. @defaultValue 0.2 */
  readonly ratio?: number | undefined;
  /** Retries per second that are always allowed, so that clients with little traffic can retry too. @defaultValue 10 */
  readonly minPerSecond?: number | undefined;
}

export const retryBudgetTable: OptionTable<Complete<RetryBudgetOptions>> = optionTable('retry.budget', {
  ratio: numberOption(0.2, { min: 0, max: 1 }),
  minPerSecond: numberOption(10, { min: 0, max: 1e6 }),
});

/** Fills in defaults. Throws EVENKEEL_OPTION for invalid values. */
export const resolveRetryBudget = (options?: RetryBudgetOptions): Complete<RetryBudgetOptions> =>
  retryBudgetTable.resolve(options);

/** Deposits in the retry budget expire after about this long, in ms. */
const KEPT_MS = 10_000;
/** Time alone adds retries to the budget for at most this long, in ms: a quiet period must not save up for a storm. */
const SAVED_MS = 2_000;
/** The retry budget reads the clock at least once per this many calls: with more of them it would be too uncertain when they were made. */
const SETTLES_AFTER = 128;

/**
 * Limits retries to a share of the traffic: without a budget, a struggling Service gets several times its load at the worst
 * moment. A token bucket: each call deposits `ratio` tokens, time deposits `minPerSecond` per second, a retry withdraws one. It
 * holds what ten seconds of recent traffic deposit, plus two seconds of `minPerSecond`: enough for all calls of a dying pod, but a
 * quiet period saves up nothing for a storm.
 * Source: the retry budgets of Finagle and Tower.
 */
export class RetryBudget {
  readonly #ratio: number;
  readonly #perMs: number;
  readonly #clock: Clock;
  /** Calls deposited since `#updatedMs`. The clock is not read for each of them. */
  #undated = 0;
  #tokens: number;
  /** Calls deposited before `#updatedMs`. */
  #callsBefore = 0;
  #updatedMs: number;
  /** Recent calls: those of this period of `KEPT_MS` and of the previous one. */
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

  /** Calls started since the budget was created. */
  get calls(): number {
    return this.#callsBefore + this.#undated;
  }

  /** How many retries the budget would pay for now. */
  get left(): number {
    this.#settle();
    return Math.floor(this.#tokens);
  }

  /** A call started, and deposits its share of a retry. */
  deposit(): void {
    if (++this.#undated >= SETTLES_AFTER) this.#settle();
  }

  /** Whether a retry is allowed; if so, withdraws its token. */
  withdraw(): boolean {
    this.#settle();
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }

  /** The last retry that was paid for could not be made: returns its token. */
  refund(): void {
    this.#tokens++;
  }

  /** Credits the calls counted so far, as if they were made now. */
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
