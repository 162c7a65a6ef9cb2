import type { Clock, Timer } from '../../../index.js';

/**
 * Limits the time a call waits for a connection: for a server to be picked, and for its handshake or ping. It starts with the
 * first wait, and again once a connection was found.
 */
export class AcquireTimeout {
  readonly limitMs: number;
  readonly #clock: Clock;
  /** When the time is over, on the clock. Unset until the call has to wait. */
  #byMs: number | undefined;
  /** Since when the call has been waiting for the server that was picked, on the clock. Unset if it had a connection at hand. */
  #sinceMs: number | undefined;
  #timer: Timer | undefined;

  constructor(clock: Clock, limitMs: number) {
    this.#clock = clock;
    this.limitMs = limitMs;
  }

  /** What is left, in ms. */
  get restMs(): number {
    const nowMs = this.#clock.now();
    this.#byMs ??= nowMs + this.limitMs;
    return Math.max(0, Math.ceil(this.#byMs - nowMs));
  }

  /** How long the call has waited for the server that was picked, in ms. Negative infinity: not at all. */
  get spentMs(): number {
    return this.#clock.now() - (this.#sinceMs ?? Number.POSITIVE_INFINITY);
  }

  /** A server was picked. */
  picked(): void {
    this.#sinceMs = undefined;
  }

  /** The server has no connection at hand. `over` is called when the time is over. */
  waits(over: () => void): void {
    if (this.#timer !== undefined) return;
    this.#sinceMs = this.#clock.now();
    this.#timer = this.#clock.timer(over, this.restMs);
    this.#timer.ref();
  }

  /** The server has answered. `lent`: with a connection. */
  answered(lent: boolean): void {
    this.stop();
    if (lent) this.#byMs = undefined;
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }
}
