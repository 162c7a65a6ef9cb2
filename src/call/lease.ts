import type { Endpoint } from '../endpoint/endpoint.js';
import { type LoadReport, type Outcome, outcomes, usableOutcome } from '../endpoint/outcome.js';
import type { CallLimit } from '../limit/call-limit.js';
import type { CallMeter, CallNote, ProtocolMeter } from '../observe/live-balancers.js';
import type { Observer } from '../observe/observer.js';
import type { PickTarget } from '../picker/picker.js';
import type { Subchannel } from '../pool/subchannel.js';
import type { RetryRules } from '../retry/retry-policy.js';
import type { Clock } from '../runtime/clock.js';
import { StallWatch } from '../runtime/stall-watch.js';
import { LatencyQuantile } from './latency-quantile.js';
import type { Recording } from './recording.js';

/** The balancer that leases come from. */
export interface LeaseOwner<C> {
  readonly clock: Clock;
  readonly retries: RetryRules;
  readonly observer: Observer;
  readonly limit: CallLimit | undefined;
  readonly meter: CallMeter | undefined;
  readonly protocolMeter: ProtocolMeter | undefined;
  readonly recording: Recording | undefined;
  /** The response of a call has begun, which makes room for another call under the limit. */
  madeRoom(): void;
  /** A call has ended, and its subchannel has been updated. */
  callEnded(subchannel: Subchannel<C>): void;
  /** The endpoint's place in the client's order of preference, as `Lease.place`. */
  placeOf(subchannel: Subchannel<C>): number | undefined;
  /** A lease was ended with this value, which is not an outcome; returns its replacement. */
  misused(value: unknown): Outcome;
}

/** A pick in use: one call on one endpoint. Its holder must call `end` exactly once; later calls do nothing. */
export interface Lease<C> {
  /** What the transport opened: an HTTP pool, a channel, a client. */
  readonly handle: C;
  /** The endpoint the call runs on. */
  readonly endpoint: Endpoint;
  /** What the picker picked: pass it in `avoid` to pick another one next. */
  readonly subchannel: PickTarget;
  /** When the call started, on the balancer's clock. */
  readonly startedMs: number;
  /** The place that its endpoint has now in the client's order of preference, from 1; `undefined` if the picker keeps none. */
  readonly place: number | undefined;
  /** Whether the first byte of the response has arrived. */
  readonly answered: boolean;
  /** When the first byte of the response arrived, on the balancer's clock; `undefined` until then. */
  readonly answeredMs: number | undefined;
  /**
   * Aborts when the endpoint leaves: its pod terminates, it is no longer in the set, or the balancer closes. A long-lived call
   * should then move; the reason is a `Leaving`, with the time by which it must.
   */
  readonly leaving: AbortSignal;
  /** How the call ended; `undefined` while it is running. */
  readonly outcome: Outcome | undefined;
  /**
   * The first byte of the response has arrived. The endpoint's latency ends here; a later abort does not count against it. Calls after the
   * first do nothing.
   */
  progressed(): void;
  /**
   * The endpoint reported how busy it is. Call this as soon as the report arrives, because it is soon out of date; otherwise the
   * report of the outcome counts at the end of the call. Never throws; calls after the first do nothing.
   */
  reported(report: LoadReport): void;
  /**
   * The call continues, and has shown that its endpoint works. Stages count a success now, and the outcome at the end. For calls that
   * last for hours, because an endpoint on probation cannot wait for their end.
   */
  confirm(): void;
  /**
   * Ends the call. Never throws; an invalid outcome counts as `cancelled`, and the observer is warned.
   * @param latencyMs How long the endpoint took to respond. By default the time until `progressed`, or else the duration of the call;
   * `null` if that says nothing about the endpoint, as with a connection that is lent to the application.
   */
  end(outcome: Outcome, latencyMs?: number | null): void;
}

