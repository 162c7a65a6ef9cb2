import type { Endpoint } from '../endpoint/endpoint.js';
import type { ResolveError } from '../errors.js';
import type { Observer } from '../observe/observer.js';
import type { Clock } from '../runtime/clock.js';
import type { Rng } from '../runtime/rng.js';

/**
 * Finds endpoints and follows their changes. A resolver can be passed around and used several times; each `watch` is independent.
 *
 * A resolver always publishes the whole set, never calls back before `watch` has returned, never stops by itself, and never takes back the
 * last good set because of an error.
 */
export interface Resolver {
  /** The name of the resolver, for messages and snapshots, such as `endpointslices shop/orders:http`. */
  readonly name: string;
  /** Starts to look for endpoints. Nothing runs before this call or after `Resolution.close`. */
  watch(listener: ResolverListener, context: ResolverContext): Resolution;
}

/** What a resolver tells its balancer. Called after `watch` has returned, and never after `close`. */
export interface ResolverListener {
  /**
   * The whole set, every endpoint listed, with its conditions; an empty array is an authoritative "none", and `reason` may say in
   * words why, for the errors of calls.
   */
  update(endpoints: readonly Endpoint[], reason?: string): void;
  /** The set could not be determined. The last set, if any, stays in use but is stale until `update` or `fresh`. */
  fail(error: ResolveError): void;
  /** The last set was confirmed after a `fail`: it is no longer stale. */
  fresh(): void;
}

/** What a resolver gets from the balancer that watches it. */
export interface ResolverContext {
  /** The only source of time for a resolver; a test's clock in tests. */
  readonly clock: Clock;
  /** The only source of random numbers for a resolver, such as for jitter. */
  readonly rng: Rng;
  /** Where to report what is worth knowing and is no failure, such as `warned` and `discoveryChanged`. */
  readonly observer: Observer;
}

/** A running watch of a resolver. */
export interface Resolution {
  /**
   * A hint to look again now: a connection failed, or a call found the set empty. May be called for every such call, so the
   * resolver limits the rate; never an error.
   */
  refresh(): void;
  /** Ends the watch: no callbacks after this returns. Idempotent. */
  close(): void;
}
