/** For each abort signal, all listeners registered here, and the one listener registered on the signal itself, which calls them. */
const waiting = new WeakMap<AbortSignal, { readonly listeners: Set<() => void>; readonly all: () => void }>();

/**
 * Calls `listener` once when `signal` aborts, unless it was removed by `offAbort` before. It is never called if the signal has aborted
 * already: callers check that first. Thousands of requests may wait on one signal that lives as long as the process. If each had a listener
 * of its own on the signal, Node 20 would warn of a memory leak from the eleventh on.
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
    // If one listener removes another, that one is not called any more.
    for (const listen of listeners) listen();
    waiting.delete(signal);
  };
  waiting.set(signal, { listeners, all });
  signal.addEventListener('abort', all, { once: true });
}

/** Removes a listener that was registered by `onAbort`. When the last one is removed, nothing stays registered on the signal. */
export function offAbort(signal: AbortSignal | undefined, listener: () => void): void {
  if (signal === undefined) return;
  const present = waiting.get(signal);
  if (present === undefined || !present.listeners.delete(listener) || present.listeners.size > 0) return;
  waiting.delete(signal);
  signal.removeEventListener('abort', present.all);
}

/**
 * Resolves to the result of `work`, or rejects with the signal's reason if the signal aborts before. In that case the result of `work` is
 * ignored.
 */
export async function orAborted<T>(work: T | Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  let aborted = (): void => {};
  const called = new Promise<never>((_, reject) => {
    aborted = () => reject(signal.reason);
    if (signal.aborted) aborted();
    else onAbort(signal, aborted);
  });
  try {
    return await Promise.race([work, called]);
  } finally {
    offAbort(signal, aborted);
  }
}
