import type { Endpoint } from '../endpoint/endpoint.js';
import { type LoadReport, type Outcome, outcomes, usableOutcome } from '../endpoint/outcome.js';
import type { CallLimit } from '../limit/call-limit.js';
import type { CallMeter } from '../observe/live-balancers.js';
import type { Observer } from '../observe/observer.js';
import type { PickTarget } from '../picker/picker.js';
import type { Subchannel } from '../pool/subchannel.js';
import type { RetryRules } from '../retry/retry-policy.js';
import type { Clock } from '../runtime/clock.js';
import { StallWatch } from '../runtime/stall-watch.js';
import { LatencyQuantile } from './latency-quantile.js';

/** What leases need from the balancer that made them. */
export interface LeaseOwner<C> {
  readonly clock: Clock;
  readonly retries: RetryRules;
  readonly observer: Observer;
  readonly limit: CallLimit | undefined;
  readonly meter: CallMeter | undefined;
  /** The response of a call has begun, so the call no longer counts against the limit and another may run. */
  madeRoom(): void;
  /** A call on `subchannel` has ended, and the subchannel's counters have been updated. */
  callEnded(subchannel: Subchannel<C>): void;
  /** A lease was ended with `value`, which is not an outcome. Returns the outcome that counts instead. */
  misused(value: unknown): Outcome;
}

/** A pick in use: one call on one endpoint. Its holder must call `end` exactly once; later calls do nothing. */
export interface Lease<C> {
  /** The object that the transport opened, such as an HTTP pool, a channel or a client. */
  readonly handle: C;
  /** The endpoint the call runs on. */
  readonly endpoint: Endpoint;
  /** What the picker picked; pass it in `avoid` to get another endpoint for the next attempt. */
  readonly subchannel: PickTarget;
  /** When the call started, in ms on the balancer's clock. */
  readonly startedMs: number;
  /** Whether the first byte of the response has arrived. */
  readonly answered: boolean;
  /** When the first byte of the response arrived, in ms on the balancer's clock; `undefined` until then. */
  readonly answeredMs: number | undefined;
  /**
   * Aborts when the endpoint leaves: its pod terminates, it is no longer in the set, or the balancer closes. A long-lived call should then
   * move; the signal's reason is a `Leaving`, which says until when.
   */
  readonly leaving: AbortSignal;
  /** How the call ended; `undefined` while it is running. */
  readonly outcome: Outcome | undefined;
  /**
   * Reports that the first byte of the response has arrived. The latency counts up to here, and a later abort does not count against the
   * endpoint. Further calls of this method do nothing.
   */
  progressed(): void;
  /**
   * Passes on the load that the endpoint reported. Call it as soon as the report arrives, because reports are soon out of date; without it,
   * the report in the outcome counts at the end of the call. Never throws; further calls of this method do nothing.
   */
  reported(report: LoadReport): void;
  /**
   * Reports that the call goes on and has shown that its endpoint works. Stages count a success now, and the outcome at the end. For calls
   * that last for hours, because an endpoint on probation cannot wait so long.
   */
  confirm(): void;
  /**
   * Ends the call. Never throws; an invalid outcome counts as `cancelled`, and the observer is warned.
   *
   * @param latencyMs How long the endpoint took to respond, in ms. By default the time until `progressed`, or else the duration of the
   * call. `null` = the duration says nothing about the endpoint, as when a connection was lent to the application.
   */
  end(outcome: Outcome, latencyMs?: number | null): void;
}

/** The lease as adapters see it: it has members that applications do not need. */
export class CallLease<C> implements Lease<C> {
  readonly handle: C;
  readonly subchannel: Subchannel<C>;
  readonly startedMs: number;
  readonly #times: CallTimes<C>;
  #answeredMs: number | undefined;
  #outcome: Outcome | undefined;
  /** Whether the endpoint has reported its load. */
  #hasReported = false;

  constructor(times: CallTimes<C>, subchannel: Subchannel<C>, handle: C, startedMs: number) {
    this.#times = times;
    this.subchannel = subchannel;
    this.handle = handle;
    this.startedMs = startedMs;
  }

  get endpoint(): Endpoint {
    return this.subchannel.endpoint;
  }

  /** The retry policy of the balancer that the lease came from. */
  get retries(): RetryRules {
    return this.#times.owner.retries;
  }

  /** The observer of the balancer that the lease came from. */
  get observer(): Observer {
    return this.#times.owner.observer;
  }

  get answered(): boolean {
    return this.#answeredMs !== undefined;
  }

  get answeredMs(): number | undefined {
    return this.#answeredMs;
  }

  get leaving(): AbortSignal {
    return this.subchannel.leaving;
  }

  get outcome(): Outcome | undefined {
    return this.#outcome;
  }

  progressed(): void {
    this.#answeredMs ??= this.#times.answered(this);
  }

