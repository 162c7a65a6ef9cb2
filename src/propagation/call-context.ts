import type { Priority } from './priority.js';

/** What outgoing calls inherit from the request that is being served. */
export interface ServedRequest {
  /** How much of its caller's time the request has left, in ms; 0 or less = none; undefined = it has no deadline. */
  readonly remainingMs: number | undefined;
  /** The priority of the request; undefined = none. */
  readonly priority: Priority | undefined;
}

/**
 * Finds the request that the running code serves. `createBackend({ context: true }).context` is such an object, based on AsyncLocalStorage;
 * an application that has a context of its own can pass an object of its own.
 */
export interface CallContext {
  /** Returns the request that is being served; undefined outside of one. Called for every outgoing call. */
  current(): ServedRequest | undefined;
}
