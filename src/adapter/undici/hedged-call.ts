import { type Dispatcher, errors, type Pool } from 'undici';
import type { Priority } from '../../index.js';
import { type Answer, ConcurrentAttempts } from '../http/concurrent-attempts.js';
import { deadlineError } from '../http/deadline-error.js';
import type { Hedging } from '../http/hedging.js';
import type { RequestDeadline } from '../http/request-deadline.js';
import type { SharedTimers, Timed } from '../kit/index.js';
import { type CallOwner, factsOf } from './call-owner.js';
import { Caller, type CallersRequest } from './caller.js';
import type { HandlerV2 } from './handler.js';
import { HedgedAttempt, type HedgedAttemptOwner } from './hedged-attempt.js';

/** What the hedged calls of one dispatcher share. */
export interface HedgedCallOwner extends CallOwner {
  readonly timers: SharedTimers;
  readonly hedging: Hedging | undefined;
}

/** A request, and the handler of its caller. */
export interface Asked {
  readonly options: Dispatcher.DispatchOptions;
  readonly key: string | undefined;
  readonly handler: HandlerV2;
}

/**
 * A request that may get several responses, of which the caller gets one. Each attempt is a call of its own; they share the list of
 * pods that were tried. Once chosen, a response streams.
 */
export class HedgedCall implements HedgedAttemptOwner, CallersRequest, Timed {
  readonly owner: HedgedCallOwner;
  readonly options: Dispatcher.DispatchOptions;
  readonly key: string | undefined;
  readonly caller: Caller;
  readonly attempts: ConcurrentAttempts<Pool, HedgedAttempt>;
  /** The caller has been told how it ended. */
  done = false;
  abortReason: Error | undefined;
  /** Both set before it begins. */
  deadline: RequestDeadline | undefined;
  priority: Priority | undefined;

  constructor(owner: HedgedCallOwner, { options, key, handler }: Asked) {
    this.owner = owner;
    this.options = options;
    this.key = key;
    this.caller = new Caller(handler, this);
    this.attempts = new ConcurrentAttempts(owner, {
      method: options.method,
      facts: () => factsOf(owner, options),
      key,
      attempt: (isHedge) => new HedgedAttempt(this, isHedge),
      beaten: () => new errors.RequestAbortedError('another pod answered first'),
    });
  }

  /** Starts the call. False when it has to wait for an endpoint. */
  begin(): boolean {
    try {
      this.caller.announce();
    } catch (error) {
      this.#finish(error as Error);
    }
    return this.done || this.attempts.begin();
  }

  /** Gives up. Calls after the first, or after the end, do nothing. */
  abort(reason?: Error): void {
    if (this.done || this.abortReason !== undefined) return;
    const given = reason ?? new errors.RequestAbortedError();
    this.abortReason = given;
    // The caller may have done so from within `onRequestStart`, before there was any attempt.
    if (!this.attempts.abort(given)) this.#finish(given);
  }

  /** Its deadline has passed. */
  timedOut(): void {
    const { owner, options, attempts } = this;
    const { method } = options;
    const { limitMs } = this.deadline as RequestDeadline;
    const { running, tried } = attempts;
    this.abort(deadlineError({ origin: owner.origin, method, limitMs, running, tried }));
  }

  // What its attempts ask for and report.

  get timers(): SharedTimers {
    return this.owner.timers;
  }

  takes(attempt: HedgedAttempt, answer: Answer): boolean {
    if (this.done || !this.attempts.takes(attempt, answer)) return false;
    this.caller.answeredBy(attempt.controller);
    return true;
  }

  ended(): void {
    this.done = true;
    this.attempts.ended();
    this.deadline?.cancel();
  }

  failed(attempt: HedgedAttempt, error: Error): void {
    if (!this.attempts.failed(attempt)) return;
    if (!this.done) this.#finish(error);
    // The caller's handler threw this when it was told of the end.
    else if (this.attempts.isDecided) this.#deliver(error);
  }

  #finish(error: Error): void {
    if (this.done) return;
    this.done = true;
    this.deadline?.cancel();
    this.attempts.stop();
    this.attempts.ended(error);
    this.#deliver(error);
  }

  #deliver(error: Error): void {
    try {
      this.caller.fail(error);
    } catch (thrown) {
      this.owner.handlerThrew(thrown);
    }
  }
}
