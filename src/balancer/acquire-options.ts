import type { Subchannel } from '../pool/subchannel.js';
import { optionError } from '../runtime/check.js';

/** Which endpoint a call may go to. */
export interface PickOptions<C> {
  /** For hash pickers: calls with the same key go to the same endpoint. @defaultValue none */
  readonly key?: string | undefined;
  /** Subchannels this call was tried on: one of them is returned only if no other can take the call. @defaultValue none */
  readonly avoid?: ReadonlySet<Subchannel<C>> | undefined;
}

/**
 * Which calls go first where calls wait, and which are turned away first. Only with a `limit` are calls turned away for it.
 */
export type Priority = 'critical' | 'default' | 'sheddable';

/** From the first to be served to the last. */
export const priorities: readonly Priority[] = ['critical', 'default', 'sheddable'];

/** Options of `acquire`: which endpoint, and how long to wait for it. */
export interface AcquireOptions<C> extends PickOptions<C> {
  /** Stops waiting; the promise then rejects with the signal's reason. @defaultValue none */
  readonly signal?: AbortSignal | undefined;
  /** How long to wait, in ms. @defaultValue the balancer's `waitTimeoutMs` */
  readonly timeoutMs?: number | undefined;
  /** @defaultValue 'default' */
  readonly priority?: Priority | undefined;
}

/** Names of `AcquireOptions`. */
export const acquireOptionNames: readonly (keyof AcquireOptions<unknown>)[] = [
  'key',
  'avoid',
  'signal',
  'timeoutMs',
  'priority',
];

/** Throws EVENKEEL_OPTION for anything else. */
export function checkPriority(value: unknown): Priority {
  if (value === undefined) return 'default';
  if (!priorities.includes(value as Priority)) throw optionError('priority', `one of ${priorities.join(', ')}`, value);
  return value as Priority;
}
