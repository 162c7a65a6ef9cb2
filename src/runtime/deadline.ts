import type { Clock, Timer } from './clock.js';

/** A timer that fires this much too late tells of a stall of our own event loop, in ms. */
const STALLED_MS = 50;
/** How long what came in during the stall has to be handled first, in ms. */
const GRACE_MS = 100;

/**
 * A timer for a time-out: calls `fn` after `delayMs`, once. After a stall of the event loop (a long computation, a
 * throttled container) all time-outs are due before any socket is looked at, though the answers lie there. A late
 * one therefore waits a moment longer.
 */
export function deadline(clock: Clock, fn: () => void, delayMs: number): Timer {
  const dueMs = clock.now() + delayMs;
  let isReferenced = false;
  let timer = clock.timer(() => {
    if (clock.now() - dueMs < STALLED_MS) {
      fn();
      return;
    }
    timer = clock.timer(fn, GRACE_MS);
    if (isReferenced) timer.ref();
  }, delayMs);
  return {
    cancel: () => timer.cancel(),
    ref: () => {
      isReferenced = true;
      timer.ref();
    },
  };
}
