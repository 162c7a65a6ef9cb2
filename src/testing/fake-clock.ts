import type { Clock, Timer } from '../runtime/clock.js';

interface Pending {
  readonly at: number;
  readonly order: number;
  readonly fn: () => void;
  isReferenced: boolean;
}

/**
 * A clock that only moves when a test advances it. Deferred work also runs by itself at the end of the turn, as with the real clock, so
 * promises and deferred work interleave as in production.
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
    const entry: Pending = { at: this.#now + Math.max(0, delayMs), order: this.#order++, fn, isReferenced: false };
    this.#pending.splice(this.#indexOf(entry), 0, entry);
    return {
      cancel: () => {
        const index = this.#indexOf(entry);
        if (this.#pending[index] === entry) this.#pending.splice(index, 1);
      },
      ref() {
        entry.isReferenced = true;
      },
    };
  }

  defer(fn: () => void): void {
    if (this.#deferred.push(fn) === 1) queueMicrotask(() => this.flush());
  }

  /** Runs deferred work now, including work that the deferred work defers in turn. */
  flush(): void {
    while (this.#deferred.length > 0) {
      const batch = this.#deferred;
      this.#deferred = [];
      for (const fn of batch) fn();
    }
  }

  /** Advances time by `ms`, firing timers in order, each at its own time. Promises do not settle in between. */
  advance(ms: number): void {
    const end = this.#now + ms;
    this.flush();
    while (this.#fireNext(end));
    this.#now = end;
  }

  /** Advances time as `advance` does, and lets promises settle after every timer. */
  async advanceAsync(ms: number): Promise<void> {
    const end = this.#now + ms;
    await settle();
    this.flush();
    while (this.#fireNext(end)) await settle();
    this.#now = end;
    await settle();
  }

  /** Lets time pass as if the event loop were blocked: timers due meanwhile fire late, all at the end. */
  async stall(ms: number): Promise<void> {
    this.#now += ms;
    await this.advanceAsync(0);
  }

  /** How many timers are pending; a number that stays above 0 after a test shows a leak. */
  get timers(): number {
    return this.#pending.length;
  }

  /** How many of the pending timers would keep a process alive, because a caller waits for them. */
  get referencedTimers(): number {
    return this.#pending.filter(({ isReferenced }) => isReferenced).length;
  }

  /** When the next timer fires, in ms from now; undefined if none is pending. */
  get nextInMs(): number | undefined {
    const next = this.#pending[0];
    return next === undefined ? undefined : next.at - this.#now;
  }

  /** Fires the next timer due by `endMs`, at that timer's own time; returns false if there is none. */
  #fireNext(endMs: number): boolean {
    const next = this.#pending[0];
    if (next === undefined || next.at > endMs) return false;
    this.#pending.shift();
    this.#now = Math.max(this.#now, next.at);
    next.fn();
    this.flush();
    return true;
  }

  /** The index at which a pending timer is or belongs. The list is kept sorted, because simulations hold thousands of timers. */
  #indexOf(entry: Pending): number {
    let low = 0;
    let high = this.#pending.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const { at, order } = this.#pending[middle] as Pending;
      if (at < entry.at || (at === entry.at && order < entry.order)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Lets all promises that can settle now do so. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
}
