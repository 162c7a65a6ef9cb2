import type { Clock } from '../../../runtime/clock.js';
import type { Rng } from '../../../runtime/rng.js';

const INITIAL_MS = 800;
const MAX_MS = 30_000;
/** If the loop did not pause for this long, in ms, the next pause is the shortest again. */
const RESET_AFTER_MS = 120_000;

/**
 * Computes the pauses of the list-and-watch loop after failures: 800 ms, then doubling up to 30 s. To each pause a random time of up to
 * the same length is added.
 */
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

  /** Returns the next pause in ms. It is at least `floorMs` long, which is the pause that the server asked for. */
  next(floorMs = 0): number {
    const now = this.#clock.now();
    if (now - this.#pausedUntilMs > RESET_AFTER_MS) this.#baseMs = INITIAL_MS;
    const baseMs = this.#baseMs;
    this.#baseMs = Math.min(MAX_MS, baseMs * 2);
    return this.#pause(Math.max(baseMs * (1 + this.#rng.next()), floorMs * (1 + 0.1 * this.#rng.next())));
  }

  /** Returns the longest pause in ms, 30 to 60 s. Used for problems that will not go away soon. */
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
