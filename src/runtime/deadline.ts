import type { Clock, Timer } from './clock.js';

/** If a timer fires this late, in ms, the event loop must have been blocked. */
const STALLED_MS = 50;
/** How much longer a timer waits if it fired late, in ms, so that data can be read that arrived while the event loop was blocked. */
const GRACE_MS = 250;
/** How many times in a row a late timer may wait longer. On a very busy machine every turn of the event loop takes long. */
const MAX_GRACES = 40;

/**
 * Calls `fn` once after `delayMs`, as a timeout. If the event loop was blocked (by a long computation, or because a container was
 * throttled), all timers fire before any socket is read, although responses may have arrived. A timeout that fires late therefore waits a
 * moment longer, and again if even that moment was late. Everything that judges other machines by time uses this function.
 *
 * @param graces How many times in a row it may wait longer; 1 for a time limit that somebody set for the request itself.
 */
export function deadline(clock: Clock, fn: () => void, delayMs: number, graces: number = MAX_GRACES): Timer {
  let dueMs = clock.now() + delayMs;
  let left = graces;
  let isReferenced = false;
  const fired = (): void => {
    const nowMs = clock.now();
    if (nowMs - dueMs < STALLED_MS || left === 0) {
      fn();
      return;
    }
    left--;
    dueMs = nowMs + GRACE_MS;
    timer = clock.timer(fired, GRACE_MS);
    if (isReferenced) timer.ref();
  };
  let timer = clock.timer(fired, delayMs);
  return {
    cancel: () => timer.cancel(),
    ref: () => {
      isReferenced = true;
      timer.ref();
    },
  };
}
