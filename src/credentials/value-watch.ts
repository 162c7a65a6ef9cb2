import type { Clock, Timer } from '../runtime/clock.js';
import { jittered, type Rng } from '../runtime/rng.js';
import { isPromise } from './per-endpoint.js';

/**
 * The share by which the interval between two calls of a function varies at random, so that the functions of many connections are not
 * called at the same moment.
 */
const JITTER_RATIO = 0.2;

/** The parts of a `ValueWatch`. */
export interface ValueWatchParts<T> {
  readonly clock: Clock;
  readonly rng: Rng;
  /** How often the function is called while the connection lives, in ms, ± 20 %. */
  readonly refreshMs: number;
  readonly read: () => T | Promise<T>;
  /** Whether a connection opened with `before` is as good as one opened with `now`. Must not throw. */
  readonly isSame: (before: T, now: T) => boolean;
}

/**
 * Notices when a function's result has changed since a connection was opened: results for further connections are compared, and
 * the function is also called from time to time. What it throws is reported only to callers that need the result.
 */
export class ValueWatch<T> {
  /** Settles when the result has changed, after `refreshMs` at the earliest: a function may return something new each time. */
  readonly outdated: Promise<void>;
  readonly #parts: ValueWatchParts<T>;
  #first: { readonly answer: T; readonly atMs: number } | undefined;
  #timer: Timer | undefined;
  #isOver = false;
  #settle!: () => void;

  constructor(parts: ValueWatchParts<T>) {
    this.#parts = parts;
    this.outdated = new Promise((resolve) => {
      this.#settle = resolve;
    });
  }

  /** Calls the function for a connection about to be opened. Throws or rejects as the function does. */
  read(): T | Promise<T> {
    const answer = this.#parts.read();
    if (isPromise(answer)) {
      answer.then(
        (value) => this.#received(value),
        () => {},
      );
    } else this.#received(answer);
    return answer;
  }

  /** The connection is closed: its watch no longer calls the function. */
  close(): void {
    this.#isOver = true;
    this.#timer?.cancel();
  }

  #received(answer: T): void {
    if (this.#isOver) return;
    const { clock, refreshMs, isSame } = this.#parts;
    if (this.#first === undefined) {
      this.#first = { answer, atMs: clock.now() };
      this.#schedule();
    } else if (!isSame(this.#first.answer, answer)) {
      this.close();
      const restMs = this.#first.atMs + refreshMs - clock.now();
      if (restMs <= 0) this.#settle();
      else this.#timer = clock.timer(this.#settle, restMs);
    }
  }

  #schedule(): void {
    const { clock, rng, refreshMs } = this.#parts;
    this.#timer = clock.timer(
      () => {
        // The timer must be set before the result is compared: the result may close the watch.
        this.#schedule();
        try {
          void this.read();
        } catch {
          // The error is ignored here, because the next caller that opens a connection gets it.
        }
      },
      jittered(rng, refreshMs, JITTER_RATIO),
    );
  }
}
