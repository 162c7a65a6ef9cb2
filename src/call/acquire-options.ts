import type { PickTarget } from '../picker/picker.js';
import { checkPriority, type Priority } from '../propagation/priority.js';
import { checkBoolean, checkKeys, checkNumber, checkSignal, optionError } from '../runtime/check.js';
import { ownProperties } from '../runtime/own-properties.js';

/** Options of a pick: which endpoint a call may go to. */
export interface PickOptions {
  /** The key that a hash picker hashes: calls with the same key go to the same endpoint. @defaultValue none */
  readonly key?: string | undefined;
  /**
   * The targets (`lease.subchannel`) on which this call was tried before. `pick` returns one of them only if no other can take the call,
   * and `acquire` only if no other is connected; if another is merely full, it waits. @defaultValue none
   */
  readonly avoid?: ReadonlySet<PickTarget> | undefined;
  /**
   * Whether the call is outside the `limit`: it does not count against it, waits for an endpoint only, and is not shed. For connections
   * that are lent to the application. @defaultValue false
   */
  readonly unlimited?: boolean | undefined;
}

/** Options of `acquire`: which endpoint the call may go to, and how long to wait for it. */
export interface AcquireOptions extends PickOptions {
  /** Stops the waiting; the promise then rejects with the signal's reason. @defaultValue none */
  readonly signal?: AbortSignal | undefined;
  /** How long to wait for an endpoint, in ms. @defaultValue the balancer's `waitTimeoutMs` */
  readonly timeoutMs?: number | undefined;
  /** The whole limit of which `timeoutMs` is the rest, in ms. The error names it. @defaultValue `timeoutMs` */
  readonly limitMs?: number | undefined;
  /**
   * Whether this caller goes before or after others that wait for the `limit`; the lowest priority is shed first. @defaultValue 'default'
   */
  readonly priority?: Priority | undefined;
  /**
   * How long the whole call may still take, in ms. A call that waits for the `limit` fails with EVENKEEL_TOO_LATE once less time is left
   * than a response takes. @defaultValue none: the call has no deadline
   */
  readonly deadlineMs?: number | undefined;
  /**
   * Whether this caller waits on while the Service has no endpoint, or every endpoint refuses connections, for which other callers are
   * rejected at once. @defaultValue false
   */
  readonly waitForReady?: boolean | undefined;
}

const names: readonly (keyof AcquireOptions)[] = [
  'key',
  'avoid',
  'signal',
  'timeoutMs',
  'limitMs',
  'priority',
  'deadlineMs',
  'unlimited',
  'waitForReady',
];

/** Checks the options of an application's `acquire`. Throws EVENKEEL_OPTION. */
export function checkAcquireOptions(callersOptions: AcquireOptions): AcquireOptions {
  checkKeys('acquire', callersOptions, names);
  const options = ownProperties(callersOptions);
  checkPriority(options.priority);
  checkNumber('timeoutMs', options.timeoutMs, 0, { min: 0, infinite: true });
  checkNumber('limitMs', options.limitMs, 0, { min: 0, infinite: true });
  checkNumber('deadlineMs', options.deadlineMs, 0, { infinite: true });
  checkBoolean('waitForReady', options.waitForReady, false);
  const { avoid, signal } = options;
  if (avoid !== undefined && typeof avoid?.has !== 'function')
    throw optionError('avoid', 'a set of subchannels', avoid);
  checkSignal('signal', signal);
  return options;
}

/** The options of `ready` and `close`. */
export const signalOnly = ['signal'] as const;
