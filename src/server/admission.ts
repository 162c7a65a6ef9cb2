import { WaitingRoom } from '../call/waiting-room.js';
import { outcomes } from '../endpoint/outcome.js';
import { EvenkeelError } from '../errors.js';
import { CallLimit } from '../limit/call-limit.js';
import type { LimitFactory } from '../limit/limit.js';
import type { Clock } from '../runtime/clock.js';
import { StallWatch } from '../runtime/stall-watch.js';
import type { ServedCall } from './served-call.js';

export interface AdmissionOptions {
  readonly limit: LimitFactory;
  readonly maxWaiting: number;
  readonly waitTimeoutMs: number;
  readonly clock: Clock;
}

/**
 * Limits how many requests a pod serves at once. Further requests wait before they begin, by priority, and are shed by the rules for a
 * balancer's calls, because both use `WaitingRoom`.
 */
export class Admission {
  readonly #limit: CallLimit;
  readonly #room: WaitingRoom<never, true>;
  readonly #clock: Clock;
  readonly #stalls: StallWatch;
  readonly #waitTimeoutMs: number;

  constructor({ limit, maxWaiting, waitTimeoutMs, clock }: AdmissionOptions) {
    this.#clock = clock;
    this.#waitTimeoutMs = waitTimeoutMs;
    this.#stalls = new StallWatch(clock);
    this.#limit = new CallLimit(limit(), {
      warn: (message, error) => process.emitWarning(`evenkeel: ${message}: ${String(error)}`),
    });
    const overload = (why: string): EvenkeelError =>
      new EvenkeelError(
        'EVENKEEL_OVERLOAD',
        `overloaded: ${this.running} of ${this.max} requests are running, and ${why}`,
      );
    this.#room = new WaitingRoom<never, true>({
      clock,
      maxWaiting,
      limit: this.#limit,
      stalledSince: (sinceMs) => this.#stalls.stalledSince(sinceMs, clock.now()) > 0,
      tryPick: () => {
        if (!this.#limit.hasRoom) return undefined;
        this.#begin();
        return true;
      },
      timedOut: (waitedMs) => overload(`this one waited ${waitedMs} ms`),
      overload: (waitedMs) => overload(waitedMs === 0 ? 'others wait' : `this one waited ${Math.round(waitedMs)} ms`),
      tooLate: () => new EvenkeelError('EVENKEEL_TOO_LATE', 'the deadline of the request cannot be met any more'),
    });
  }

  get max(): number {
    return this.#limit.max;
  }

  get running(): number {
    return this.#limit.running;
  }

  get waiting(): number {
    return this.#room.size;
  }

  get shed(): number {
    return this.#room.shed;
  }

  /**
   * Lets a request begin, at once or later. Returns undefined if the request begins at once; otherwise a promise that resolves when it may
   * begin, and rejects if it is refused.
   */
  enter(call: ServedCall): Promise<true> | undefined {
    // Requests that already wait for the limit begin before this one.
    this.#room.wake();
    if (this.#room.size === 0 && this.#limit.hasRoom) {
      this.#begin();
      call.begunMs = call.cameMs;
      return undefined;
    }
    return this.#wait(call);
  }

  /** A request whose handler had begun has ended. */
  left(call: ServedCall, isAnswered: boolean, isFailure: boolean): void {
    const { begunMs } = call;
    if (begunMs === undefined) return;
    call.begunMs = undefined;
    const nowMs = this.#clock.now();
    this.#stalls.ended();
    this.#limit.freed();
    const outcome = isAnswered ? (isFailure ? outcomes.status : outcomes.success) : outcomes.cancelled;
    this.#limit.learn(outcome, nowMs - begunMs, nowMs, isAnswered);
    this.#room.wake();
  }

  /**
   * A request whose handler waits for a body that does not come no longer counts against the limit. Otherwise senders that never finish
   * would use up the whole limit. Returns whether the request had counted.
   */
  leaves(call: ServedCall): boolean {
    if (call.begunMs === undefined) return false;
    call.begunMs = undefined;
    this.#stalls.ended();
    this.#limit.freed();
    this.#room.wake();
    return true;
  }

  /**
   * The body of a request has arrived. The request counts against the limit again, even if that is reached, because it is already being
   * served.
   */
  returns(call: ServedCall): void {
    this.#begin();
    call.begunMs = this.#clock.now();
  }

  close(): void {
    this.#stalls.close();
  }

  async #wait(call: ServedCall): Promise<true> {
    const { signal, priority, remainingMs: deadlineMs } = call;
    const timeoutMs = this.#waitTimeoutMs;
    await this.#room.wait({ key: undefined, avoid: undefined, signal, timeoutMs, priority, deadlineMs });
    call.begunMs = this.#clock.now();
    // While the request waited for the limit, its caller may have left.
    if (!signal.aborted) return true;
    this.left(call, false, false);
    throw signal.reason;
  }

  #begin(): void {
    this.#limit.started();
    this.#stalls.began();
  }
}
