import type { Priority } from './priority.js';

/** What the calls made for a request that is being served inherit from it. */
export interface ServedRequest {
  /** What is left of the time its caller gave it, in ms, 0 or less when it is over; undefined = no deadline. */
  readonly remainingMs: number | undefined;
  /** Undefined = it has none. */
  readonly priority: Priority | undefined;
}

/**
 * Finds the request that is being served by the code that runs now. `createPod({ context: true }).context` is one, by
 * AsyncLocalStorage; an application that keeps its own context can pass its own.
 */
export interface CallContext {
  /** Undefined outside of a request. Called for every call. */
  current(): ServedRequest | undefined;
}
