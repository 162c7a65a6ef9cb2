import type { Priority } from './priority.js';

/** What outgoing calls inherit from the request being served. */
export interface ServedRequest {
  /** What is left of the caller's time, in ms; 0 or less if it is over; undefined = no deadline. */
  readonly remainingMs: number | undefined;
  /** The priority of the request; undefined = none. */
  readonly priority: Priority | undefined;
}

/**
 * Finds the request that the currently running code serves. `createBackend({ context: true }).context` is one, based on
 * AsyncLocalStorage; an application that keeps its own context can pass its own.
 */
export interface CallContext {
  /** The request that is being served; undefined outside of one. Called for every call. */
  current(): ServedRequest | undefined;
}
