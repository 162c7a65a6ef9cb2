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
 * A request that may get several responses, of which the caller gets one. Each attempt is an `UndiciCall`; all share the list of pods that
 * were tried. Once a response is chosen, its body is streamed to the caller.
 */
export class HedgedCall implements CallersRequest, Timed {
  readonly owner: CallOwner;
  readonly options: Dispatcher.DispatchOptions;
  readonly key: string | undefined;
  readonly caller: Caller;
  readonly attempts: ConcurrentAttempts<Pool, HedgedAttempt>;
  /** Whether the caller has been notified of the request's end. */
  done = false;
  abortReason: Error | undefined;
  /** The request's deadline and priority; both are set before the call begins. */
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

  /** Starts the request. Returns false when it has to wait for an endpoint. */
  begin(): boolean {
    try {
      this.caller.announce();
    } catch (error) {
      this.#finish(error as Error);
    }
    return this.done || this.attempts.begin();
  }

  /** Gives the request up. Does nothing the second time, or after the request has ended. */
  abort(reason?: Error): void {
    if (this.done || this.abortReason !== undefined) return;
    const abortReason = reason ?? new errors.RequestAbortedError();
    this.abortReason = abortReason;
    // Without an attempt to abort, the request ends here: the caller may abort from within `onRequestStart`.
    if (!this.attempts.abort(abortReason)) this.#finish(abortReason);
  }

  /** The request's deadline has passed. */
  timedOut(): void {
    const { owner, options, attempts } = this;
    const { method } = options;
    const { limitMs } = this.deadline as RequestDeadline;
    const { running, tried } = attempts;
    this.abort(deadlineError({ origin: owner.origin, method, limitMs, running, tried }));
  }

  // The attempts of this request call the methods that follow.

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
    // The caller's handler threw this error when it was notified of the response's end.
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
 * One of the concurrent attempts of a request. An attempt without a response may move to another pod. Its response goes to the caller, or
 * is discarded.
 */
class HedgedAttempt implements ConcurrentAttempt<Pool>, HandlerV2, AttemptHandler {
  readonly isHedge: boolean;
  /** The controller of the undici request that currently carries this attempt. */
  controller: Controller | undefined;
  readonly #hedgedCall: HedgedCall;
  readonly #call: UndiciCall;

  constructor(of: HedgedCall, isHedge: boolean) {
    this.#hedgedCall = of;
    this.isHedge = isHedge;
    this.#call = new UndiciCall(of.owner, of.options, of.key, { tally: of.attempts, isHedge });
    this.#call.priority = of.priority;
    this.#call.deadline = of.deadline;
    this.#call.handler = this;
  }

  /** Starts the attempt, on `lease` if one is passed. Returns false when the attempt has to wait for an endpoint. */
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
    return this.#hedgedCall.attempts.isAlone(this);
  }

  fail(error: Error): void {
    this.#hedgedCall.failed(this, error);
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
    const { caller } = this.#hedgedCall;
    if (status >= 200) {
      const header = (name: string): unknown => headers[name];
      const verdict = call.verdictOf(status, header);
      if (!this.#hedgedCall.takes(this, { status, header, verdict })) {
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
    if (call.isDiscarding) {
      call.discards(chunk.length);
      return;
    }
    const { caller } = this.#hedgedCall;
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
    if (call.isDiscarding) return;
    this.#hedgedCall.ended();
    const { caller } = this.#hedgedCall;
    caller.handler.onResponseEnd?.(caller, trailers);
  }

  onResponseError(_controller: Controller, error: Error): void {
    const call = this.#call;
    // The end of a discarded response says nothing more about the pod than its headers did.
    if (call.isDiscarding) call.completed();
    else call.attemptFailed(error);
  }

  onBodySent(chunk: unknown): void {
    this.#hedgedCall.caller.handler.onBodySent?.(chunk);
  }

  onRequestSent(): void {
    this.#hedgedCall.caller.handler.onRequestSent?.();
  }

  onClient(client: PodClient): void {
    this.#call.client = client;
  }
}
