import type { Endpoint } from '../endpoint/endpoint.js';
import { type LoadReport, type Outcome, outcomes, usableOutcome } from '../endpoint/outcome.js';
import type { CallNote } from '../observe/live-balancers.js';
import type { Observer } from '../observe/observer.js';
import type { Subchannel } from '../pool/subchannel.js';
import type { RetryPolicy } from '../retry/retry-policy.js';

/** What a lease reports to. */
export interface LeaseOwner<C> {
  readonly retries: RetryPolicy;
  readonly observer: Observer;
  readonly protocolMeter: object | undefined;
  reported(lease: Lease<C>, report: LoadReport): void;
  leaseEnded(lease: Lease<C>, outcome: Outcome, latencyMs: number | null | undefined, note: CallNote | undefined): void;
  /** The answer of a call has begun, unless the call is over; returns the time on the balancer's clock, in ms. */
  leaseAnswered(lease: Lease<C>): number;
  /** A lease was ended with this value, which is not an outcome; returns its replacement. */
  misused(value: unknown): Outcome;
}

/** A pick in use: one call on one endpoint. Its holder must call `end` exactly once; later calls do nothing. */
export class Lease<C> {
  /** What the transport opened: an HTTP pool, a channel, a client. */
  readonly handle: C;
  readonly subchannel: Subchannel<C>;
  /** When it started, on the balancer's clock. */
  readonly startedMs: number;
  readonly #owner: LeaseOwner<C>;
  #answeredMs: number | undefined;
  #outcome: Outcome | undefined;
  /** Twice its number in a recording, 0 if it is not recorded; and 1 once there was a report. One field: a lease is made per call. */
  #marks: number;

  constructor(owner: LeaseOwner<C>, subchannel: Subchannel<C>, handle: C, startedMs: number, call = 0) {
    this.#owner = owner;
    this.subchannel = subchannel;
    this.handle = handle;
    this.startedMs = startedMs;
    this.#marks = 2 * call;
  }

  get endpoint(): Endpoint {
    return this.subchannel.endpoint;
  }

  /** Its number in a recording; 0 = it is not recorded. */
  get call(): number {
    return this.#marks >> 1;
  }

  /** The retry policy of the balancer it came from. */
  get retries(): RetryPolicy {
    return this.#owner.retries;
  }

  /** The observer of the balancer it came from. */
  get observer(): Observer {
    return this.#owner.observer;
  }

  /** Whether `end` should be told what the call is to its protocol: metrics with the names of that protocol are on. */
  get isMeasured(): boolean {
    return this.#owner.protocolMeter !== undefined;
  }

  /** Whether the first byte of the response has arrived. */
  get answered(): boolean {
    return this.#answeredMs !== undefined;
  }

  /** When the first byte of the response arrived, on the balancer's clock; `undefined` until then. */
  get answeredMs(): number | undefined {
    return this.#answeredMs;
  }

  /**
   * Aborts when the endpoint leaves: its pod terminates, the set no longer has it, or the balancer closes. A long-lived call
   * should move then; the reason, a `Leaving`, says until when it may stay.
   */
  get leaving(): AbortSignal {
    return this.subchannel.leaving;
  }

  /** How it ended; `undefined` while it is running. */
  get outcome(): Outcome | undefined {
    return this.#outcome;
  }

  /**
   * The first byte of the response has arrived: that is how long the endpoint took, and an abort from now on says nothing about
   * it. Calls after the first do nothing.
   */
  progressed(): void {
    this.#answeredMs ??= this.#owner.leaseAnswered(this);
  }

  /**
   * The endpoint reported how busy it is. Call this as soon as the report arrives, because it is soon out of date; otherwise the
   * report of the outcome counts at the end of the call. Never throws; calls after the first do nothing.
   */
  reported(report: LoadReport): void {
    if ((this.#marks & 1) === 1 || this.#outcome !== undefined) return;
    this.#marks |= 1;
    this.#owner.reported(this, report);
  }

  /**
   * The call continues, and has shown that its endpoint works. Stages are told of a success now, and of the outcome at the end. For
   * calls that last for hours: an endpoint on probation cannot wait for their end.
   */
  works(): void {
    if (this.#outcome === undefined) this.subchannel.works(this.startedMs);
  }

  /**
   * Ends the call. Never throws; an invalid outcome counts as `cancelled`, and the observer is warned.
   * @param latencyMs How long the endpoint took to respond. By default until `progressed`, or else the duration of the call; `null`
   * if that says nothing about the endpoint, as with a connection that is lent to the application.
   * @param note What the call is to its protocol, if it `isMeasured`.
   */
  end(outcome: Outcome, latencyMs?: number | null, note?: CallNote): void {
    if (this.#outcome !== undefined) return;
    let usable = outcome;
    if (outcome !== outcomes.success) {
      usable = usableOutcome(outcome) ?? this.#owner.misused(outcome);
      if (usable.report !== undefined) this.reported(usable.report);
    }
    this.#outcome = usable;
    this.#owner.leaseEnded(this, usable, latencyMs, note);
  }
}
