import type { Clock } from '../../../runtime/clock.js';
import type { Rng } from '../../../runtime/rng.js';

const INITIAL_MS = 800;
const MAX_MS = 30_000;
/** After this long without a pause of the list-and-watch loop, in ms, the next one is short again. */
const RESET_AFTER_MS = 120_000;

/** The pauses of the list-and-watch loop: 800 ms, doubling to 30 s, each plus up to the same again. */
export class WatchBackoff {
  readonly #clock: Clock;
  readonly #rng: Rng;
  #baseMs = INITIAL_MS;
  /** When the last pause ends or ended, on the clock in ms. */
  #pausedUntilMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, rng: Rng) {
    this.#clock = clock;
    this.#rng = rng;
  }

  /** The next pause in ms, at least `floorMs`, which the server requested. */
  next(floorMs = 0): number {
    const now = this.#clock.now();
    if (now - this.#pausedUntilMs > RESET_AFTER_MS) this.#baseMs = INITIAL_MS;
    const baseMs = this.#baseMs;
    this.#baseMs = Math.min(MAX_MS, baseMs * 2);
    return this.#pause(Math.max(baseMs * (1 + this.#rng.next()), floorMs * (1 + 0.1 * this.#rng.next())));
  }

  /** The longest pause in ms, 30 to 60 s, for problems that will not go away soon. */
  longest(): number {
    this.#baseMs = MAX_MS;
    return this.#pause(MAX_MS * (1 + this.#rng.next()));
  }

  /** Makes the next pause the shortest again. */
  reset(): void {
    this.#baseMs = INITIAL_MS;
  }

  #pause(ms: number): number {
    this.#pausedUntilMs = this.#clock.now() + ms;
    return ms;
  }
}
