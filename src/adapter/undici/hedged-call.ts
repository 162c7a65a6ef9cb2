import type { IncomingHttpHeaders } from 'node:http';
import { type Dispatcher, errors, type Pool } from 'undici';
import type { Lease, Priority } from '../../index.js';
import { type ConcurrentAttempt, ConcurrentAttempts, type ResponseHead } from '../http/concurrent-attempts.js';
import { deadlineError, type RequestDeadline } from '../http/request-deadline.js';
import type { FailedAttempt, Timed } from '../kit/index.js';
import { type CallOwner, UndiciCall } from './call.js';
import { Caller } from './caller.js';
import {
  type AttemptHandler,
  type CallersRequest,
  type HandlerV2,
  markCallersError,
  withRawHeaders,
} from './handler.js';
import type { PodClient } from './pod-pool.js';

type Controller = Dispatcher.DispatchController;

/**
 * A request that may get several responses, of which the caller gets one. Each attempt is a call of its own; they share the list of
 * pods that were tried. Once chosen, a response streams.
 */
export class HedgedCall implements CallersRequest, Timed {
  readonly owner: CallOwner;
  readonly options: Dispatcher.DispatchOptions;
  readonly key: string | undefined;
  readonly caller: Caller;
  readonly attempts: ConcurrentAttempts<Pool, HedgedAttempt>;
  /** Whether the caller has been told how its request ended. */
  done = false;
  abortReason: Error | undefined;
  /** The request's deadline and priority, both set before the call begins. */
  deadline: RequestDeadline | undefined;
  priority: Priority | undefined;

  constructor(owner: CallOwner, options: Dispatcher.DispatchOptions, key: string | undefined, handler: HandlerV2) {
    this.owner = owner;
    this.options = options;
    this.key = key;
    this.caller = new Caller(handler, this);
    this.attempts = new ConcurrentAttempts(owner, {
      method: options.method,
      facts: () => ({ protocol: 'http', method: options.method, service: owner.origin }),
      key,
      attempt: (isHedge) => new HedgedAttempt(this, isHedge),
      beaten: () => new errors.RequestAbortedError('another pod answered first'),
    });
  }

  /** Starts the call. Returns false when the call has to wait for an endpoint. */
  begin(): boolean {
    try {
      this.caller.announce();
    } catch (error) {
      this.#finish(error as Error);
    }
    return this.done || this.attempts.begin();
  }

  /** Gives the call up. Does nothing after the first time, or after the end of the call. */
  abort(reason?: Error): void {
    if (this.done || this.abortReason !== undefined) return;
    const abortReason = reason ?? new errors.RequestAbortedError();
    this.abortReason = abortReason;
    // The caller may have done so from within `onRequestStart`, before there was any attempt.
    if (!this.attempts.abort(abortReason)) this.#finish(abortReason);
  }

  /** Whether the request's deadline has passed. */
  timedOut(): void {
    const { owner, options, attempts } = this;
    const { method } = options;
    const { limitMs } = this.deadline as RequestDeadline;
    const { running, tried } = attempts;
    this.abort(deadlineError({ origin: owner.origin, method, limitMs, running, tried }));
  }

  // The methods that follow are called by the attempts of this call.

  takes(attempt: HedgedAttempt, answer: ResponseHead): boolean {
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

/**
 * One of the concurrent calls of a request. Like any call it moves to another pod if it got no response. Its response goes to the
 * caller, or is discarded.
 */
class HedgedAttempt implements ConcurrentAttempt<Pool>, HandlerV2, AttemptHandler {
  readonly isHedge: boolean;
  /** The controller of the running attempt. */
  controller: Controller | undefined;
  readonly #of: HedgedCall;
  readonly #call: UndiciCall;

  constructor(of: HedgedCall, isHedge: boolean) {
    this.#of = of;
    this.isHedge = isHedge;
    this.#call = new UndiciCall(of.owner, of.options, of.key, { tally: of.attempts, isHedge });
    this.#call.priority = of.priority;
    this.#call.deadline = of.deadline;
    this.#call.handler = this;
  }

  /** Begins the attempt, on `lease` if there is one. Returns false when it has to wait for an endpoint. */
  start(lease?: Lease<Pool>): boolean {
    return this.#call.start(lease);
  }

  giveUp(failed: FailedAttempt): Lease<Pool> | undefined {
    return this.#call.giveUp(failed);
  }

  abort(reason: Error): void {
    this.#call.abort(reason);
  }

  get lease(): Lease<Pool> | undefined {
    return this.#call.lease;
  }

  get stage(): UndiciCall['stage'] {
    return this.#call.stage;
  }

  get mayRepeat(): boolean {
    return this.#of.attempts.isAlone(this);
  }

  fail(error: Error): void {
    this.#of.failed(this, error);
  }

  interrupt(reason: Error): void {
    this.controller?.abort(reason);
  }

  onRequestStart(controller: Controller): void {
    const call = this.#call;
    if (call.done) {
      controller.abort(call.abortReason ?? new errors.RequestAbortedError());
      return;
    }
    call.began();
    this.controller = controller;
  }

  onResponseStarted(): void {
    this.#call.responded();
  }

  onResponseStart(controller: Controller, status: number, headers: IncomingHttpHeaders, statusText?: string): void {
    const call = this.#call;
    call.responded(status);
    withRawHeaders(controller, headers);
    const { caller } = this.#of;
    if (status >= 200) {
      const header = (name: string): unknown => headers[name];
      const verdict = call.verdictOf(status, header);
      if (!this.#of.takes(this, { status, header, verdict })) {
        call.discard(Number(headers['content-length']));
        return;
      }
      caller.handler.onResponseStarted?.();
    }
    try {
      caller.handler.onResponseStart?.(caller, status, headers, statusText);
    } catch (error) {
      markCallersError(error);
      throw error;
    }
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    const call = this.#call;
    if (call.isGivenUp) {
      call.discards(chunk.length);
      return;
    }
    const { caller } = this.#of;
    try {
      caller.handler.onResponseData?.(caller, chunk);
    } catch (error) {
      markCallersError(error);
      throw error;
    }
  }

  onResponseEnd(_controller: Controller, trailers: IncomingHttpHeaders): void {
    const call = this.#call;
    call.completed();
    if (call.isGivenUp) return;
    this.#of.ended();
    const { caller } = this.#of;
    caller.handler.onResponseEnd?.(caller, trailers);
  }

  onResponseError(_controller: Controller, error: Error): void {
    const call = this.#call;
    // The rest of a response that was given up says nothing more about the pod than its headers did.
    if (call.isGivenUp) call.completed();
    else call.attemptFailed(error);
  }

  onBodySent(chunk: unknown): void {
    this.#of.caller.handler.onBodySent?.(chunk);
  }

  onRequestSent(): void {
    this.#of.caller.handler.onRequestSent?.();
  }

  onClient(client: PodClient): void {
    this.#call.client = client;
  }
}
