import type { AcquireOptions, PickOptions } from '../call/acquire-options.js';
import type { Lease } from '../call/lease.js';
import type { RunOptions, Use } from '../call/run-call.js';
import type { EvenkeelError } from '../errors.js';
import type { Observer } from '../observe/observer.js';
import type { Priority } from '../propagation/priority.js';
import type { RetryPolicy } from '../retry/retry-policy.js';
import { type Clock, inBackground } from '../runtime/clock.js';
import { BalancerCore } from './balancer-core.js';
import { type BalancerOptions, resolveBalancerOptions } from './balancer-options.js';
import type { BalancerSnapshot } from './snapshot.js';

export type { AcquireOptions, PickOptions, Priority, RunOptions, Use };

/** Balances the calls to one Service: finds endpoints, keeps connections, picks one per call. */
export interface Balancer<C> extends AsyncDisposable {
  /** Picks an endpoint synchronously, or returns undefined. The caller must end the lease once. Never throws and never waits. */
  pick(options?: PickOptions): Lease<C> | undefined;
  /**
   * Picks an endpoint, and waits for one if necessary. Rejects with EVENKEEL_NO_ENDPOINTS (the Service is known to have none), _NOT_READY
   * (none became available in time), _QUEUE_FULL, _OVERLOAD (shed because of `limit`), _RESOLVE or _FORBIDDEN (no set was ever found),
   * _CLOSED, or the signal's reason.
   */
  acquire(options?: AcquireOptions): Promise<Lease<C>>;
  /**
   * Picks an endpoint, calls `use`, reports the outcome, and retries on another endpoint what is safe to retry. Rejects as `acquire` does,
   * with the error of `use`, or with EVENKEEL_DEADLINE.
   */
  run<T>(use: Use<C, T>, options?: RunOptions): Promise<T>;
  /**
   * Resolves once the first endpoint set is known, even an empty one. Rejects at once for an error that will not go away by itself
   * (EVENKEEL_FORBIDDEN and others), otherwise with EVENKEEL_RESOLVE or _NOT_READY after `startTimeoutMs`; the search continues.
   */
  ready(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
  /**
   * Returns the balancer's endpoints, their states and all counts at this moment, as plain JSON. The time this takes grows with the number
   * of endpoints, so do not call it for every call.
   */
  snapshot(): BalancerSnapshot;
  /** The name of the balancer's resolver, which is the target unless a resolver of your own has another name. */
  readonly name: string;
  /** The balancer's clock, for adapters that measure time. */
  readonly clock: Clock;
  /** Counts a call that an adapter fails for want of an endpoint without `acquire`, and notifies the observer. */
  refuse(error: EvenkeelError): void;
  /** Decides whether a call may be retried, and pays for retries from the retry budget. For adapters that retry calls themselves. */
  readonly retries: RetryPolicy;
  /** The observer from the options, joined to `node:diagnostics_channel`. */
  readonly observer: Observer;
  /**
   * Accepts no new calls. Running calls finish, for at most `pool.drainTimeoutMs` or until `signal` aborts, and are then cut. Resolves when
   * every connection is closed, and keeps the process alive until then. May be called again with another signal; the first signal that
   * aborts counts.
   */
  close(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
}

/**
 * Creates and starts a balancer: it looks for endpoints and opens connections ahead of the first call. Throws EVENKEEL_OPTION
 * for invalid options. Must be closed.
 *
 * @example const balancer = createBalancer({ resolver: staticEndpoints([{ address: '10.0.0.1', port: 80 }]), transport });
 * await balancer.run((connection) => connection.call()); await balancer.close();
 */
export function createBalancer<C>(options: BalancerOptions<C>): Balancer<C> {
  const resolved = resolveBalancerOptions(options);
  return inBackground(() => new BalancerCore(resolved));
}
