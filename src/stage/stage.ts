import type { Endpoint } from '../endpoint/endpoint.js';
import type { EndpointSet } from '../endpoint/endpoint-set.js';
import type { Outcome } from '../endpoint/outcome.js';
import type { Observer } from '../observe/observer.js';
import type { Clock } from '../runtime/clock.js';
import type { Rng } from '../runtime/rng.js';

/**
 * One concern (conditions, zone, health and others) as a synchronous step from set to set. Stages decide over data; they never open or wrap
 * a connection.
 */
export interface Stage {
  /**
   * Returns the set with this stage's decisions. Called at most once per turn of the event loop, when the set or a verdict has changed. A
   * stage keeps entries that it does not understand.
   */
  apply(set: EndpointSet): EndpointSet;
  /** Called once for each new endpoint. The returned tracker learns what happens to that endpoint's connection and calls. */
  track?(endpoint: Endpoint): Tracker;
  /** Stops the stage's timers. No method of the stage is called afterwards. */
  close?(): void;
}

/** Learns what happens to one endpoint. Its subchannel holds it, so that no request pays for a look-up. */
export interface Tracker {
  /** A connection to the endpoint has been opened and is ready for calls. */
  connected?(): void;
  /** The endpoint's connection has ended, or could not be opened. `error` is undefined after a clean end. */
  disconnected?(error: Error | undefined): void;
  /**
   * A call on the endpoint has ended. Runs for every call, so it must be synchronous and allocate nothing.
   *
   * @param latencyMs How long the call lasted, in ms.
   * @param unanswered After a timeout: how many calls, including this one, have started since the endpoint last responded; 1 if that was
   * recent compared with the duration of this call.
   * @param skipped How many successes before this call were only counted, because the tracker ignored them.
   */
  completed?(outcome: Outcome, latencyMs: number, unanswered: number, skipped: number): void;
  /**
   * Whether successes need only be counted now; their number is then passed to the next `completed`. Read after each call of `completed`.
   */
  readonly ignoresSuccess?: boolean;
  /** The endpoint has answered a `probe` of any stage. */
  probed?(): void;
  /** The endpoint is gone for good, so the tracker can free what it knows. */
  closed?(): void;
}

/** What a stage may use of its balancer. */
export interface StageContext {
  /** The only source of time for a stage; tests pass a clock that they control. */
  readonly clock: Clock;
  /** The only source of random numbers for a stage. */
  readonly rng: Rng;
  /** Gets the stage's verdicts as events, such as `ejected` and `restored`. */
  readonly observer: Observer;
  /**
   * Says that the stage's `apply` would return another result now. `apply` is then called at the end of this turn. All stages of a
   * balancer share one limit, whoever wrote them: after 10 such calls in a row, and beyond 20 a second, it comes up to 50 ms later. May be
   * called at any rate, also after `close`.
   */
  invalidate(): void;
  /**
   * Checks whether the endpoint's connection is alive: resolves or rejects. Rejects with EVENKEEL_OPTION if the transport has no `ping`.
   */
  probe(endpoint: Endpoint, signal: AbortSignal): Promise<void>;
}

/** Creates a stage for one balancer; an element of the option `stages`. */
export type StageFactory = (context: StageContext) => Stage;
