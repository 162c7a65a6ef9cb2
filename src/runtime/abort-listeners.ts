/** For each abort signal, its listeners in order of registration, and the one listener registered on the signal itself. */
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
    // A listener that was removed by an earlier one is no longer called.
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

/**
 * The result of `work`, or a rejection with the signal's reason if the signal aborts before. What becomes of `work` afterwards is ignored.
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
