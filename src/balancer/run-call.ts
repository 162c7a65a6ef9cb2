import { type Outcome, outcomes } from '../endpoint/outcome.js';
import { notify, type Observer, observes } from '../observe/observer.js';
import type { RetryPolicy } from '../retry/retry-policy.js';
import { TriedEndpoints } from '../retry/tried-endpoints.js';
import type { AcquireOptions } from './acquire-options.js';
import { classifyError } from './classify.js';
import type { Lease } from './lease.js';

export interface RunOptions {
  readonly signal?: AbortSignal | undefined;
  readonly key?: string | undefined;
  /** Whether the call may be done twice without harm. @defaultValue false */
  readonly idempotent?: boolean | undefined;
  /** The outcome of what `use` threw. @defaultValue system errors are known, all others are failures that are not repeated */
  readonly classify?: ((error: unknown) => Outcome) | undefined;
}

/** What `runCall` needs of a balancer. */
export interface CallRunner<C> {
  readonly retries: RetryPolicy;
  readonly observer: Observer;
  acquire(options: AcquireOptions<C>): Promise<Lease<C>>;
}

/** `Balancer.run`: one call over all its attempts. */
export async function runCall<C, T>(
  balancer: CallRunner<C>,
  use: (handle: C, lease: Lease<C>) => T | Promise<T>,
  options: RunOptions,
): Promise<T> {
  const { signal, key, idempotent = false, classify = classifyError } = options;
  const { retries } = balancer;
  let tried: TriedEndpoints<C> | undefined;
  let failure: unknown;
  retries.started();
  for (let attempt = 1; ; attempt++) {
    const lease = await balancer.acquire({ key, avoid: tried?.avoid, signal });
    if (signal?.aborted || tried?.allows(lease) === false) {
      lease.end(outcomes.notStarted);
      throw signal?.aborted ? signal.reason : failure;
    }
    try {
      const result = await use(lease.handle, lease);
      lease.end(outcomes.success);
      report(balancer, lease, attempt, false, undefined);
      return result;
    } catch (error) {
      lease.end(signal?.aborted ? outcomes.cancelled : outcomeOf(error, classify));
      // `use` may have ended it before, and knows best.
      const outcome = lease.outcome as Outcome;
      const retrying = retries.allows({ outcome, idempotent, answered: lease.answered, tried: attempt, error });
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
    return classify(error) ?? outcomes.protocol;
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
