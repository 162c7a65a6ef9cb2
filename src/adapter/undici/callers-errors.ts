/** What callers' code threw: a body while it was sent, a handler while it got the response. */
const callersErrors = new WeakSet<object>();

/** Notes what a caller's code threw. undici aborts the attempt with it, and it may look like an error of the pod. */
export function markCallersError(error: unknown): void {
  if (typeof error === 'object' && error !== null) callersErrors.add(error);
}

/** Whether a caller's code threw `error`, which then says nothing about the pod. */
export function isCallersError(error: unknown): boolean {
  return typeof error === 'object' && error !== null && callersErrors.has(error);
}
