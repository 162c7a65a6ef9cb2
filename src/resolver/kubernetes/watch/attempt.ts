import type { Clock, Timer } from '../../../runtime/clock.js';
import { ApiFailure } from '../api/api-failure.js';

/** A timer that is late by this much, in ms, means that the event loop was blocked. */
const STALL_MS = 1_000;

/** One request to the API server with its time limits. */
export class WatchRequest {
  readonly #controller = new AbortController();
  readonly #clock: Clock;
  readonly #what: string;
  readonly #timers = new Set<Timer>();
  /** The number of the current time limit, so that an earlier one that fires late is recognized. */
  #limits = 0;
  #receivedAtMs = 0;
  #silenceMs: number | undefined;

  constructor(clock: Clock, timeoutMs: number, what: string) {
    this.#clock = clock;
    this.#what = what;
    this.#limitTo(timeoutMs, `no answer to the ${what} within ${timeoutMs / 1_000} s`);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Replaces the time limit of the request. */
  extend(timeoutMs: number): void {
    this.#limitTo(timeoutMs, `the ${this.#what} did not end when it should have`);
  }

  after(delayMs: number, fn: () => void): void {
    const timer = this.#clock.timer(() => {
      this.#timers.delete(timer);
      fn();
    }, delayMs);
    this.#timers.add(timer);
  }

  received(): void {
    this.#receivedAtMs = this.#clock.now();
  }

  /** From now on a pause in the stream longer than `silenceMs` ends the request; later calls of this method may allow longer pauses. */
  expectBytesEvery(silenceMs: number): void {
    const isFirst = this.#silenceMs === undefined;
    this.#silenceMs = silenceMs;
    if (isFirst) this.#watchSilence(silenceMs);
  }

  /** The request is over: stops all its timers. */
  end(): void {
    for (const timer of this.#timers) timer.cancel();
    this.#timers.clear();
  }

  /** Aborts the request, which is no longer wanted. */
  cancel(): void {
    this.end();
    this.#controller.abort(new Error('closed'));
  }

  /**
   * Ends the request when the stream is silent for too long. One timer checks when it fires how long ago the last byte arrived, so that
   * bytes need no timers.
   */
  #watchSilence(delayMs: number): void {
    this.#punctually(delayMs, () => {
      const silentMs = this.#clock.now() - this.#receivedAtMs;
      const limitMs = this.#silenceMs as number;
      if (silentMs >= limitMs) this.#cut(`nothing came on the ${this.#what} for ${limitMs / 1_000} s`);
      else this.#watchSilence(limitMs - silentMs);
    });
  }

  #limitTo(timeoutMs: number, message: string): void {
    this.#limits += 1;
    const limit = this.#limits;
    this.#punctually(timeoutMs, () => {
      // A time limit that was replaced meanwhile has no effect.
      if (this.#limits === limit) this.#cut(message);
    });
  }

  /**
   * Calls `fn` after `delayMs`; if the event loop was blocked meanwhile, only after reading what arrived in that time: our own stall is
   * no silence of the server.
   */
  #punctually(delayMs: number, fn: () => void): void {
    const dueMs = this.#clock.now() + delayMs;
    this.after(delayMs, () => {
      if (this.#clock.now() - dueMs < STALL_MS) fn();
      else this.#punctually(STALL_MS, fn);
    });
  }

  #cut(message: string): void {
    this.#controller.abort(new ApiFailure('timeout', this.#what, message));
  }
}
