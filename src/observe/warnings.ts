import type { Clock } from '../runtime/clock.js';
import { notify, type Observer } from './observer.js';

/** How often trouble of one kind is told of, in ms. */
const AGAIN_AFTER_MS = 60_000;

/**
 * Tells of trouble with what users plug in (a stage, a picker, a transport) that was handled, as `warned`. It may come
 * with every call, so each kind is told of at most once a minute.
 */
export class Warnings {
  readonly #observer: Observer;
  readonly #clock: Clock;
  readonly #toldAtMs = new Map<string, number>();

  constructor(observer: Observer, clock: Clock) {
    this.#observer = observer;
    this.#clock = clock;
  }

  /** @param message Also the kind: no addresses and no numbers in it, or the memory for them grows. */
  warn(message: string, error: unknown): void {
    const nowMs = this.#clock.now();
    const toldAtMs = this.#toldAtMs.get(message);
    if (toldAtMs !== undefined && nowMs - toldAtMs < AGAIN_AFTER_MS) return;
    this.#toldAtMs.set(message, nowMs);
    notify(this.#observer, 'warned', { message, error });
  }
}
