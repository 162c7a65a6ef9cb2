import type { Clock, Timer } from '../runtime/clock.js';
import { TokenBucket } from '../runtime/token-bucket.js';

/** This many verdicts in a row take effect at once. */
const BURST = 10;
/** After a burst, this many verdicts per second take effect at once; others wait for the next run of the stages, at most 50 ms. */
const PER_SECOND = 20;

/**
 * Limits how often the verdicts of stages make all stages run again. Each run costs a new picker too, which takes milliseconds with thousands
 * of endpoints; if all endpoints fail within a second, or connect when a client starts, they must share a few runs.
 */
export class Verdicts {
  readonly #clock: Clock;
  readonly #run: () => void;
  readonly #bucket = new TokenBucket(BURST, PER_SECOND);
  #timer: Timer | undefined;
  /** Whether a run of the stages was requested and has not begun, so that further requests in this turn cost nothing. */
  #isDue = false;
  #isClosed = false;

  constructor(clock: Clock, run: () => void) {
    this.#clock = clock;
    this.#run = run;
  }

  request(): void {
    if (this.#isDue || this.#timer !== undefined || this.#isClosed) return;
    if (this.#bucket.take(this.#clock.now())) {
      this.#isDue = true;
      this.#run();
      return;
    }
    this.#timer = this.#clock.timer(() => {
      this.#timer = undefined;
      this.request();
    }, this.#bucket.waitMs);
  }

  /** The stages are running, so all requests made so far are served. */
  ran(): void {
    this.#isDue = false;
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
    this.#timer = undefined;
  }
}
