import { AsyncResource } from 'node:async_hooks';

/** A running timer. */
export interface Timer {
  /** Stops it; harmless when it has fired. */
  cancel(): void;
  /** Keeps the process alive until it fires, for timers a caller is waiting on. Timers do not by default. */
  ref(): void;
}

/**
 * The only source of time. Decisions use this monotonic clock, so jumps of the wall clock do nothing.
 * `evenkeel/testing` has one that tests steer.
 */
export interface Clock {
  /** Milliseconds since an arbitrary moment; never goes back. */
  now(): number;
  /** Calls `fn` once after `delayMs` (0 to 2^31 - 1), never synchronously. */
  timer(fn: () => void, delayMs: number): Timer;
  /** Calls `fn` at the end of the present turn of the event loop, before any further I/O is handled. */
  defer(fn: () => void): void;
}

const MAX_DELAY_MS = 2 ** 31 - 1;

const background = new AsyncResource('evenkeel');

/**
 * Runs `fn` outside the async context (AsyncLocalStorage) of whoever calls. Connections and timers outlive the request
 * that happened to bring them about; they must not hold its context, nor appear in its trace.
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
