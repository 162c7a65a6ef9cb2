const registered: unique symbol = Symbol.for('evenkeel.register');

/** What measures time and calls functions later. */
interface Timers extends Pick<typeof globalThis, 'setTimeout' | 'clearTimeout' | 'setImmediate' | 'queueMicrotask'> {
  readonly performance: Pick<typeof performance, 'now'>;
}

/**
 * Node's own timers as they were when the process started, if `evenkeel/register` is in use. An app's tests may replace the global ones
 * before its first request to a Service, and do not know that evenkeel needs them. Undefined for an app that uses evenkeel itself: its
 * tests may want to stop evenkeel's time together with their own.
 */
const own = (globalThis as { readonly [registered]?: { readonly timers: Timers } })[registered]?.timers;

/** The timers to use; the global ones are looked up at each call. */
export const timers: Timers = own ?? globalThis;

/** The time now, in ms since an arbitrary moment; never decreases. */
export const now: () => number = own === undefined ? () => performance.now() : () => own.performance.now();
