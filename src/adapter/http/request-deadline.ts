import type { Clock } from '../../index.js';
import { type SharedTimer, type SharedTimers, shorter, type Timed } from '../kit/index.js';

/** When a request has to be over. */
export class RequestDeadline {
  /** The time it was given, in ms. */
  readonly limitMs: number;
  readonly #dueMs: number;
  readonly #clock: Clock;
  readonly #timer: SharedTimer;

  /**
   * @param ownMs Its own deadline, in ms. @param inheritedMs What is left of the request that is being served: different each time,
   * so its timer may be late by a sixteenth. What travels on is exact.
   */
  constructor(
    { clock, timers }: { readonly clock: Clock; readonly timers: SharedTimers },
    ownMs: number | undefined,
    inheritedMs: number | undefined,
    timed: Timed,
  ) {
    const limitMs = shorter(ownMs, inheritedMs) as number;
    this.limitMs = limitMs;
    this.#clock = clock;
    this.#dueMs = clock.now() + limitMs;
    this.#timer = limitMs === ownMs ? timers.start(limitMs, timed) : timers.startAbout(limitMs, timed);
  }

  /** What is left, in ms; 0 or less when it is over. */
  get remainingMs(): number {
    return this.#dueMs - this.#clock.now();
  }

  cancel(): void {
    this.#timer.cancel();
  }
}
