import type { Clock, Timer } from '../../../runtime/clock.js';
import { deadline } from '../../../runtime/deadline.js';
import { ApiFailure } from '../api/api-failure.js';

/** One request to the API server with its time limits. */
export class WatchRequest {
  readonly #controller = new AbortController();
  readonly #clock: Clock;
  readonly #what: string;
  readonly #timers = new Set<Timer>();
  /** Numbers the time limits of the request, so that one that was replaced is recognized when it fires. */
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

  /** When the last byte arrived, or the headers before it, on the clock in ms. */
  get receivedAtMs(): number {
    return this.#receivedAtMs;
  }

  received(): void {
    this.#receivedAtMs = this.#clock.now();
  }

  /** From now on, the request is aborted if the stream is silent for longer than `silenceMs`. A later call may allow longer pauses. */
  expectBytesEvery(silenceMs: number): void {
    const isFirst = this.#silenceMs === undefined;
    this.#silenceMs = silenceMs;
    if (isFirst) this.#watchSilence(silenceMs);
  }

  /** Stops all timers of the request, because it is over. */
  end(): void {
    for (const timer of this.#timers) timer.cancel();
    this.#timers.clear();
  }

  /** Aborts the request, as if a time limit had passed. */
  cut(message: string): void {
    this.#controller.abort(new ApiFailure('timeout', this.#what, message));
  }

  /** Aborts the request, which is no longer wanted. */
  cancel(): void {
    this.end();
    this.#controller.abort(new Error('closed'));
  }

  /**
   * Aborts the request if the stream is silent for too long. A single timer checks how long ago the last byte arrived; a new timer for
   * each byte would cost too much.
   */
  #watchSilence(delayMs: number): void {
    this.#punctually(delayMs, () => {
      const silentMs = this.#clock.now() - this.#receivedAtMs;
      const limitMs = this.#silenceMs as number;
      if (silentMs >= limitMs) this.cut(`nothing came on the ${this.#what} for ${limitMs / 1_000} s`);
      else this.#watchSilence(limitMs - silentMs);
    });
  }

  #limitTo(timeoutMs: number, message: string): void {
    this.#limits += 1;
    const limit = this.#limits;
    this.#punctually(timeoutMs, () => {
      // If the time limit was replaced meanwhile, this one has no effect.
      if (this.#limits === limit) this.cut(message);
    });
  }

  /** Calls `fn` after `delayMs`, or a little later if this process was blocked: the server was not silent then. */
  #punctually(delayMs: number, fn: () => void): void {
    const timer = deadline(
      this.#clock,
      () => {
        this.#timers.delete(timer);
        fn();
      },
      delayMs,
    );
    this.#timers.add(timer);
  }
}