  reported(report: LoadReport): void {
    if (this.#hasReported || this.#outcome !== undefined) return;
    this.#hasReported = true;
    this.subchannel.reported(report, this.#times.owner.clock.now());
  }

  confirm(): void {
    if (this.#outcome === undefined) this.subchannel.confirm(this.startedMs);
  }

  end(outcome: Outcome, latencyMs?: number | null): void {
    if (this.#outcome !== undefined) return;
    let usable = outcome;
    if (outcome !== outcomes.success) {
      usable = usableOutcome(outcome) ?? this.#times.owner.misused(outcome);
      if (usable.report !== undefined) this.reported(usable.report);
    }
    this.#outcome = usable;
    this.#times.ended(this, usable, latencyMs);
  }
}

/** Returns a lease as adapters see it. Every lease of a balancer is a `CallLease`. */
export const callLease = <C>(lease: Lease<C>): CallLease<C> => lease as CallLease<C>;

/**
 * A call that its caller gave up counts as stalled after this share of `stalledAfterMs`. A caller's deadline of exactly `stalledAfterMs`
 * must count, but it started before the call had an endpoint, and timers round.
 */
const STALL_SHARE = 0.95;
/** A caller's wait counts as unusually long beyond this multiple of the 99th percentile of latencies. */
const UNUSUAL_FACTOR = 3;

/**
 * Evaluates the calls of a balancer when they end: what a call's duration and outcome mean for its endpoint, for the usual latency and for
 * the limit. If this process's event loop was blocked meanwhile, they may mean nothing.
 */
export class CallTimes<C> {
  readonly owner: LeaseOwner<C>;
  readonly #stalls: StallWatch;
  readonly #latency: LatencyQuantile;
  readonly #stalledAfterMs: number;

  constructor(owner: LeaseOwner<C>, stalledAfterMs: number) {
    this.owner = owner;
    this.#stalls = new StallWatch(owner.clock);
    this.#stalledAfterMs = STALL_SHARE * stalledAfterMs;
    // A latency below this needs no bucket: `UNUSUAL_FACTOR` times a percentile below it is less than `stalledAfterMs` in any case.
    this.#latency = new LatencyQuantile(this.#stalledAfterMs / UNUSUAL_FACTOR / LatencyQuantile.excess - 1);
  }

  began(): void {
    this.#stalls.began();
    this.owner.limit?.started();
  }

  /** The response of a call has begun. Returns the current time, in ms on the balancer's clock. */
  answered(lease: CallLease<C>): number {
    const { limit, clock } = this.owner;
    if (limit !== undefined && lease.outcome === undefined) {
      limit.freed();
      this.owner.madeRoom();
    }
    return clock.now();
  }

  /** Evaluates a call that has ended. @param latencyMs The latency as for `Lease.end`. */
  ended(lease: CallLease<C>, outcome: Outcome, latencyMs: number | null | undefined): void {
    const { clock, limit, meter } = this.owner;
    const { subchannel, startedMs, answeredMs } = lease;
    const nowMs = clock.now();
    let measuredFromMs = startedMs;
    if (typeof latencyMs === 'number') {
      // An adapter may pass an invalid latency (NaN), which would corrupt the endpoint's load for good.
      if (latencyMs >= 0 && latencyMs < Number.POSITIVE_INFINITY) measuredFromMs = nowMs - latencyMs;
    } else if (answeredMs !== undefined) measuredFromMs = nowMs - (answeredMs - startedMs);
    const answered = answeredMs !== undefined;
    const isMeasured = latencyMs !== null && this.#isMeasured(startedMs, measuredFromMs, nowMs);
    let judged = outcome;
    if (outcome.kind !== 'success') judged = this.outcomeFor(outcome, startedMs, nowMs, answered);
    else if (isMeasured) this.took(nowMs - measuredFromMs);
    this.#stalls.ended();
    if (limit !== undefined) {
      if (!answered) limit.freed();
      if (isMeasured) limit.learn(outcome, nowMs - measuredFromMs, nowMs, answered);
    }
    meter?.attemptEnded(judged, nowMs - startedMs);
    subchannel.end(startedMs, nowMs, judged, measuredFromMs, isMeasured);
    this.owner.callEnded(subchannel);
  }

  /** Whether the event loop of this process was blocked at any time since `sinceMs` while calls were running. */
  stalledSince(sinceMs: number): boolean {
    return this.#stalls.stalledSince(sinceMs, this.owner.clock.now()) > 0;
  }

  /** Adds the latency of a successful call to the histogram of usual latencies. */
  took(latencyMs: number): void {
    this.#latency.add(latencyMs);
  }

  /**
   * The outcome that counts for the endpoint of a call that did not succeed, which may differ from the outcome that the adapter reported.
   */
  outcomeFor(outcome: Outcome, startedMs: number, nowMs: number, answered: boolean): Outcome {
    if (outcome.kind === 'cancelled') {
      return !answered && this.#waitedTooLong(startedMs, nowMs) ? outcomes.timeout : outcome;
    }
    return outcome.cause === 'timeout' && this.#wasBlocked(startedMs, nowMs) ? outcomes.cancelled : outcome;
  }

  close(): void {
    this.#stalls.close();
  }

  /**
   * Whether a call's duration says something about the endpoint. It does not if it consists largely of a time in which this process's event
   * loop was blocked; that may have been at any time during the call, also before the first byte.
   */
  #isMeasured(startedMs: number, measuredFromMs: number, nowMs: number): boolean {
    return 4 * this.#stalls.stalledSince(startedMs, nowMs) <= nowMs - measuredFromMs;
  }

  /**
   * Whether a call that its caller gave up counts as a timeout of the endpoint: only if the caller waited unusually long for a first byte,
   * not counting the time in which this process's event loop was blocked.
   */
  #waitedTooLong(startedMs: number, nowMs: number): boolean {
    const stalledAfterMs = this.#stalledAfterMs;
    if (nowMs - startedMs <= stalledAfterMs) return false;
    const waitedMs = nowMs - startedMs - this.#stalls.stalledSince(startedMs, nowMs);
    return waitedMs > stalledAfterMs && waitedMs > UNUSUAL_FACTOR * this.#latency.quantile(0.99);
  }

  /** Whether this process's event loop was blocked for most of the call, so that a timeout says nothing about the endpoint. */
  #wasBlocked(startedMs: number, nowMs: number): boolean {
    return 2 * this.#stalls.stalledSince(startedMs, nowMs) > nowMs - startedMs;
  }
}