/** What every lease of a balancer is: adapters read more of it than applications do. */
export class CallLease<C> implements Lease<C> {
  readonly handle: C;
  readonly subchannel: Subchannel<C>;
  readonly startedMs: number;
  readonly #times: CallTimes<C>;
  #answeredMs: number | undefined;
  #outcome: Outcome | undefined;
  /**
   * Twice the call's number in a recording (0 if it is not recorded), plus 1 once the endpoint has reported its load. One field for both,
   * because a lease is made per call.
   */
  #marks: number;

  constructor(times: CallTimes<C>, subchannel: Subchannel<C>, handle: C, startedMs: number, call = 0) {
    this.#times = times;
    this.subchannel = subchannel;
    this.handle = handle;
    this.startedMs = startedMs;
    this.#marks = 2 * call;
  }

  get endpoint(): Endpoint {
    return this.subchannel.endpoint;
  }

  get place(): number | undefined {
    return this.#times.owner.placeOf(this.subchannel);
  }

  /** The number of the call in a recording; 0 = the call is not recorded. */
  get call(): number {
    return this.#marks >> 1;
  }

  /** The retry policy of the balancer that the lease came from. */
  get retries(): RetryRules {
    return this.#times.owner.retries;
  }

  /** The observer of the balancer that the lease came from. */
  get observer(): Observer {
    return this.#times.owner.observer;
  }

