import { WaitingRoom } from '../call/waiting-room.js';
import { outcomes } from '../endpoint/outcome.js';
import { EvenkeelError } from '../errors.js';
import { CallLimit } from '../limit/call-limit.js';
import type { LimitFactory } from '../limit/limit.js';
import type { Clock, Timer } from '../runtime/clock.js';
import { StallWatch } from '../runtime/stall-watch.js';
import type { HttpResponse } from './http-requests.js';
import { holdDrain } from './internals.js';
import type { ServedCall } from './served-call.js';
import { UnreadResponses } from './unread-responses.js';

/** How often handlers that are done are looked for while requests wait, in ms. */
const LOOK_MS = 20;

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
  /** The requests that count against the limit. */
  readonly #counted = new Set<ServedCall>();
  readonly #unread: UnreadResponses;
  /** Requests whose handlers could go on, and do when the limit has room. */
  readonly #returning = new Map<ServedCall, () => void>();
  #lookTimer: Timer | undefined;

  constructor({ limit, maxWaiting, waitTimeoutMs, clock }: AdmissionOptions) {
    this.#clock = clock;
    this.#waitTimeoutMs = waitTimeoutMs;
    this.#stalls = new StallWatch(clock);
    this.#unread = new UnreadResponses(clock);
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
    this.#wake();
    if (!this.#limit.hasRoom) this.#look();
    if (this.#room.size === 0 && this.#limit.hasRoom) {
      this.#begin();
      this.#counts(call, call.cameMs);
      return undefined;
    }
    return this.#wait(call);
  }

  /** A request whose handler had begun has ended. */
  ended(call: ServedCall, isAnswered: boolean, isFailure: boolean): void {
    const { begunMs } = call;
    this.#unread.delete(call);
    this.#returning.delete(call);
    if (begunMs === undefined) return;
    const nowMs = this.#clock.now();
    this.#free(call);
    const outcome = isAnswered ? (isFailure ? outcomes.status : outcomes.success) : outcomes.cancelled;
    this.#limit.learn(outcome, nowMs - begunMs, nowMs, isAnswered);
    this.#wake();
  }

  /**
   * A request whose handler waits for a body that does not come no longer counts against the limit. Otherwise senders that never finish
   * would use up the whole limit. Returns whether the request had counted.
   */
  pauses(call: ServedCall): boolean {
    if (call.begunMs === undefined) return false;
    this.#free(call);
    this.#wake();
    return true;
  }

  /**
   * The handler of a request that no longer counts against the limit could go on: a part of the body has arrived, or a part of the response
   * was read. Calls `goOn` when the limit has room, before any request begins: then the request counts again.
   */
  resumes(call: ServedCall, goOn: () => void): void {
    this.#returning.set(call, goOn);
    if (!this.#limit.hasRoom) this.#look();
    this.#wake();
    this.#lookLater();
  }

  close(): void {
    this.#stalls.close();
    this.#lookTimer?.cancel();
  }

  #counts(call: ServedCall, begunMs: number): void {
    call.begunMs = begunMs;
    this.#counted.add(call);
  }

  #free(call: ServedCall): void {
    call.begunMs = undefined;
    this.#counted.delete(call);
    this.#stalls.ended();
    this.#limit.freed();
  }

  #wake(): void {
    for (const [call, goOn] of this.#returning) {
      if (!this.#limit.hasRoom) return;
      this.#returning.delete(call);
      this.#begin();
      this.#counts(call, this.#clock.now());
      goOn();
    }
    this.#room.wake();
  }

  /** Finds handlers that are done, or that only wait for the readers of their responses: those no longer count against the limit. */
  #look(): void {
    for (const call of this.#counted) {
      const { response } = call;
      if (response === undefined) continue;
      if (awaitsReader(response)) {
        this.#free(call);
        this.#unread.add(call, response);
        holdDrain(response, (pass) => {
          this.#unread.delete(call);
          this.resumes(call, pass);
        });
        continue;
      }
      if (!response.writableEnded) continue;
      const nowMs = this.#clock.now();
      const latencyMs = nowMs - (call.begunMs ?? nowMs);
      this.#free(call);
      this.#limit.learn(response.statusCode >= 500 ? outcomes.status : outcomes.success, latencyMs, nowMs, true);
      this.#unread.add(call, response);
    }
    this.#unread.closeSlowest(this.#limit.max);
  }

  /** Looks again in a while, as long as requests wait. */
  #lookLater(): void {
    if (this.#lookTimer !== undefined || (this.#room.size === 0 && this.#returning.size === 0)) return;
    this.#lookTimer = this.#clock.timer(() => {
      this.#lookTimer = undefined;
      this.#look();
      this.#wake();
      this.#lookLater();
    }, LOOK_MS);
  }

  async #wait(call: ServedCall): Promise<true> {
    const { signal, priority, remainingMs: deadlineMs } = call;
    const timeoutMs = this.#waitTimeoutMs;
    const waiting = this.#room.wait({ key: undefined, avoid: undefined, signal, timeoutMs, priority, deadlineMs });
    this.#lookLater();
    await waiting;
    this.#counts(call, this.#clock.now());
    // While the request waited for the limit, its caller may have left.
    if (!signal.aborted) return true;
    this.ended(call, false, false);
    throw signal.reason;
  }

  #begin(): void {
    this.#limit.started();
    this.#stalls.began();
  }
}

/** Whether a handler writes no more of its response before the reader has read some. */
function awaitsReader(response: HttpResponse): boolean {
  const { writableNeedDrain } = 'stream' in response ? (response.stream ?? {}) : response;
  // Without a listener, the handler has written too much and may go on regardless.
  return writableNeedDrain === true && !response.writableEnded && response.listenerCount('drain') > 0;
}
