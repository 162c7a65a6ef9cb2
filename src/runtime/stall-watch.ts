import type { Clock, Timer } from './clock.js';

/** How often to check whether the event loop was blocked, in ms. */
const TICK_MS = 250;
/** If a check is late by this much, in ms, the event loop was blocked. A smaller delay is normal. */
const STALLED_MS = 100;

/**
 * Notices when the event loop of this process was blocked, by a long computation or because a container was throttled. A request that was
 * slow for that reason says nothing about its endpoint. A timer only runs while there are requests.
 */
export class StallWatch {
  readonly #clock: Clock;
  /** How many requests are running. */
  #running = 0;
  #timer: Timer | undefined;
  /** The time on the clock, in ms, by which the next check should have run. If it has not, the event loop was blocked. */
  #lateFromMs: number = Number.POSITIVE_INFINITY;
  /** The time on the clock, in ms, until which the event loop was last blocked. */
  #overMs: number = Number.NEGATIVE_INFINITY;
  #stalledMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Says that a request begins. */
  began(): void {
    this.#running++;
    if (this.#timer === undefined) this.#watch();
  }

  /** Says that a request that began has ended. */
  ended(): void {
    this.#running--;
  }

  /**
   * Returns how long the event loop was last blocked, in ms, if that ended after `sinceMs`; otherwise 0. If it is noticed only now that
   * the loop was blocked, that counts as well.
   */
  stalledSince(sinceMs: number, nowMs: number): number {
    if (nowMs >= this.#lateFromMs) return nowMs - this.#lateFromMs + STALLED_MS + TICK_MS;
    return this.#overMs > sinceMs ? this.#stalledMs : 0;
  }

  close(): void {
    this.#timer?.cancel();
    this.#stop();
  }

  /** Checks repeatedly whether the event loop was blocked, as long as requests are running. */
  #watch(): void {
    const dueMs = this.#clock.now() + TICK_MS;
    this.#lateFromMs = dueMs + STALLED_MS;
    this.#timer = this.#clock.timer(() => {
      const nowMs = this.#clock.now();
      const lateMs = nowMs - dueMs;
      if (lateMs >= STALLED_MS) {
        // It is unknown when after the previous check the loop was blocked, so the whole time between two checks is added.
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
