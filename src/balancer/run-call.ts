import { type Outcome, outcomes, usableOutcome } from '../endpoint/outcome.js';
import { notify, type Observer, observes } from '../observe/observer.js';
import type { RetryPolicy } from '../retry/retry-policy.js';
import { TriedEndpoints } from '../retry/tried-endpoints.js';
import { checkBoolean, checkFunction, checkKeys, checkNumber } from '../runtime/check.js';
import type { Clock } from '../runtime/clock.js';
import type { AcquireOptions } from './acquire-options.js';
import { CallDeadline } from './call-deadline.js';
import { classifyError } from './classify.js';
import type { Lease } from './lease.js';

/** Options of `run`: one call over all its attempts. */
export interface RunOptions {
  /** Ends the call: the waiting, or what `use` does with the signal it is given. @defaultValue none */
  readonly signal?: AbortSignal | undefined;
  /** For hash pickers: calls with one key go to one endpoint. @defaultValue none */
  readonly key?: string | undefined;
  /** Whether the call may be done twice without harm. @defaultValue false */
  readonly idempotent?: boolean | undefined;
  /**
   * How long the whole call may take, in ms: waiting and every attempt. Then it rejects with EVENKEEL_DEADLINE, and the
   * signal `use` is given aborts. @defaultValue as long as it takes
   */
  readonly deadlineMs?: number | undefined;
  /**
   * The outcome of what `use` threw. It alone can say that nothing was sent (`outcomes.notStarted`): then the call is repeated
   * elsewhere, idempotent or not. @defaultValue errors of the system are a lost connection, which is repeated if the call is
   * idempotent; all others are failures that are not repeated
   */
  readonly classify?: ((error: unknown) => Outcome) | undefined;
}

const runOptionNames: readonly (keyof RunOptions)[] = ['signal', 'key', 'idempotent', 'deadlineMs', 'classify'];

/** Longest deadline, in ms. */
const MAX_DEADLINE_MS = 86_400_000;

/** What `runCall` needs of a balancer. */
export interface CallRunner<C> {
  readonly clock: Clock;
  /** Of the resolver, for messages. */
  readonly name: string;
  readonly retries: RetryPolicy;
  readonly observer: Observer;
  /** `acquire` with options that are known to fit. */
  claim(options: AcquireOptions<C>): Promise<Lease<C>>;
}

/** What a call does with an endpoint. The signal is there if the call has a signal or a deadline. */
export type Use<C, T> = (handle: C, lease: Lease<C>, signal: AbortSignal | undefined) => T | Promise<T>;

/** `Balancer.run`: one call over all its attempts. */
export async function runCall<C, T>(balancer: CallRunner<C>, use: Use<C, T>, options: RunOptions): Promise<T> {
  checkFunction('use', use);
  checkKeys('run', options, runOptionNames);
  const { deadlineMs, signal, idempotent, classify } = options;
  checkBoolean('idempotent', idempotent, false);
  if (classify !== undefined) checkFunction('classify', classify);
  if (deadlineMs === undefined) return attempts(balancer, use, options, undefined);
  const limitMs = checkNumber('deadlineMs', deadlineMs, 0, { above: 0, max: MAX_DEADLINE_MS });
  const limit = new CallDeadline<C>(balancer.clock, balancer.name, limitMs, signal);
  try {
    return await attempts(balancer, use, { ...options, signal: limit.signal }, limit);
  } finally {
    limit.close();
  }
}

async function attempts<C, T>(
  balancer: CallRunner<C>,
  use: Use<C, T>,
  options: RunOptions,
  limit: CallDeadline<C> | undefined,
): Promise<T> {
  const { signal, key, idempotent = false, classify = classifyError } = options;
  const { retries } = balancer;
  let tried: TriedEndpoints<C> | undefined;
  let failure: unknown;
  retries.started();
  for (let attempt = 1; ; attempt++) {
    const lease = await balancer.claim({ key, avoid: tried?.avoid, signal });
    if (signal?.aborted || tried?.allows(lease) === false) {
      lease.end(outcomes.notStarted);
      throw signal?.aborted ? signal.reason : failure;
    }
    try {
      const used = use(lease.handle, lease, signal);
      const result = await (limit === undefined ? used : limit.race(lease, used));
      lease.end(outcomes.success);
      report(balancer, lease, attempt, false, undefined);
      return result;
    } catch (error) {
      const isOver = signal?.aborted === true;
      lease.end(isOver ? (limit?.outcomeOf(lease) ?? outcomes.cancelled) : outcomeOf(error, classify));
      // `use` may have ended it before, and knows best.
      const outcome = lease.outcome as Outcome;
      const retrying =
        !isOver && retries.allows({ outcome, idempotent, answered: lease.answered, tried: attempt, error });
      report(balancer, lease, attempt, retrying, error);
      if (!retrying) throw error;
      failure = error;
      tried ??= new TriedEndpoints();
      tried.add(lease, outcome);
      // If the endpoint lost its connection just now, it hears of that next; only then is it clear who is left.
      await undefined;
    }
  }
}

/** The lease must end whatever `classify` does. */
function outcomeOf(error: unknown, classify: (error: unknown) => Outcome): Outcome {
  try {
    return usableOutcome(classify(error)) ?? outcomes.protocol;
  } catch {
    return outcomes.protocol;
  }
}

function report<C>(
  { observer }: CallRunner<C>,
  { endpoint, outcome }: Lease<C>,
  attempt: number,
  retrying: boolean,
  error: unknown,
): void {
  if (!observes(observer, 'attemptEnded')) return;
  notify(observer, 'attemptEnded', {
    endpoint,
    outcome: outcome as Outcome,
    attempt,
    retrying,
    ...(error !== undefined && { error }),
  });
}
