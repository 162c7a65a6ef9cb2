import type { Observer } from '../observe/observer.js';
import type { RetryPolicy } from '../retry/retry-policy.js';
import { inBackground } from '../runtime/clock.js';
import type { AcquireOptions, PickOptions } from './acquire-options.js';
import { BalancerCore } from './balancer-core.js';
import { type BalancerOptions, resolveBalancerOptions } from './balancer-options.js';
import type { Lease } from './lease.js';
import type { RunOptions, Use } from './run-call.js';
import type { BalancerSnapshot } from './snapshot.js';

export type { AcquireOptions, PickOptions, RunOptions, Use };

/** Balances the calls to one Service: finds endpoints, keeps connections, picks one per call. */
export interface Balancer<C> extends AsyncDisposable {
  /** Picks now or not at all. The caller owes the lease one `end`. Never throws, never waits. */
  pick(options?: PickOptions<C>): Lease<C> | undefined;
  /**
   * Picks, waiting if it must. Rejects with EVENKEEL_NO_ENDPOINTS (known to be empty), _NOT_READY (waited in vain),
   * _QUEUE_FULL, _RESOLVE or _FORBIDDEN (no set was ever found), _CLOSED, or the signal's reason.
   */
  acquire(options?: AcquireOptions<C>): Promise<Lease<C>>;
  /**
   * Picks, calls `use`, reports the outcome, and repeats elsewhere what is safe to repeat. Rejects as `acquire` does, with
   * what `use` threw, or with EVENKEEL_DEADLINE.
   */
  run<T>(use: Use<C, T>, options?: RunOptions): Promise<T>;
  /**
   * Resolves once the first set is known, an empty one included. Rejects at once for what cannot get better by itself
   * (EVENKEEL_FORBIDDEN …), else with EVENKEEL_RESOLVE or _NOT_READY after `startTimeoutMs`; looking goes on.
   */
  ready(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
  snapshot(): BalancerSnapshot;
  /** May this call be made again, and can we afford it? Adapters that repeat calls themselves ask here. */
  readonly retries: RetryPolicy;
  /** The observer given, joined to `node:diagnostics_channel`. */
  readonly observer: Observer;
  /**
   * No new calls; running ones finish, for at most `pool.drainTimeoutMs` or until `signal` aborts, then they are cut.
   * Resolves when every connection is closed, and keeps the process alive so long. May be called again, with another
   * signal; then whichever aborts first counts.
   */
  close(options?: { readonly signal?: AbortSignal | undefined }): Promise<void>;
}

/**
 * Makes a balancer and starts it: it looks for endpoints and opens connections ahead of the first call.
 * Throws EVENKEEL_OPTION for options that do not fit. Must be closed.
 *
 * @example
 * const balancer = createBalancer({ resolver: staticEndpoints([{ address: '10.0.0.1', port: 80 }]), transport });
 * await balancer.run((connection) => connection.call());
 * await balancer.close();
 */
export function createBalancer<C>(options: BalancerOptions<C>): Balancer<C> {
  const resolved = resolveBalancerOptions(options);
  return inBackground(() => new BalancerCore(resolved));
}
