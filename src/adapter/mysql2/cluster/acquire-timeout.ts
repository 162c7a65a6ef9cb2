import type { Clock, Timer } from '../../../index.js';

/**
 * The time a call has for finding a connection: waiting for a server and for a handshake or a ping together. It starts
 * with the first wait; another attempt has all of it again.
 */
export class AcquireTimeout {
  readonly limitMs: number;
  readonly #clock: Clock;
  /** When a connection must have been found, on the clock; unset while there was no need to wait. */
  #byMs: number | undefined;
  /** Since when the server that was picked is waited for, on the clock; unset where it had a connection at hand. */
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

  /** How long the server that was picked has had so far, in ms. Negative infinity: it was not waited for. */
  get spentMs(): number {
    return this.#clock.now() - (this.#sinceMs ?? Number.POSITIVE_INFINITY);
  }

  /** A server was picked. */
  picked(): void {
    this.#sinceMs = undefined;
  }

  /** It has no connection at hand: `over` is called when the time is. */
  waits(over: () => void): void {
    if (this.#timer !== undefined) return;
    this.#sinceMs = this.#clock.now();
    this.#timer = this.#clock.timer(over, this.restMs);
    this.#timer.ref();
  }

  /** It has given an answer. `lent`: a connection. */
  answered(lent: boolean): void {
    this.stop();
    if (lent) this.#byMs = undefined;
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }
}
