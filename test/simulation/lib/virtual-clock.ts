import type { Clock, Timer } from '../../../src/runtime/clock.js';
import { type Event, EventQueue } from './event-queue.js';

/**
 * Virtual time for millions of events. Events of the simulated world are plain calls; timers of the balancers may resolve promises,
 * which are given time to settle after each (`settle` in `run`).
 */
export class VirtualClock implements Clock {
  #nowMs = 0;
  readonly #events = new EventQueue();
  #deferred: (() => void)[] = [];
  /** Whether something happened that may have resolved promises. */
  #unsettled = true;

  now(): number {
    return this.#nowMs;
  }

  timer(fn: () => void, delayMs: number): Timer {
    const event: Event = { atMs: this.#nowMs + Math.max(0, delayMs), fn, world: false };
    this.#events.add(event);
    return { cancel: () => this.#events.cancel(event), ref() {} };
  }

  defer(fn: () => void): void {
    this.#deferred.push(fn);
    this.#unsettled = true;
  }

  /** An event of the simulated world: `fn` is called and nothing else happens. */
  at(atMs: number, fn: () => void): void {
    this.#events.add({ atMs: Math.max(atMs, this.#nowMs), fn, world: true });
  }

  /** Says that promises may be settling: they get time for it before the clock goes on. */
  disturb(): void {
    this.#unsettled = true;
  }

  /** Runs all events up to `untilMs`, then stops there. */
  async run(untilMs: number): Promise<void> {
    for (;;) {
      if (this.#unsettled) await this.#settle();
      const next = this.#events.first;
      if (next === undefined || next.atMs > untilMs) break;
      this.#events.shift();
      const { fn } = next;
      if (fn === undefined) continue;
      next.fn = undefined;
      this.#nowMs = next.atMs;
      fn();
      if (!next.world) this.#unsettled = true;
    }
    this.#nowMs = untilMs;
  }

  async #settle(): Promise<void> {
    do {
      this.#unsettled = false;
      this.#flush();
      for (let turn = 0; turn < 16; turn++) await Promise.resolve();
    } while (this.#unsettled || this.#deferred.length > 0);
  }

  #flush(): void {
    while (this.#deferred.length > 0) {
      const batch = this.#deferred;
      this.#deferred = [];
      for (const fn of batch) fn();
    }
  }
}
