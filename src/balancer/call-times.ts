import { type Outcome, outcomes } from '../endpoint/outcome.js';
import type { CallMeter, CallNote, ProtocolMeter } from '../observe/live-balancers.js';
import type { Clock } from '../runtime/clock.js';
import { StallWatch } from '../runtime/stall-watch.js';
import type { CallLimit } from './call-limit.js';
import { LatencyQuantile } from './latency-quantile.js';
import type { Lease } from './lease.js';
import type { Recording } from './recording.js';

/**
 * A caller's deadline of exactly `stalledAfterMs` must count, but it started before the call had an endpoint, and timers round.
 * This share of it is therefore enough.
 */
const STALLED_ENOUGH = 0.95;

interface Meters {
  readonly meter: CallMeter | undefined;
  readonly protocolMeter: ProtocolMeter | undefined;
  readonly recording?: Recording | undefined;
}

/**
 * What the duration and the end of a call mean: for its endpoint, for the usual duration and for the limit, or nothing, because
 * our own event loop was blocked. On the path of every call.
 */
export class CallTimes {
  readonly #clock: Clock;
  readonly #stalls: StallWatch;
  readonly #latency = new LatencyQuantile();
  readonly #stalledAfterMs: number;
  readonly #limit: CallLimit | undefined;

  constructor(clock: Clock, stalledAfterMs: number, limit?: CallLimit) {
    this.#clock = clock;
    this.#limit = limit;
    this.#stalls = new StallWatch(clock);
    this.#stalledAfterMs = STALLED_ENOUGH * stalledAfterMs;
  }

  began(): void {
    this.#stalls.began();
    this.#limit?.started();
  }

  /** @param latencyMs As for `Lease.end`. */
  ended<C>(
    lease: Lease<C>,
    outcome: Outcome,
    latencyMs: number | null | undefined,
    { meter, protocolMeter, recording }: Meters,
    note?: CallNote,
  ): void {
    const { subchannel, startedMs, answeredMs } = lease;
    const nowMs = this.#clock.now();
    let askedMs = startedMs;
    if (typeof latencyMs === 'number') {
      // An invalid time (NaN) would corrupt the load permanently.
      if (latencyMs >= 0 && latencyMs < Number.POSITIVE_INFINITY) askedMs = nowMs - latencyMs;
    } else if (answeredMs !== undefined) askedMs = nowMs - (answeredMs - startedMs);
    const answered = answeredMs !== undefined;
    const isMeasured = latencyMs !== null && this.#isMeasured(startedMs, askedMs, nowMs);
    let judged = outcome;
    if (outcome.kind !== 'success') judged = this.judge(outcome, startedMs, nowMs, answered);
    else if (isMeasured) this.took(nowMs - askedMs);
    this.#stalls.ended();
    const limit = this.#limit;
    if (limit !== undefined) {
      if (!answered) limit.freed();
      if (isMeasured) limit.learn(outcome, nowMs - askedMs, nowMs, answered);
    }
    meter?.attemptEnded(judged, nowMs - startedMs);
    if (note !== undefined) protocolMeter?.attemptEnded(note, judged, nowMs - startedMs);
    if (recording !== undefined) {
      recording.prepare(nowMs);
      recording.ended(subchannel, lease.call, nowMs, judged, askedMs, isMeasured);
    }
    subchannel.end(startedMs, nowMs, judged, askedMs, isMeasured);
  }

  /** Whether our event loop was blocked at any time since then, while calls were running. */
  stalledSince(sinceMs: number): boolean {
    return this.#stalls.stalledSince(sinceMs, this.#clock.now()) > 0;
  }

  /** A measured call succeeded after this long. */
  took(latencyMs: number): void {
    this.#latency.add(latencyMs);
  }

  /** What an unsuccessful call says about its endpoint. */
  judge(outcome: Outcome, startedMs: number, nowMs: number, answered: boolean): Outcome {
    if (outcome.kind === 'cancelled') {
      return !answered && this.#waitedTooLong(startedMs, nowMs) ? outcomes.timeout : outcome;
    }
    return outcome.cause === 'timeout' && this.#stoodStill(startedMs, nowMs) ? outcomes.cancelled : outcome;
  }

  close(): void {
    this.#stalls.close();
  }

  /**
   * A duration that is largely a stall of our own event loop says nothing about the usual duration or the endpoint. The stall may
   * have been at any time in the call, also before the first byte.
   */
  #isMeasured(startedMs: number, askedMs: number, nowMs: number): boolean {
    return 4 * this.#stalls.stalledSince(startedMs, nowMs) <= nowMs - askedMs;
  }

  /**
   * A caller's abort counts against the endpoint only if the caller waited unusually long for a first byte, and our event loop was
   * not the reason.
   */
  #waitedTooLong(startedMs: number, nowMs: number): boolean {
    const stalledAfterMs = this.#stalledAfterMs;
    if (nowMs - startedMs <= stalledAfterMs) return false;
    const waitedMs = nowMs - startedMs - this.#stalls.stalledSince(startedMs, nowMs);
    return waitedMs > stalledAfterMs && waitedMs > 3 * this.#latency.quantile(0.99);
  }

  /** A timeout says nothing about the endpoint if our own event loop was blocked for most of the call. */
  #stoodStill(startedMs: number, nowMs: number): boolean {
    return 2 * this.#stalls.stalledSince(startedMs, nowMs) > nowMs - startedMs;
  }
}
