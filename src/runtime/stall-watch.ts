import type { Clock, Timer } from './clock.js';

/** How often it checks, in ms. */
const TICK_MS = 250;
/** A tick this late was delayed by a stall; less is ordinary work. In ms. */
const STALLED_MS = 100;

/**
 * Detects stalls of our own event loop (a long computation, a throttled container). A call that is slow because of a stall says
 * nothing about its endpoint. Checks only while calls are running.
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

  /** A call starts. */
  began(): void {
    this.#running++;
    if (this.#timer === undefined) this.#look();
  }

  ended(): void {
    this.#running--;
  }

  /**
   * How long the last stall took, in ms, if it was not over by `sinceMs`; otherwise 0. Includes a stall that is just ending.
   */
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
        // It began some time after the previous tick.
        this.#stalledMs = lateMs + TICK_MS;
        this.#stalledUntilMs = nowMs;
      }
      this.#timer = undefined;
      if (this.#running > 0) this.#look();
    }, TICK_MS);
  }
}
