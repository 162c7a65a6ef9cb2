/**
 * Calls `fn` once pending I/O has been handled, so that everything peers have sent by now is known, including closed
 * connections. `fn` runs in the caller's async context.
 */
export function afterPendingIo(fn: () => void): void {
  // The first `setImmediate` may run in the current turn, whose I/O was collected earlier; the second cannot.
  setImmediate(() => setImmediate(fn));
}
