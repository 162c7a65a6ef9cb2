/** All that wait on a signal, in the order they came, behind the one listener the signal has for them. */
const waiting = new WeakMap<AbortSignal, { readonly listeners: Set<() => void>; readonly all: () => void }>();

/**
 * Calls `listener` once when `signal` aborts, unless `offAbort` comes before. A signal that lives as long as the process may have
 * thousands of calls wait on it: with a listener for each Node 20 warns of a leak from the eleventh on.
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
    // A listener that another one takes back is not called any longer.
    for (const listen of listeners) listen();
    waiting.delete(signal);
  };
  waiting.set(signal, { listeners, all });
  signal.addEventListener('abort', all, { once: true });
}

/** Takes back `onAbort`. With the last listener nothing is left on the signal. */
export function offAbort(signal: AbortSignal | undefined, listener: () => void): void {
  if (signal === undefined) return;
  const present = waiting.get(signal);
  if (present === undefined || !present.listeners.delete(listener) || present.listeners.size > 0) return;
  waiting.delete(signal);
  signal.removeEventListener('abort', present.all);
}
