import type { Endpoint } from '../endpoint/endpoint.js';
import type { EndpointSet } from '../endpoint/endpoint-set.js';
import type { Outcome } from '../endpoint/outcome.js';
import type { Observer } from '../observe/observer.js';
import type { Clock } from '../runtime/clock.js';
import type { Rng } from '../runtime/rng.js';

/**
 * One concern (conditions, zone, health …) as a synchronous step from set to set. Stages decide over data;
 * they never open or wrap a connection.
 */
export interface Stage {
  /** Called at most once per turn of the event loop, when a set or a verdict changed. A stage keeps entries that it does not understand. */
  apply(set: EndpointSet): EndpointSet;
  /** Called once per subchannel; the tracker learns what happens to that endpoint's connection and calls. */
  track?(endpoint: Endpoint): Tracker;
  /** Stops the stage's timers. No method of the stage is called afterwards. */
  close?(): void;
}

/** Learns what happens to one endpoint. Held by its subchannel, so that no request pays for a lookup. */
export interface Tracker {
  /** A connection to the endpoint has been opened and is ready for calls. */
  connected?(): void;
  /** The endpoint's connection ended, or could not be opened. `error` is undefined when it ended cleanly. */
  disconnected?(error: Error | undefined): void;
  /**
   * A call on the endpoint ended. On the path of every request: synchronous, no allocation.
   * @param latencyMs How long the call lasted, in ms.
   * @param unanswered For a timeout: how many calls, including this one, have started since the endpoint was last heard from; 1 if that was
   * recent compared with the duration of this call.
   * @param skipped How many successes before this call were only counted, because the tracker ignored them.
   */
  completed?(outcome: Outcome, latencyMs: number, unanswered: number, skipped: number): void;
  /**
   * True while successes need only be counted: the next call that `completed` gets then carries their number. Read after each such call.
   */
  readonly ignoresSuccess?: boolean;
  /** The endpoint answered a `probe` of any stage. */
  probed?(): void;
  /** The subchannel is gone for good: free its state. */
  closed?(): void;
}

/** What a stage may use of its balancer. */
export interface StageContext {
  /** The only source of time for a stage; a test's clock in tests. */
  readonly clock: Clock;
  /** The only source of random numbers for a stage. */
  readonly rng: Rng;
  /** Where to report verdicts, such as `ejected` and `restored`. */
  readonly observer: Observer;
  /** The name of the resolver that found the endpoints. */
  readonly resolver?: string | undefined;
  /** Says that the stage's `apply` would now return another result; it will be called at the end of this turn. */
  invalidate(): void;
  /**
   * Checks whether the endpoint's connection is alive: resolves or rejects. Rejects with EVENKEEL_OPTION if the transport has
   * no ping.
   */
  probe(endpoint: Endpoint, signal: AbortSignal): Promise<void>;
}

/** A stage as an option: built once per balancer. */
export type StageFactory = (context: StageContext) => Stage;

/** Runs stages in order. */
export function applyStages(stages: readonly Stage[], set: EndpointSet): EndpointSet {
  let result = set;
  for (const stage of stages) result = stage.apply(result);
  return result;
}
