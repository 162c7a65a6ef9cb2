import type { Endpoint } from '../endpoint/endpoint.js';
import type { ResolveError } from '../errors.js';
import type { Observer } from '../observe/observer.js';
import type { Clock } from '../runtime/clock.js';
import type { Rng } from '../runtime/rng.js';

/**
 * Finds the endpoints of a service and follows their changes. A resolver may be used several times; each call of `watch` is independent
 * of the others.
 *
 * A resolver always publishes the whole set. It never calls the listener before `watch` has returned, it does not stop until it is closed,
 * and an error never makes it withdraw the last set.
 */
export interface Resolver {
  /** The name of the resolver in messages and snapshots, such as `endpointslices shop/orders:http`. */
  readonly name: string;
  /** Starts to look for endpoints. Nothing happens before this call or after `Resolution.close`. */
  watch(listener: ResolverListener, context: ResolverContext): Resolution;
}

/** Receives what a resolver finds. Its methods are called after `watch` has returned, and never after `close`. */
export interface ResolverListener {
  /**
   * Publishes the whole set: every endpoint with its conditions. An empty array means that there certainly are no endpoints; `reason` may
   * say why, and becomes part of the errors of requests.
   */
  update(endpoints: readonly Endpoint[], reason?: string): void;
  /**
   * Reports that the endpoints could not be determined. The last set, if there is one, stays in use, but may be outdated until `update`
   * or `fresh` is called.
   */
  fail(error: ResolveError): void;
  /** Reports after a `fail` that the last set is right and up to date again. */
  fresh(): void;
}

/** What a resolver may use while it is watched. The balancer passes it to `watch`. */
export interface ResolverContext {
  /** The clock that the resolver must use for the time and for timers, so that tests can control them. */
  readonly clock: Clock;
  /** The source of random numbers that the resolver must use, for example to vary times, so that tests can repeat them. */
  readonly rng: Rng;
  /** The observer for everything that is worth knowing but is not a failure, such as `warned` and `discoveryChanged`. */
  readonly observer: Observer;
}

/** A running watch of a resolver. */
export interface Resolution {
  /**
   * Suggests to look again now, because a connection failed or a request found the set empty. It may be called for every such event, so
   * the resolver limits how often it looks.
   *
   * @param failingSinceMs Since when connections to two endpoints, or to all, have failed for 5 s, or to one for 30 s, on the clock in ms;
   * left out otherwise. A resolver that waits for events may have lost touch with their source.
   * @param reachesNone Whether that is so for all of them: any other set would do as well.
   */
  refresh(failingSinceMs?: number, reachesNone?: boolean): void;
  /** Ends the watch. The listener is not called any more after this returns. Further calls have no effect. */
  close(): void;
}
