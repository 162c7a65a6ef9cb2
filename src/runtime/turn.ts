import { timers } from './timers.js';

/**
 * Calls `fn` once everything has been handled that other machines have sent up to now, including closed connections. `fn` runs in the
 * caller's async context.
 */
export function afterPendingIo(fn: () => void): void {
  // The first `setImmediate` may still run in the current turn of the event loop, which began before some data arrived. The second one
  // cannot.
  timers.setImmediate(() => timers.setImmediate(fn));
}
