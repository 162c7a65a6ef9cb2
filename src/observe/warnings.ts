import type { Clock } from '../runtime/clock.js';
import { notify, type Observer } from './observer.js';

/** Handled problems of the same kind are reported at most once in this time, in ms. */
const AGAIN_AFTER_MS = 60_000;

/**
 * Reports handled problems with plug-ins (a stage, a picker, a transport) as `warned`. They may occur with every call, so each
 * kind is reported at most once a minute.
 */
export class Warnings {
  readonly #observer: Observer;
  readonly #clock: Clock;
  readonly #warnedAtMs = new Map<string, number>();

  constructor(observer: Observer, clock: Clock) {
    this.#observer = observer;
    this.#clock = clock;
  }

  /** Emits `warned`, unless the same message was emitted a short time ago. @param message Also the kind: it must contain no addresses or numbers, or memory grows. */
  warn(message: string, error: unknown): void {
    const nowMs = this.#clock.now();
    const warnedAtMs = this.#warnedAtMs.get(message);
    if (warnedAtMs !== undefined && nowMs - warnedAtMs < AGAIN_AFTER_MS) return;
    this.#warnedAtMs.set(message, nowMs);
    notify(this.#observer, 'warned', { message, error });
  }
}
