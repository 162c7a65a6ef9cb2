import { type Outcome, outcomes } from '../endpoint/outcome.js';
import type { Clock } from '../runtime/clock.js';
import { StallWatch } from '../runtime/stall-watch.js';
import { LatencyQuantile } from './latency-quantile.js';

/**
 * A caller's deadline of exactly `stalledAfterMs` must count, but it started before the call had an endpoint, and timers round.
 * So this share of it is enough.
 */
const STALLED_ENOUGH = 0.95;

/**
 * What the duration of a call means: for its endpoint, for the usual duration, or nothing, because our own event loop was
 * blocked. On the path of every call.
 */
export class CallTimes {
  readonly #clock: Clock;
  readonly #stalls: StallWatch;
  readonly #latency = new LatencyQuantile();
  readonly #stalledAfterMs: number;

  constructor(clock: Clock, stalledAfterMs: number) {
    this.#clock = clock;
    this.#stalls = new StallWatch(clock);
    this.#stalledAfterMs = STALLED_ENOUGH * stalledAfterMs;
  }

  began(): void {
    this.#stalls.began();
  }

  ended(): void {
    this.#stalls.ended();
  }

  /**
   * A duration that is largely a stall of our own proves nothing, neither the usual duration nor which endpoint to prefer. When
   * in the call it stalled is not known, so it may have been before the first byte.
   */
  isMeasured(startedMs: number, askedMs: number, nowMs: number): boolean {
    return 4 * this.#stalls.stalledSince(startedMs, nowMs) <= nowMs - askedMs;
  }

  /** Whether our event loop stood still at some time since then, while calls were running. */
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
   * A caller's abort counts against the endpoint only if the caller waited unusually long for a first byte, and not because of
   * us.
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
