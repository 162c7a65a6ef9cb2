import type { AcquireOptions, PickOptions } from '../call/acquire-options.js';
import type { Lease } from '../call/lease.js';
import type { OutsideCalls } from '../call/outside-calls.js';
import type { RunOptions, Use } from '../call/run-call.js';
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
  /** Picks synchronously or returns undefined. The caller must `end` the lease once. Never throws, never waits. */
  pick(options?: PickOptions): Lease<C> | undefined;
  /**
   * Picks, waiting if necessary. Rejects with EVENKEEL_NO_ENDPOINTS (known to be empty), _NOT_READY (none in time),
   * _QUEUE_FULL, _OVERLOAD (shed because of `limit`), _RESOLVE or _FORBIDDEN (no set was ever found), _CLOSED, or the signal's reason.
   */
  acquire(options?: AcquireOptions): Promise<Lease<C>>;
  /**
   * Picks, calls `use`, reports the outcome, and retries on another endpoint what is safe to retry. Rejects as `acquire` does,
   * with the error of `use`, or with EVENKEEL_DEADLINE.
   */
  run<T>(use: Use<C, T>, options?: RunOptions): Promise<T>;
  /**
   * Resolves once the first set is known, an empty one included. Rejects immediately for what will not resolve itself
   * (EVENKEEL_FORBIDDEN …), otherwise with EVENKEEL_RESOLVE or _NOT_READY after `startTimeoutMs`; the search continues.
   */
  ready(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
  /**
   * The balancer's endpoints, their states and all counts at this moment, as plain JSON. Costs time in proportion to the endpoints: not for
   * the path of a call.
   */
  snapshot(): BalancerSnapshot;
  /** The name of the balancer's resolver: as a rule the target. */
  readonly name: string;
  /** The balancer's clock, for adapters that measure time. */
  readonly clock: Clock;
  /** The current limit on running calls, if there is one. For adapters whose calls wait outside the balancer. */
  readonly limit: { readonly max: number; readonly running: number } | undefined;
  /** The calls that wait outside the balancer, counted and refused like those in its waiting room. */
  readonly outside: OutsideCalls;
  /** Decides whether a call may be retried, and pays for it. For adapters that retry calls themselves. */
  readonly retries: RetryPolicy;
  /** The observer from the options, joined to `node:diagnostics_channel`. */
  readonly observer: Observer;
  /**
   * Accepts no new calls; running ones finish, for at most `pool.drainTimeoutMs` or until `signal` aborts, then they are cut.
   * Resolves when every connection is closed, and keeps the process alive until then. May be called again with another signal;
   * the first one to abort counts.
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
