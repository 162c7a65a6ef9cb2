import { AsyncResource } from 'node:async_hooks';

/** A running timer. */
export interface Timer {
  /** Stops the timer; does nothing if it has fired. */
  cancel(): void;
  /** Keeps the process alive until the timer fires, for timers that a caller waits for. By default timers do not. */
  ref(): void;
}

/**
 * The only source of time. Decisions use this monotonic clock, so jumps of the wall clock have no effect. `evenkeel/testing` has a clock
 * that tests control.
 */
export interface Clock {
  /** The time now, in ms since an arbitrary moment; never decreases. */
  now(): number;
  /** Calls `fn` once after `delayMs` (0 to 2^31 - 1), never synchronously. */
  timer(fn: () => void, delayMs: number): Timer;
  /** Calls `fn` at the end of the current turn of the event loop, before any further I/O is handled. */
  defer(fn: () => void): void;
}

const MAX_DELAY_MS = 2 ** 31 - 1;

const background = new AsyncResource('evenkeel');

/**
 * Runs `fn` outside the caller's async context (AsyncLocalStorage). Connections and timers outlive the request that happened to
 * cause them; they must neither hold its context nor appear in its trace.
 */
export function inBackground<T>(fn: () => T): T {
  return background.runInAsyncScope(fn);
}

/** The real clock. */
export const systemClock: Clock = {
  now: () => performance.now(),
  timer(fn, delayMs) {
    const timeout = inBackground(() => setTimeout(fn, Math.min(Math.max(0, delayMs), MAX_DELAY_MS)));
    timeout.unref();
    return {
      cancel: () => clearTimeout(timeout),
      ref: () => {
        timeout.ref();
      },
    };
  },
  defer: (fn) => inBackground(() => queueMicrotask(fn)),
};
