import type { PickTarget } from '../picker/picker.js';
import type { Priority } from '../propagation/priority.js';

/** Which endpoint a call may go to. */
export interface PickOptions {
  /** For hash pickers: calls with the same key go to the same endpoint. @defaultValue none */
  readonly key?: string | undefined;
  /**
   * Subchannels this call was tried on: `pick` returns one of them only if no other can take the call, and `acquire` only if no
   * other is connected; for one that is full it waits. @defaultValue none
   */
  readonly avoid?: ReadonlySet<PickTarget> | undefined;
  /**
   * Whether the call is outside the `limit`: it does not count, waits for an endpoint only, and is not shed. For connections that
   * are lent to the application. @defaultValue false
   */
  readonly unlimited?: boolean | undefined;
}

/** Options of `acquire`: which endpoint, and how long to wait for it. */
export interface AcquireOptions extends PickOptions {
  /** Stops waiting; the promise then rejects with the signal's reason. @defaultValue none */
  readonly signal?: AbortSignal | undefined;
  /** How long to wait, in ms. @defaultValue the balancer's `waitTimeoutMs` */
  readonly timeoutMs?: number | undefined;
  /** Which callers go first where they wait for the `limit`, and which are shed first. @defaultValue 'default' */
  readonly priority?: Priority | undefined;
  /**
   * How long the whole call may still take, in ms, if it has a deadline. While it waits for the `limit`, it fails with
   * EVENKEEL_TOO_LATE once less time is left than a response takes. @defaultValue none
   */
  readonly deadlineMs?: number | undefined;
}

/** Names of `AcquireOptions`. */
export const acquireOptionNames: readonly (keyof AcquireOptions)[] = [
  'key',
  'avoid',
  'signal',
  'timeoutMs',
  'priority',
  'deadlineMs',
  'unlimited',
];

/** The options of `ready` and `close`. */
export const signalOnly = ['signal'] as const;
