import type { Clock } from '../runtime/clock.js';
import { ignoreRejection } from '../runtime/ignore-rejection.js';
import { notify, type Observer } from './observer.js';

/** A handled problem of one kind is reported at most once in this time, in ms. */
const AGAIN_AFTER_MS = 60_000;

/**
 * The wall between evenkeel and what is plugged in (a stage, a load, a connection): its mistakes become the event `warned`. Such a mistake
 * may occur with every call, so each kind is reported at most once a minute.
 */
export class Warnings {
  readonly #observer: Observer;
  readonly #clock: Clock;
  readonly #warnedAtMs = new Map<string, number>();

  constructor(observer: Observer, clock: Clock) {
    this.#observer = observer;
    this.#clock = clock;
  }

  /**
   * Emits `warned`, unless an equal message was emitted less than a minute ago. @param message Says what happened, and stands for the kind
   * of problem. It must contain no addresses or numbers, because every different message is remembered.
   */
  warn(message: string, error: unknown): void {
    const nowMs = this.#clock.now();
    const warnedAtMs = this.#warnedAtMs.get(message);
    if (warnedAtMs !== undefined && nowMs - warnedAtMs < AGAIN_AFTER_MS) return;
    this.#warnedAtMs.set(message, nowMs);
    notify(this.#observer, 'warned', { message, error });
  }

  /**
   * Returns what `call` returns; if it throws, warns with `message` and returns `instead`. A promise that `call` returns by mistake may
   * reject unheard.
   */
  guarded<T>(message: string, call: () => T, instead: T): T {
    try {
      const result = call();
      ignoreRejection(result);
      return result;
    } catch (error) {
      this.warn(message, error);
      return instead;
    }
  }
}
