import type { Clock, Timer } from '../runtime/clock.js';
import { jittered, type Rng } from '../runtime/rng.js';
import { isPromise } from './asked.js';

/** The time between two questions is spread by this much either way, so that those for many connections do not come together. */
const JITTER_RATIO = 0.2;

/** What an `AskedWatch` takes. */
export interface AskedWatchParts<T> {
  readonly clock: Clock;
  readonly rng: Rng;
  /** How often the function is asked while the connection lives, in ms, ± 20 %. */
  readonly refreshMs: number;
  readonly ask: () => T | Promise<T>;
  /** Whether a connection opened with the one would be as good as one opened with the other. Must not throw. */
  readonly isSame: (before: T, now: T) => boolean;
}

/**
 * Notices that a function answers otherwise than when a connection was opened: its answers to further connections are
 * compared, and from time to time it is asked for no other reason. What it throws is told to those who need the answer.
 */
export class AskedWatch<T> {
  /** Settles when the answer is another, `refreshMs` after the first at the earliest: a function may never answer the same. */
  readonly outdated: Promise<void>;
  readonly #parts: AskedWatchParts<T>;
  #first: { readonly answer: T; readonly atMs: number } | undefined;
  #timer: Timer | undefined;
  #isOver = false;
  #settle!: () => void;

  constructor(parts: AskedWatchParts<T>) {
    this.#parts = parts;
    this.outdated = new Promise((resolve) => {
      this.#settle = resolve;
    });
  }

  /** Asks, for a connection that is to be opened. Throws or rejects as the function does. */
  ask(): T | Promise<T> {
    const answer = this.#parts.ask();
    if (isPromise(answer)) {
      answer.then(
        (value) => this.#heard(value),
        () => {},
      );
    } else this.#heard(answer);
    return answer;
  }

  /** The connection is given up: nothing is asked any longer. */
  close(): void {
    this.#isOver = true;
    this.#timer?.cancel();
  }

  #heard(answer: T): void {
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
        // First: the answer may end all this.
        this.#schedule();
        try {
          void this.ask();
        } catch {
          // Whoever opens the next connection hears of it.
        }
      },
      jittered(rng, refreshMs, JITTER_RATIO),
    );
  }
}
