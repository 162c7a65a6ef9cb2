import type { Clock, Timer } from './clock.js';

/** How often it looks, in ms. */
const TICK_MS = 250;
/** A tick this much too late was held up by a stall; less is ordinary work. In ms. */
const STALLED_MS = 100;

/**
 * Notices stalls of our own event loop (a long computation, a throttled container): calls that take long because of
 * one say nothing about their endpoints. Looks only while calls run.
 */
export class StallWatch {
  readonly #clock: Clock;
  #running = 0;
  #timer: Timer | undefined;
  #dueMs = 0;
  #stalledMs = 0;
  #stalledUntilMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A call begins. */
  began(): void {
    this.#running++;
    if (this.#timer === undefined) this.#look();
  }

  ended(): void {
    this.#running--;
  }

  /** How long the last stall took, in ms, if it was not over by `sinceMs`; else 0. Also tells of one that ends just now. */
  stalledSince(sinceMs: number, nowMs: number): number {
    if (this.#timer !== undefined && nowMs - this.#dueMs >= STALLED_MS) return nowMs - this.#dueMs + TICK_MS;
    return this.#stalledUntilMs > sinceMs ? this.#stalledMs : 0;
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #look(): void {
    this.#dueMs = this.#clock.now() + TICK_MS;
    this.#timer = this.#clock.timer(() => {
      const nowMs = this.#clock.now();
      const lateMs = nowMs - this.#dueMs;
      if (lateMs >= STALLED_MS) {
        // It began at some moment after the tick before.
        this.#stalledMs = lateMs + TICK_MS;
        this.#stalledUntilMs = nowMs;
      }
      this.#timer = undefined;
      if (this.#running > 0) this.#look();
    }, TICK_MS);
  }
}
