import type { Clock, Timer } from './clock.js';

/** A timer that fires late by this much, in ms, indicates a stall of our own event loop. */
const STALLED_MS = 50;
/** Time to handle what arrived during a stall of the event loop, in ms. */
const GRACE_MS = 250;
/** On a machine so busy that every turn takes long, a late timeout waits at most this many times. */
const MOST_GRACES = 40;

/**
 * A timeout: calls `fn` once, after `delayMs`. After a stall of the event loop (a long computation, a throttled container) all timers are
 * due before any socket is read, although responses have arrived. So a late timeout waits a moment longer, and again while even that moment
 * comes late. Everything that judges the network by time uses this function.
 *
 * @param graces How often the timeout waits longer; 1 for a time limit that somebody set for the call itself.
 */
export function deadline(clock: Clock, fn: () => void, delayMs: number, graces: number = MOST_GRACES): Timer {
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
