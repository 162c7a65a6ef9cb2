import type { Clock, Timer } from './clock.js';

/** A timer that fires this late indicates a stall of our own event loop. In ms. */
const STALLED_MS = 50;
/** Time to handle what arrived during the stall, in ms. */
const GRACE_MS = 100;

/**
 * A timeout: calls `fn` once, after `delayMs`. After a stall of the event loop (a long computation, a throttled container) all
 * timers are due before any socket is read, although responses have arrived. So a late timeout waits a moment longer.
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
