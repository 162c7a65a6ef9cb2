import type { Clock, Timer } from '../runtime/clock.js';

interface Pending {
  readonly at: number;
  readonly order: number;
  readonly fn: () => void;
}

/**
 * A clock that stands still until a test advances it. Deferred work also runs by itself at the end of the turn, as with
 * the real clock, so promises and deferred work interleave as in production.
 */
export class FakeClock implements Clock {
  #now: number;
  #order = 0;
  #pending: Pending[] = [];
  #deferred: (() => void)[] = [];

  constructor(startMs = 1_000) {
    this.#now = startMs;
  }

  now(): number {
    return this.#now;
  }

  timer(fn: () => void, delayMs: number): Timer {
    const entry: Pending = { at: this.#now + Math.max(0, delayMs), order: this.#order++, fn };
    // Kept sorted: simulations hold thousands of timers and look only at the first.
    let low = 0;
    let high = this.#pending.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#pending[middle] as Pending).at <= entry.at) low = middle + 1;
      else high = middle;
    }
    this.#pending.splice(low, 0, entry);
    return {
      cancel: () => {
        const index = this.#pending.indexOf(entry);
        if (index !== -1) this.#pending.splice(index, 1);
      },
      ref() {},
    };
  }

  defer(fn: () => void): void {
    if (this.#deferred.push(fn) === 1) queueMicrotask(() => this.flush());
  }

  /** Runs deferred work now, that which it defers included. */
  flush(): void {
    while (this.#deferred.length > 0) {
      const batch = this.#deferred;
      this.#deferred = [];
      for (const fn of batch) fn();
    }
  }

  /** Moves time on by `ms`, firing timers in their order, each at its own moment. Promises do not settle in between. */
  advance(ms: number): void {
    const end = this.#now + ms;
    this.flush();
    for (let next = this.#pending[0]; next !== undefined && next.at <= end; next = this.#pending[0]) {
      this.#pending.shift();
      this.#now = next.at;
      next.fn();
      this.flush();
    }
    this.#now = end;
  }

  /** As `advance`, letting promises settle after every timer. */
  async advanceAsync(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settle();
    this.flush();
    for (let next = this.#pending[0]; next !== undefined && next.at <= end; next = this.#pending[0]) {
      this.#pending.shift();
      this.#now = next.at;
      next.fn();
      this.flush();
      await settle();
    }
    this.#now = end;
    await settle();
  }

  /** How many timers wait: a leak shows here. */
  get timers(): number {
    return this.#pending.length;
  }

  /** When the next timer fires, in ms from now; undefined when none waits. */
  get nextInMs(): number | undefined {
    const next = this.#pending[0];
    return next === undefined ? undefined : next.at - this.#now;
  }
}

/** Lets all promises that can settle now do so. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
}
