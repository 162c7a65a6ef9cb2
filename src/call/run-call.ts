import { type Outcome, outcomes, usableOutcome } from '../endpoint/outcome.js';
import { isConnectError, outcomeOfSystemError } from '../endpoint/system-errors.js';
import { isEvenkeelError } from '../errors.js';
import { checkPriority, type Priority } from '../propagation/priority.js';
import { checkBoolean, checkFunction, checkKeys, checkNumber, checkSignal } from '../runtime/check.js';
import { ignoreRejection } from '../runtime/ignore-rejection.js';
import { ownProperties } from '../runtime/own-properties.js';
import type { AttemptedCall, AttemptSource } from './attempted-call.js';
import { Attempts } from './attempts.js';
import { CallDeadline } from './call-deadline.js';
import type { Lease } from './lease.js';

/**
 * Options of `run`, for one call over all its attempts: signal, deadline, key, priority, whether it may be repeated, and what its errors
 * mean. An invalid option throws EVENKEEL_OPTION.
 */
export interface RunOptions {
  /** Ends the call when it aborts: the waiting ends, and the signal that `use` got aborts. @defaultValue none */
  readonly signal?: AbortSignal | undefined;
  /** The key that a hash picker hashes: calls with the same key go to the same endpoint. @defaultValue none */
  readonly key?: string | undefined;
  /**
   * Whether the call may be made twice without harm. Then it is repeated on another endpoint when its connection is lost. A call of which
   * nothing was sent is repeated in any case. @defaultValue false
   */
  readonly idempotent?: boolean | undefined;
  /**
   * How long the whole call may take, in ms, including waiting and every attempt. After that, `run` rejects with EVENKEEL_DEADLINE and the
   * signal that `use` got aborts. @defaultValue none: the call has no deadline
   */
  readonly deadlineMs?: number | undefined;
  /**
   * Whether this call goes before or after others that wait for the `limit`; the lowest priority is shed first. @defaultValue 'default'
   */
  readonly priority?: Priority | undefined;
  /**
   * Returns the outcome for an error that `use` threw. Only this function can say that nothing was sent (`outcomes.notStarted`): then the
   * call is repeated on another endpoint, idempotent or not. @defaultValue system errors are a lost connection, which is repeated if the
   * call is idempotent; all others are failures that are not repeated
   */
  readonly classify?: ((error: unknown) => Outcome) | undefined;
}

const runOptionNames: readonly (keyof RunOptions)[] = [
  'signal',
  'key',
  'idempotent',
  'deadlineMs',
  'priority',
  'classify',
];

/** The longest deadline that `run` accepts, in ms: a day. */
const MAX_DEADLINE_MS = 86_400_000;

/** The application's function that makes a call on one endpoint. It gets a signal only if the call has a signal or a deadline. */
export type Use<C, T> = (handle: C, lease: Lease<C>, signal: AbortSignal | undefined) => T | Promise<T>;

/** `Balancer.run`: one call over all its attempts. */
export async function runCall<C, T>(
  balancer: AttemptSource<C>,
  use: Use<C, T>,
  callersOptions: RunOptions,
): Promise<T> {
  checkFunction('use', use);
  checkKeys('run', callersOptions, runOptionNames);
  const options = ownProperties(callersOptions);
  const { deadlineMs, signal, idempotent, classify } = options;
  checkBoolean('idempotent', idempotent, false);
  checkPriority(options.priority);
  checkSignal('signal', signal);
  if (classify !== undefined) checkFunction('classify', classify);
  if (deadlineMs === undefined) return start(balancer, use, options, undefined);
  const limitMs = checkNumber('deadlineMs', deadlineMs, 0, { above: 0, max: MAX_DEADLINE_MS });
  const limit = new CallDeadline<C>(balancer.clock, balancer.name, limitMs, signal);
  try {
    return await start(balancer, use, ownProperties({ ...options, signal: limit.signal }), limit);
  } finally {
    limit.close();
  }
}

