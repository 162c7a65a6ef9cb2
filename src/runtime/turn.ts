/**
 * Calls `fn` once the I/O that is waiting has been handled: what other sides have sent by now, the end of a connection
 * included, is known then. It runs in the async context of the caller.
 */
export function afterPendingIo(fn: () => void): void {
  // The first may come in the turn under way, whose I/O was collected before now; the second cannot.
  setImmediate(() => setImmediate(fn));
}
