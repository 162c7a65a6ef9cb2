import type { Clock, Timer } from '../runtime/clock.js';
import { jittered, type Rng } from '../runtime/rng.js';
import { isPromise } from './per-endpoint.js';

/**
 * The interval between two calls of an application's function varies at random by this share, so that the functions of many connections are
 * not called at the same moment.
 */
const JITTER_RATIO = 0.2;

/** What a `ValueWatch` needs. */
export interface ValueWatchParts<T> {
  readonly clock: Clock;
  readonly rng: Rng;
  /** How often the application's function is called while the connection lives, in ms, ± 20 %. */
  readonly refreshMs: number;
  readonly read: () => T | Promise<T>;
  /** Whether a connection opened with the result `before` is as good as one opened with `now`. Must not throw. */
  readonly isSame: (before: T, now: T) => boolean;
}

/**
 * Watches an application's function, such as one that returns certificates, and notices when its result has changed since a connection was
 * opened. Results for further connections are compared, and the function is also called from time to time. What the function throws is
 * reported only to callers that need the result.
 */
export class ValueWatch<T> {
  /**
   * Resolves when the function's result has changed, but not before `refreshMs` have passed since the first result: a function may return
   * something new each time.
   */
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

  /** Calls the application's function for a connection that is about to be opened. Throws or rejects as the function does. */
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

  /** The connection is closed, so the function is no longer called for it. */
  close(): void {
    this.#isOver = true;
    this.#timer?.cancel();
  }

  #received(answer: T): void {
    if (this.#isOver) return;
    const { clock, refreshMs, isSame } = this.#parts;
    if (this.#first === undefined) {
      this.#first = { answer: copyOf(answer), atMs: clock.now() };
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
        // The next timer is set before the result is compared, because the comparison may close this watch and must then find the timer.
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

/** Copies a plain object, because an application's function may always return one object, which it changes. */
function copyOf<T>(answer: T): T {
  const isPlain = typeof answer === 'object' && answer !== null && Object.getPrototypeOf(answer) === Object.prototype;
  return isPlain ? { ...answer } : answer;
}
