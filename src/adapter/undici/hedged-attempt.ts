import type { IncomingHttpHeaders } from 'node:http';
import { type Dispatcher, errors, type Pool } from 'undici';
import type { Lease, Priority } from '../../index.js';
import type { Answer, ConcurrentAttempt, ConcurrentAttempts } from '../http/concurrent-attempts.js';
import { DISCARDED_BYTES, DISCARDED_MS } from '../http/discarded.js';
import type { RequestDeadline } from '../http/request-deadline.js';
import type { SharedTimer, SharedTimers } from '../kit/index.js';
import { Call } from './call.js';
import type { CallOwner } from './call-owner.js';
import type { Caller } from './caller.js';
import { markCallersError } from './callers-errors.js';
import { type AttemptHandler, type HandlerV2, withRawHeaders } from './handler.js';
import type { PodClient, PodRequest } from './pod-pool.js';

type Controller = Dispatcher.DispatchController;

/** What the attempts of a hedged call share. */
export interface HedgedAttemptOwner {
  readonly attempts: ConcurrentAttempts<Pool, HedgedAttempt>;
  readonly owner: CallOwner;
  readonly options: Dispatcher.DispatchOptions;
  readonly key: string | undefined;
  readonly timers: SharedTimers;
  readonly caller: Caller;
  readonly deadline: RequestDeadline | undefined;
  readonly priority: Priority | undefined;
  /** The headers of a final response arrived. True if the caller gets it, false if it is discarded. */
  takes(attempt: HedgedAttempt, answer: Answer): boolean;
  /** The caller's response is complete. */
  ended(): void;
  /** The attempt failed for good. */
  failed(attempt: HedgedAttempt, error: Error): void;
}

/**
 * One of the concurrent calls of a request. Like any call it moves to another pod if it got no response. Its response goes to the
 * caller, or is discarded.
 */
export class HedgedAttempt implements ConcurrentAttempt<Pool>, HandlerV2, AttemptHandler, PodRequest {
  readonly isHedge: boolean;
  /** The controller of the running attempt. */
  controller: Controller | undefined;
  readonly #of: HedgedAttemptOwner;
  readonly #call: Call;
  /** Bytes of the response that were discarded; undefined while the caller gets it, or there is none. */
  #discarded: number | undefined;
  #discarding: SharedTimer | undefined;

  constructor(of: HedgedAttemptOwner, isHedge: boolean) {
    this.#of = of;
    this.isHedge = isHedge;
    this.#call = new Call(of.owner, of.options, of.key, { tally: of.attempts, isHedge });
    this.#call.priority = of.priority;
    this.#call.deadline = of.deadline;
    this.#call.handler = this;
  }

  /** Begins, on `lease` if there is one. False when it has to wait for an endpoint. */
  start(lease?: Lease<Pool>): boolean {
    return this.#call.start(lease);
  }

  abort(reason: Error): void {
    this.#call.abort(reason);
  }

  get lease(): Lease<Pool> | undefined {
    return this.#call.lease;
  }

  get stage(): Call['stage'] {
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
        this.#discard(Number(headers['content-length']));
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
    if (this.#discarded !== undefined) {
      this.#discarded += chunk.length;
      if (this.#discarded > DISCARDED_BYTES) this.#cut();
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
    const discarded = this.#discarded !== undefined;
    this.#discarding?.cancel();
    this.#call.completed(discarded);
    if (discarded) return;
    this.#of.ended();
    const { caller } = this.#of;
    caller.handler.onResponseEnd?.(caller, trailers);
  }

  onResponseError(_controller: Controller, error: Error): void {
    if (this.#discarded === undefined) {
      this.#call.attemptFailed(error);
      return;
    }
    // The rest of the response says nothing more about the pod than its headers did.
    this.#discarding?.cancel();
    this.#call.completed(true);
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

  /** Reads the rest if it is short, which keeps the connection; cuts it if it is long or slow. */
  #discard(length: number): void {
    this.#discarded = 0;
    if (length > DISCARDED_BYTES) {
      this.#cut();
      return;
    }
    this.#discarding = this.#of.timers.start(DISCARDED_MS, { timedOut: () => this.#cut() });
  }

  #cut(): void {
    this.controller?.abort(new errors.RequestAbortedError('the answer was given up for that of another pod'));
  }
}