function start<C, T>(
  balancer: AttemptSource<C>,
  use: Use<C, T>,
  options: RunOptions,
  limit: CallDeadline<C> | undefined,
): Promise<T> {
  return new Promise((resolve, reject) => {
    new RunningCall(balancer, { use, options, limit, resolve, reject }).begin();
  });
}

/** What one `run` was called with, and the functions that settle its promise. */
interface RunParts<C, T> {
  readonly use: Use<C, T>;
  readonly options: RunOptions;
  readonly limit: CallDeadline<C> | undefined;
  readonly resolve: (result: T) => void;
  readonly reject: (error: unknown) => void;
}

class RunningCall<C, T> implements AttemptedCall<C> {
  readonly signal: AbortSignal | undefined;
  readonly priority: Priority | undefined;
  readonly #parts: RunParts<C, T>;
  readonly #attempts: Attempts<C>;

  constructor(source: AttemptSource<C>, parts: RunParts<C, T>) {
    this.#parts = parts;
    this.signal = parts.options.signal;
    this.priority = parts.options.priority;
    this.#attempts = new Attempts(source, this, parts.options.key);
  }

  get deadlineMs(): number | undefined {
    return this.#parts.limit?.remainingMs;
  }

  begin(): void {
    if (this.signal?.aborted) this.fail(this.signal.reason);
    else if (!this.#attempts.begin()) this.#attempts.wait();
  }

  send(lease: Lease<C>): void {
    void this.#use(lease);
  }

  fail(error: unknown): void {
    this.#parts.reject(error);
  }

  async #use(lease: Lease<C>): Promise<void> {
    const { use, limit, resolve, options } = this.#parts;
    try {
      const used = use(lease.handle, lease, this.signal);
      const result = await (limit === undefined ? used : limit.race(lease, used));
      this.#attempts.end(outcomes.success);
      resolve(result);
    } catch (error) {
      const isOver = this.signal?.aborted === true;
      if (isOver) this.#attempts.stop(undefined, error);
      lease.end(isOver ? (limit?.outcomeOf(lease) ?? outcomes.cancelled) : outcomeOf(error, options.classify));
      const { answered } = lease;
      // If `use` has already ended the lease itself, the outcome that it reported counts.
      const outcome = lease.outcome as Outcome;
      this.#attempts.fail({ outcome, error, idempotent: options.idempotent === true, answered });
    }
  }
}

/**
 * The outcome for an error that `use` threw, from the application's `classify`. If that throws, the call still has to end, as a failure.
 */
function outcomeOf(error: unknown, classify: (error: unknown) => Outcome = classifyError): Outcome {
  try {
    const outcome = classify(error);
    ignoreRejection(outcome);
    return usableOutcome(outcome) ?? outcomes.protocol;
  } catch {
    return outcomes.protocol;
  }
}

/**
 * Returns the outcome of a call from the error it threw, for `run` without `classify`. It knows Node's system errors; an unknown error
 * counts as a failure of the endpoint that is not retried.
 *
 * It never returns `not-started`: the call had a connection and may have used it. ECONNREFUSED, for example, may come from another service
 * that the call talked to afterwards.
 */
export function classifyError(error: unknown): Outcome {
  if (typeof error !== 'object' || error === null) return outcomes.protocol;
  // The error comes from another evenkeel client that the call used, so it says nothing about this endpoint, except that its deadline
  // passed.
  if (isEvenkeelError(error)) return error.code === 'EVENKEEL_DEADLINE' ? outcomes.timeout : outcomes.cancelled;
  const { code, name, syscall } = error as { code?: unknown; name?: unknown; syscall?: unknown };
  if (name === 'AbortError') return outcomes.cancelled;
  // An ETIMEDOUT of the system has a `syscall`; one without comes from a client library that gave up waiting.
  if (name === 'TimeoutError' || (code === 'ETIMEDOUT' && syscall === undefined)) return outcomes.timeout;
  return isConnectError(code) ? outcomes.reset : (outcomeOfSystemError(code) ?? outcomes.protocol);
}
