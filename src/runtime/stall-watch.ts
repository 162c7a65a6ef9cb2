import type { Clock, Timer } from './clock.js';

/** How often the event loop is checked for a stall, in ms. */
const TICK_MS = 250;
/** A check that is late by this much, in ms, was delayed by a stall; less is ordinary work. */
const STALLED_MS = 100;

/**
 * Detects stalls of our own event loop (a long computation, a throttled container): a call that was slow because of one says nothing
 * about its endpoint. Has a timer only while calls are running.
 */
export class StallWatch {
  readonly #clock: Clock;
  /** How many calls are running. */
  #running = 0;
  #timer: Timer | undefined;
  /** If no check has run by this time, on the clock in ms, the event loop is blocked. */
  #lateFromMs: number = Number.POSITIVE_INFINITY;
  /** When the last stall of the event loop ended, on the clock in ms. */
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

  /** How long the last stall took, in ms, if it ended after `sinceMs`; otherwise 0. A stall that is just ending counts. */
  stalledSince(sinceMs: number, nowMs: number): number {
    if (nowMs >= this.#lateFromMs) return nowMs - this.#lateFromMs + STALLED_MS + TICK_MS;
    return this.#overMs > sinceMs ? this.#stalledMs : 0;
  }

  close(): void {
    this.#timer?.cancel();
    this.#stop();
  }

  /** Checks the event loop for stalls until no call is running. */
  #watch(): void {
    const dueMs = this.#clock.now() + TICK_MS;
    this.#lateFromMs = dueMs + STALLED_MS;
    this.#timer = this.#clock.timer(() => {
      const nowMs = this.#clock.now();
      const lateMs = nowMs - dueMs;
      if (lateMs >= STALLED_MS) {
        // The stall began some time after the previous check, so the whole interval is added.
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
