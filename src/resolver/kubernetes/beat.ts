import type { Clock, Timer } from '../../runtime/clock.js';

/** A beat this late means that our own thread was blocked: what others said meanwhile has yet to be read. In ms. */
const LATE_MS = 500;
/** After this many in a row the machine is merely slow, and there was time enough to read messages. */
const MAX_LATE_BEATS = 3;

/** Calls back at regular intervals until it is closed, and says whether what others sent may not be read yet. */
export class Beat {
  readonly #clock: Clock;
  readonly #everyMs: number;
  readonly #beat: (mayHaveMissed: boolean) => void;
  #timer: Timer;
  #late = 0;

  constructor(clock: Clock, everyMs: number, beat: (mayHaveMissed: boolean) => void) {
    this.#clock = clock;
    this.#everyMs = everyMs;
    this.#beat = beat;
    this.#timer = this.#next();
  }

  close(): void {
    this.#timer.cancel();
  }

  #next(): Timer {
    const dueMs = this.#clock.now() + this.#everyMs;
    return this.#clock.timer(() => {
      this.#late = this.#clock.now() - dueMs > LATE_MS ? this.#late + 1 : 0;
      this.#timer = this.#next();
      this.#beat(this.#late > 0 && this.#late <= MAX_LATE_BEATS);
    }, this.#everyMs);
  }
}
