import type { Endpoint } from '../endpoint/endpoint.js';
import { type Outcome, usableOutcome } from '../endpoint/outcome.js';
import type { Observer } from '../observe/observer.js';
import type { Subchannel } from '../pool/subchannel.js';
import type { RetryPolicy } from '../retry/retry-policy.js';

/** What a lease reports to. */
export interface LeaseOwner<C> {
  readonly retries: RetryPolicy;
  readonly observer: Observer;
  leaseEnded(lease: Lease<C>, outcome: Outcome, latencyMs: number | undefined): void;
  /** A lease was ended with this, which is no outcome; returns what is taken in its place. */
  misused(value: unknown): Outcome;
}

/** A pick in use: one call on one endpoint. Whoever holds it owes exactly one `end`; later ones do nothing. */
export class Lease<C> {
  /** What the transport opened: an HTTP pool, a channel, a client. */
  readonly handle: C;
  readonly subchannel: Subchannel<C>;
  /** When it began, on the balancer's clock. */
  readonly startedMs: number;
  readonly #owner: LeaseOwner<C>;
  #answered = false;
  #outcome: Outcome | undefined;

  constructor(owner: LeaseOwner<C>, subchannel: Subchannel<C>, handle: C, startedMs: number) {
    this.#owner = owner;
    this.subchannel = subchannel;
    this.handle = handle;
    this.startedMs = startedMs;
  }

  get endpoint(): Endpoint {
    return this.subchannel.endpoint;
  }

  /** What may be repeated, and what pays for it: of the balancer it came from. */
  get retries(): RetryPolicy {
    return this.#owner.retries;
  }

  /** The observer of the balancer it came from. */
  get observer(): Observer {
    return this.#owner.observer;
  }

  /** Whether the first byte of the answer came. */
  get answered(): boolean {
    return this.#answered;
  }

  /**
   * Aborts when the endpoint leaves: its pod terminates, the set no longer has it, or the balancer closes. A call that may live
   * for long moves then; its reason, a `Leaving`, says until when it may stay.
   */
  get leaving(): AbortSignal {
    return this.subchannel.leaving;
  }

  /** How it ended; `undefined` while it runs. */
  get outcome(): Outcome | undefined {
    return this.#outcome;
  }

  /** The first byte of the answer came: a caller who gives up from now on says nothing about the endpoint. */
  progressed(): void {
    this.#answered = true;
  }

  /**
   * The call ended this way. Never throws; what is no outcome is taken for `cancelled`, and the observer hears of it.
   * @param latencyMs How long the endpoint took to answer, where that is not the time the call lasted (a stream).
   */
  end(outcome: Outcome, latencyMs?: number): void {
    if (this.#outcome !== undefined) return;
    const usable = usableOutcome(outcome) ?? this.#owner.misused(outcome);
    this.#outcome = usable;
    this.#owner.leaseEnded(this, usable, latencyMs);
  }
}
