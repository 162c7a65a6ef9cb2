/**
 * Calls `fn` once the I/O that is waiting has been handled: what other sides have sent by now, the end of a connection
 * included, is known then. It runs in the async context of the caller.
 */
export function afterPendingIo(fn: () => void): void {
  setImmediate(fn);
}
