import { AsyncResource } from 'node:async_hooks';
import { now, timers } from './timers.js';

/** A running timer. */
export interface Timer {
  /** Stops the timer; does nothing if it has fired. */
  cancel(): void;
  /** Makes the timer keep the process alive until it fires, because a caller waits for it. By default timers do not. */
  ref(): void;
}

/**
 * The time and the timers that evenkeel uses everywhere. The time is monotonic, so a change of the system's date has no effect.
 * `evenkeel/testing` has a clock that tests control.
 */
export interface Clock {
  /** The time now, in ms since an arbitrary moment; never decreases. */
  now(): number;
  /** Calls `fn` once after `delayMs`, which may be from 0 to 2^31 - 1. It is never called before this method has returned. */
  timer(fn: () => void, delayMs: number): Timer;
  /** Calls `fn` at the end of the current turn of the event loop, before any further I/O is handled. */
  defer(fn: () => void): void;
}

const MAX_DELAY_MS = 2 ** 31 - 1;

const background = new AsyncResource('evenkeel');

/**
 * Runs `fn` outside of the caller's async context (AsyncLocalStorage). A connection or a timer may live longer than the request that
 * happened to create it, so it must neither keep the request's context in memory nor appear in the request's trace.
 */
export function inBackground<T>(fn: () => T): T {
  return background.runInAsyncScope(fn);
}

/** The clock of the machine. */
export const systemClock: Clock = {
  now,
  timer(fn, delayMs) {
    const timeout = inBackground(() => timers.setTimeout(fn, Math.min(Math.max(0, delayMs), MAX_DELAY_MS)));
    timeout.unref();
    return {
      cancel: () => timers.clearTimeout(timeout),
      ref: () => {
        timeout.ref();
      },
    };
  },
  defer: (fn) => inBackground(() => timers.queueMicrotask(fn)),
};
