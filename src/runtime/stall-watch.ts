import type { Clock, Timer } from './clock.js';

/** How often it checks, in ms. */
const TICK_MS = 250;
/** A tick this late was delayed by a stall; less is ordinary work. In ms. */
const STALLED_MS = 100;

/**
 * Detects stalls of our own event loop (a long computation, a throttled container): a call that was slow because of one says nothing
 * about its endpoint. Has a timer only while calls are running.
 */
export class StallWatch {
  readonly #clock: Clock;
  /** Calls that are running. */
  #running = 0;
  #timer: Timer | undefined;
  /** If no tick has come by this time, the event loop is blocked. */
  #lateFromMs: number = Number.POSITIVE_INFINITY;
  /** When the last stall ended. */
  #overMs: number = Number.NEGATIVE_INFINITY;
  #stalledMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** A call begins. */
  began(): void {
    this.#running++;
    if (this.#timer === undefined) this.#watch();
  }

  /** A call that began has ended. */
  ended(): void {
    this.#running--;
  }

  /**
   * How long the last stall took, in ms, if it ended after `sinceMs`; otherwise 0. Includes a stall that is just ending.
   */
  stalledSince(sinceMs: number, nowMs: number): number {
    if (nowMs >= this.#lateFromMs) return nowMs - this.#lateFromMs + STALLED_MS + TICK_MS;
    return this.#overMs > sinceMs ? this.#stalledMs : 0;
  }

  close(): void {
    this.#timer?.cancel();
    this.#stop();
  }

  /** Until no call is running. */
  #watch(): void {
    const dueMs = this.#clock.now() + TICK_MS;
    this.#lateFromMs = dueMs + STALLED_MS;
    this.#timer = this.#clock.timer(() => {
      const nowMs = this.#clock.now();
      const lateMs = nowMs - dueMs;
      if (lateMs >= STALLED_MS) {
        // It began some time after the previous tick.
        this.#stalledMs = lateMs + TICK_MS;
        this.#overMs = nowMs;
      }
      if (this.#running > 0) this.#watch();
      else this.#stop();
    }, TICK_MS);
  }

  #stop(): void {
    this.#lateFromMs = Number.POSITIVE_INFINITY;
    this.#timer = undefined;
  }
}