  /** Whether `end` should get a `note`: metrics with the names of the call's protocol are on. */
  get isMeasured(): boolean {
    return this.#times.owner.protocolMeter !== undefined;
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
    if ((this.#marks & 1) === 1 || this.#outcome !== undefined) return;
    this.#marks |= 1;
    this.subchannel.reported(report, this.#times.owner.clock.now());
  }

  confirm(): void {
    if (this.#outcome === undefined) this.subchannel.confirm(this.startedMs);
  }

  /** Ends the call, as `Lease.end` does. @param note Describes the call in terms of its protocol; only needed if it `isMeasured`. */
  end(outcome: Outcome, latencyMs?: number | null, note?: CallNote): void {
    if (this.#outcome !== undefined) return;
    let usable = outcome;
    if (outcome !== outcomes.success) {
      usable = usableOutcome(outcome) ?? this.#times.owner.misused(outcome);
      if (usable.report !== undefined) this.reported(usable.report);
    }
    this.#outcome = usable;
    this.#times.ended(this, usable, latencyMs, note);
  }
}

/** A lease of a balancer, with what adapters read of it. */
export const callLease = <C>(lease: Lease<C>): CallLease<C> => lease as CallLease<C>;

/**
 * The share of `stalledAfterMs` after which a call that its caller gave up counts as stalled. A caller's deadline of exactly
 * `stalledAfterMs` must count, but it started before the call had an endpoint, and timers round.
 */
const STALLED_ENOUGH = 0.95;
/** A caller has waited unusually long for a response once its wait exceeds this multiple of the 99th percentile of latencies. */
const UNUSUAL = 3;

/**
 * Evaluates the calls of a balancer as they end: what the duration and the outcome of a call mean for its endpoint, for the usual latency
 * and for the limit. Both mean nothing if our own event loop was blocked.
 */
export class CallTimes<C> {
  readonly owner: LeaseOwner<C>;
  readonly #stalls: StallWatch;
  readonly #latency: LatencyQuantile;
  readonly #stalledAfterMs: number;

  constructor(owner: LeaseOwner<C>, stalledAfterMs: number) {
    this.owner = owner;
    this.#stalls = new StallWatch(owner.clock);
    this.#stalledAfterMs = STALLED_ENOUGH * stalledAfterMs;
    // A latency below this needs no bucket: `UNUSUAL` times a percentile below it cannot exceed `stalledAfterMs`.
    this.#latency = new LatencyQuantile(this.#stalledAfterMs / UNUSUAL / LatencyQuantile.excess - 1);
  }

  began(): void {
    this.#stalls.began();
    this.owner.limit?.started();
  }

  /** The response of a call has begun; returns when, on the clock in ms. */
  answered(lease: CallLease<C>): number {
    const { limit, clock } = this.owner;
    if (limit !== undefined && lease.outcome === undefined) {
      limit.freed();
      this.owner.madeRoom();
    }
    return clock.now();
  }

  /** Evaluates a call that has ended. @param latencyMs As for `Lease.end`. */
  ended(lease: CallLease<C>, outcome: Outcome, latencyMs: number | null | undefined, note: CallNote | undefined): void {
    const { clock, limit, meter, protocolMeter, recording } = this.owner;
    const { subchannel, startedMs, answeredMs } = lease;
    const nowMs = clock.now();
    let measuredFromMs = startedMs;
    if (typeof latencyMs === 'number') {
      // An invalid latency from an adapter (NaN) would corrupt the endpoint's load permanently.
      if (latencyMs >= 0 && latencyMs < Number.POSITIVE_INFINITY) measuredFromMs = nowMs - latencyMs;
    } else if (answeredMs !== undefined) measuredFromMs = nowMs - (answeredMs - startedMs);
    const answered = answeredMs !== undefined;
    const isMeasured = latencyMs !== null && this.#isMeasured(startedMs, measuredFromMs, nowMs);
    let judged = outcome;
    if (outcome.kind !== 'success') judged = this.judge(outcome, startedMs, nowMs, answered);
    else if (isMeasured) this.took(nowMs - measuredFromMs);
    this.#stalls.ended();
    if (limit !== undefined) {
      if (!answered) limit.freed();
      if (isMeasured) limit.learn(outcome, nowMs - measuredFromMs, nowMs, answered);
    }
    meter?.attemptEnded(judged, nowMs - startedMs);
    if (note !== undefined) protocolMeter?.attemptEnded(note, judged, nowMs - startedMs);
    if (recording !== undefined) {
      recording.prepare(nowMs);
      recording.ended(subchannel, lease.call, nowMs, judged, measuredFromMs, isMeasured);
    }
    subchannel.end(startedMs, nowMs, judged, measuredFromMs, isMeasured);
    this.owner.callEnded(subchannel);
  }

  /** Whether our event loop was blocked at any time since `sinceMs`, while calls were running. */
  stalledSince(sinceMs: number): boolean {
    return this.#stalls.stalledSince(sinceMs, this.owner.clock.now()) > 0;
  }

  /** A measured call succeeded: its latency is added to the usual ones. */
  took(latencyMs: number): void {
    this.#latency.add(latencyMs);
  }

  /** The outcome of an unsuccessful call as far as its endpoint is concerned. */
  judge(outcome: Outcome, startedMs: number, nowMs: number, answered: boolean): Outcome {
    if (outcome.kind === 'cancelled') {
      return !answered && this.#waitedTooLong(startedMs, nowMs) ? outcomes.timeout : outcome;
    }
    return outcome.cause === 'timeout' && this.#wasBlocked(startedMs, nowMs) ? outcomes.cancelled : outcome;
  }

  close(): void {
    this.#stalls.close();
  }

  /**
   * A duration that consists largely of a stall of our own event loop says nothing about the endpoint. The stall may have been at any
   * time during the call, also before the first byte.
   */
  #isMeasured(startedMs: number, measuredFromMs: number, nowMs: number): boolean {
    return 4 * this.#stalls.stalledSince(startedMs, nowMs) <= nowMs - measuredFromMs;
  }

  /**
   * A caller's abort counts against the endpoint only if the caller waited unusually long for a first byte, and our event loop was
   * not the reason.
   */
  #waitedTooLong(startedMs: number, nowMs: number): boolean {
    const stalledAfterMs = this.#stalledAfterMs;
    if (nowMs - startedMs <= stalledAfterMs) return false;
    const waitedMs = nowMs - startedMs - this.#stalls.stalledSince(startedMs, nowMs);
    return waitedMs > stalledAfterMs && waitedMs > UNUSUAL * this.#latency.quantile(0.99);
  }

  /** A timeout says nothing about the endpoint if our own event loop was blocked for most of the call. */
  #wasBlocked(startedMs: number, nowMs: number): boolean {
    return 2 * this.#stalls.stalledSince(startedMs, nowMs) > nowMs - startedMs;
  }
}
