/** The listeners of each signal in order of registration, and the one listener registered on the signal itself. */
const waiting = new WeakMap<AbortSignal, { readonly listeners: Set<() => void>; readonly all: () => void }>();

/**
 * Calls `listener` once when `signal` aborts, unless `offAbort` comes first. Thousands of calls may wait on a signal that lives as
 * long as the process; with one listener each, Node 20 would warn of a leak from the eleventh on.
 */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): void {
  if (signal === undefined) return;
  const present = waiting.get(signal);
  if (present !== undefined) {
    present.listeners.add(listener);
    return;
  }
  const listeners = new Set([listener]);
  const all = (): void => {
    // A listener removed by an earlier one is no longer called.
    for (const listen of listeners) listen();
    waiting.delete(signal);
  };
  waiting.set(signal, { listeners, all });
  signal.addEventListener('abort', all, { once: true });
}

/** Undoes `onAbort`. Removing the last listener leaves nothing on the signal. */
export function offAbort(signal: AbortSignal | undefined, listener: () => void): void {
  if (signal === undefined) return;
  const present = waiting.get(signal);
  if (present === undefined || !present.listeners.delete(listener) || present.listeners.size > 0) return;
  waiting.delete(signal);
  signal.removeEventListener('abort', present.all);
}
