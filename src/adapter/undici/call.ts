import type { Duplex } from 'node:stream';
import { type Dispatcher, errors, type Pool } from 'undici';
import { type Balancer, type Clock, type Lease, type Outcome, outcomes, type Priority } from '../../index.js';
import { failedBy, outcomeOfAnswer } from '../http/answer.js';
import type { Hedging } from '../http/hedging.js';
import type { HeaderOf, PodSignals } from '../http/pod-signals.js';
import { deadlineError, type RequestDeadline } from '../http/request-deadline.js';
import {
  type AskForReports,
  type AttemptedCall,
  Attempts,
  type CallFacts,
  type CallLease,
  type Propagation,
  type Resend,
  type SharedAttempts,
  type SharedTimers,
  type Timed,
} from '../kit/index.js';
import { type Abortable, type CallersSide, callerOf } from './caller.js';
import { type AttemptHandler, type AttemptOwner, isCallersError } from './handler.js';
import type { Http2Pool } from './http2.js';
import { isRefusedError } from './internals.js';
import { isUntried, outcomeOfAbort, outcomeOfError, outcomeOfUnsent, podLeftError } from './outcome.js';
import { needingNewConnection, PodPool } from './pod-pool.js';
import { bodyOf } from './request-body.js';
import { askForReport, headerSetter, sayDeadline } from './request-headers.js';
import { canBeSent, isRepeatable, type OwnOptions } from './request-options.js';
import type { PodTransport } from './transport.js';
import { unsentTeller, validationError, watchBody } from './unsent-request.js';
import { holdUpgraded, type UpgradeOwner } from './web-socket.js';

/** What all undici requests of one dispatcher share. */
export interface CallOwner extends UpgradeOwner {
  readonly balancer: Balancer<Pool>;
  readonly clock: Clock;
  readonly timers: SharedTimers;
  readonly hedging: Hedging | undefined;
  /** The Service's origin as callers write it, for error messages. */
  readonly origin: string;
  /** Whether the dispatcher's balancer is closed: its requests then stay with the pods that were picked. */
  readonly isClosing: boolean;
  /** The error with which the dispatcher was destroyed; its running requests fail with that error. */
  readonly destroyedBy: Error | undefined;
  readonly propagation: Propagation;
  /** Which requests ask their pod for a load report. */
  readonly askForReports: AskForReports;
  readonly transport: Pick<PodTransport, 'lost' | 'unreadable'>;
  /** Called when a request starts to wait for an endpoint; `served` is called when it stops. */
  waits(): void;
  served(): void;
  /** Called with what a handler threw when it was notified of its request's failure. Never throws. */
  handlerThrew(error: unknown): void;
}

/** The concurrent attempts of a hedged request, as one of them sees it. Each is an `UndiciCall`. */
export interface HedgedRequest extends SharedAttempts<Pool> {
  readonly caller: CallersSide;
  /** Whether another attempt than this one may still get a response. */
  hasOther(call: UndiciCall): boolean;
  /** A response arrived. Returns whether this attempt may still answer the caller. */
  answered(call: UndiciCall): boolean;
  /** The caller gets the response to this attempt. */
  won(call: UndiciCall): void;
  /** The caller gets another response than that to this attempt, which is over. */
  lost(call: UndiciCall): void;
  /** The response that the caller gets is complete. */
  ended(): void;
  /** This attempt failed for good. */
  failed(call: UndiciCall, error: Error): void;
}

/**
 * One undici request through its attempts, until an attempt has a response or no further attempt is possible. It tracks how far the
 * running attempt has come (`stage`). It ends once: by `completed`, by `upgraded`, or with a failure.
 *
 *     stage        what happens             next stage
 *     waiting      send                     connecting
 *     connecting   sending                  sent
 *     sent         responded                answered
 *     answered     takes                    answered; or connecting again, for another pod that gets the request instead
 *                  completed, upgraded      over
 *     each         attemptFailed            connecting or waiting again, for another pod, or over
 *                  abort                    over at once if nothing was sent; else undici fails the attempt first
 */
export class UndiciCall implements AttemptedCall<Pool>, AttemptOwner, Abortable, Timed {
  done = false;
  abortReason: Error | undefined = undefined;
  // The deadline and the priority are set before the call begins.
  deadline: RequestDeadline | undefined = undefined;
  priority: Priority | undefined = undefined;
  readonly isHedge: boolean;
  readonly #owner: CallOwner;
  readonly #options: Dispatcher.DispatchOptions;
  readonly #attempts: Attempts<Pool>;
  readonly #caller: CallersSide;
  /** The request that this is a concurrent attempt of; undefined if the request has no concurrent attempts. */
  readonly #hedged: HedgedRequest | undefined;
  /** What undici has got for the running attempt. */
  #attempt: AttemptHandler | undefined = undefined;
  /** Publishes a failure on undici's diagnostics channels, as long as undici has not seen the request. */
  #publishFailure: ((error: Error) => void) | undefined;
  /** Stops watching the request's body for errors; set while the request waits for a pod. */
  #unwatchBody: (() => void) | undefined;
  /** Whether undici began to write the attempt to a socket, so that the attempt may have reached the pod. */
  #sent = false;
  /** Whether an attempt was lost with its connection, which the pod may have closed before it got the request. */
  #wasReset = false;
  /** Whether a part of the response has arrived; an informational response (1xx) counts. */
  #answered = false;
  #verdict: Outcome = outcomes.success;

  constructor(
    owner: CallOwner,
    options: Dispatcher.DispatchOptions,
    key: string | undefined,
    handler: Dispatcher.DispatchHandler | HedgedRequest,
    isHedge = false,
  ) {
    this.#owner = owner;
    this.#options = options;
    this.isHedge = isHedge;
    this.#hedged = 'caller' in handler ? handler : undefined;
    this.#caller = this.#hedged?.caller ?? callerOf(handler as Dispatcher.DispatchHandler, this);
    this.#attempts = new Attempts(owner.balancer, this, key, this.#hedged && { shared: this.#hedged, isHedge });
  }

  /** Starts the request. Returns false when it has to wait for an endpoint. */
  begin(): boolean {
    try {
      this.#caller.announce();
    } catch (error) {
      this.fail(error);
    }
    return this.done || this.start();
  }

  /** Makes the first attempt, on `lease` if one is passed. Returns false when the request has to wait for an endpoint. */
  start(lease?: Lease<Pool>): boolean {
    if (this.#attempts.begin(lease)) return true;
    // A request that undici would refuse is failed now, and does not wait for a pod.
    const refusal = validationError(this.#options);
    if (refusal !== undefined) {
      this.fail(refusal);
      return true;
    }
    this.#publishFailure = unsentTeller(this.#owner.origin, this.#options);
    this.#attempts.wait();
    return false;
  }

  get isRaced(): boolean {
    return this.#hedged !== undefined;
  }

  get looksAtAnswers(): boolean {
    return this.#owner.balancer.retries.looksAtAnswers;
  }

  get timers(): SharedTimers {
    return this.#owner.timers;
  }

  get deadlineMs(): number | undefined {
    return this.deadline?.remainingMs;
  }

  /** The lease of the running attempt. An attempt that undici still has in a queue keeps its lease after the caller gave up. */
  get lease(): CallLease<Pool> | undefined {
    return this.#attempts.lease;
  }

  /** How far the running attempt has come, for error messages. */
  get stage(): 'waiting' | 'connecting' | 'sent' | 'answered' {
    if (this.lease === undefined) return 'waiting';
    if (!this.#sent) return 'connecting';
    return this.#answered ? 'answered' : 'sent';
  }

  /** Gives the request up. Does nothing the second time, or after the request has ended. */
  abort(reason?: Error): void {
    if (this.done || this.abortReason !== undefined) return;
    this.abortReason = reason ?? new errors.RequestAbortedError();
    if (this.#sent) this.#attempt?.interrupt(this.abortReason);
    else this.fail(this.abortReason);
  }

  timedOut(): void {
    const { method } = this.#options;
    const { limitMs } = this.deadline as RequestDeadline;
    const { tried } = this.#attempts;
    this.abort(deadlineError({ origin: this.#owner.origin, method, limitMs, running: [this], tried }));
  }

  /**
   * Called when undici begins to write the attempt to a socket, which may be long after the pod was picked if a connection had to be
   * opened. If this method throws, undici fails the attempt without writing anything, and leaves the body and the socket alone.
   */
  sending(): void {
    const { lease } = this;
    // The pod is leaving, and another pod may get its address at any moment, so nothing is sent.
    if (lease?.subchannel.state === 'draining' && !this.#owner.isClosing) throw podLeftError(lease.endpoint);
    this.#sent = true;
  }

  responded(status?: number): void {
    if (status !== undefined) this.#attempts.answeredWith(status);
    if (this.#answered) return;
    this.#answered = true;
    this.lease?.progressed();
  }

  takes(status: number, header: HeaderOf): boolean {
    const { lease } = this;
    if (lease === undefined) return false;
    this.#hear(lease, status, header);
    const hedged = this.#hedged;
    if (hedged !== undefined && !hedged.answered(this)) {
      this.#givesWay();
      return false;
    }
    if (this.#moves(lease, status, header)) return false;
    hedged?.won(this);
    return true;
  }

  /** Notes what the head of a response says about its pod. */
  #hear(lease: CallLease<Pool>, status: number, header: HeaderOf): void {
    const signals = signalsOf(lease);
    this.#verdict = outcomeOfAnswer(status, header, signals.hear(lease, header), signals);
  }

  /** Whether the request goes to another pod, and this response is given up. If so, it has moved. */
  #moves(lease: CallLease<Pool>, status: number, header: HeaderOf): boolean {
    const { retries } = lease;
    const { method } = this.#options;
    const verdict = this.#verdict;
    const idempotent = isRepeatable(this.#options, retries);
    const failed = failedBy({ verdict, status, header, method, idempotent }, retries);
    if (failed === undefined || !this.#canBeSent(true)) return false;
    if (this.#hedged?.hasOther(this) === true) {
      // Another attempt of the request is already running and paid for.
      if (!retries.wants({ ...failed, tried: this.#attempts.counted })) return false;
      this.#givesWay();
      return true;
    }
    const other = this.#attempts.other(failed);
    if (other !== undefined) this.#attempts.move(failed, other);
    return other !== undefined;
  }

  /** The caller gets the response to another attempt than this one. */
  #givesWay(): void {
    this.done = true;
    this.#attempts.end(this.#verdict, { retrying: true });
    this.#hedged?.lost(this);
  }

  completed(): void {
    this.#over();
    this.#attempts.end(this.#verdict);
    this.#hedged?.ended();
  }

  /** The connection was upgraded. It counts as a running call on its pod until it is closed. */
  upgraded(status: number, socket: Duplex): void {
    this.#over();
    holdUpgraded(this.#owner, this.#attempts, { status, socket, options: this.#options });
  }

  #over(): void {
    this.#sent = false;
    this.done = true;
    // The deadline is that of all concurrent attempts.
    if (this.#hedged === undefined) this.deadline?.cancel();
  }

  attemptFailed(error: Error): void {
    const { lease } = this;
    if (lease === undefined) {
      // The caller's handler threw this error when it was notified of the end of its request.
      this.#deliver(error);
      return;
    }
    const sent = this.#sent;
    this.#sent = false;
    const outcome = this.#outcomeOf(lease, error, sent);
    if (outcome.cause === 'reset') {
      this.#wasReset = true;
      this.#owner.transport.lost(lease, error);
    } else if (outcome.cause === 'protocol') this.#owner.transport.unreadable(lease, error);
    this.#attempts.fail({
      outcome,
      error,
      idempotent: isRepeatable(this.#options, lease.retries),
      answered: this.#answered,
      resend: this.#resend(error, sent, outcome),
      refused: isRefusedError(error),
      method: this.#options.method,
    });
  }

  #outcomeOf(lease: CallLease<Pool>, error: Error, sent: boolean): Outcome {
    if (!this.#isOurs(error)) return outcomeOfError(error, sent);
    // The caller gave up while a socket was being opened. How long undici took to drop the request since then does not count against the
    // pod.
    if (this.done && !sent) return outcomeOfUnsent(error);
    return outcomeOfAbort(this, this.#owner.clock.now() - lease.startedMs, this.#answered);
  }

  #resend(error: Error, sent: boolean, { kind }: Outcome): Resend {
    if (!this.#mayRepeat(sent)) return 'never';
    if (isUntried(error, sent)) return 'free';
    // Hundreds of requests may wait for the sockets of a pod that ends.
    return kind === 'not-started' ? 'first-free' : 'paid';
  }

  #mayRepeat(sent: boolean): boolean {
    return this.#hedged?.hasOther(this) !== true && this.#canBeSent(sent);
  }

  #canBeSent(wasSent: boolean): boolean {
    return this.abortReason === undefined && canBeSent(this.#options, wasSent);
  }

  facts(): CallFacts {
    return { protocol: 'http', method: this.#options.method, service: this.#owner.origin };
  }

  get setHeader(): AttemptedCall<Pool>['setHeader'] {
    return headerSetter(this.#options as OwnOptions);
  }

  send(lease: CallLease<Pool>): void {
    this.#publishFailure = undefined;
    this.#sent = false;
    this.#answered = false;
    this.#verdict = outcomes.success;
    const { retries, handle } = lease;
    if (this.deadline !== undefined) sayDeadline(this.#options as OwnOptions, this.#owner.propagation, this.deadline);
    // Only a first attempt takes the shortcut, which may lose a request; the last attempt after a loss insists on a new connection.
    const isRepeated = this.#attempts.number === 1 && retries.repeatsLost && isRepeatable(this.#options, retries);
    const isLast = this.#wasReset && this.#attempts.counted >= retries.maxAttempts;
    const asksForReport = signalsOf(lease).asks(this.#owner.askForReports);
    const withReportHeader = asksForReport ? askForReport(this.#options) : this.#options;
    const options = isLast ? needingNewConnection(withReportHeader) : withReportHeader;
    const attempt = this.#caller.attempt(this);
    this.#attempt = attempt;
    const handler = attempt as Dispatcher.DispatchHandler;
    if (isRepeated && handle instanceof PodPool) handle.dispatchRepeatable(options, handler);
    else handle.dispatch(options, handler);
  }

  waitBegan(): void {
    this.#owner.waits();
    this.#unwatchBody = watchBody(this.#options, (error) => this.abort(error));
  }

  waitEnded(): void {
    this.#unwatchBody?.();
    this.#owner.served();
  }

  fail(error: unknown): void {
    if (this.done) return;
    this.#over();
    const reason = (this.#isOurs(error as Error) ? error : (this.#owner.destroyedBy ?? error)) as Error;
    this.#attempts.stop(undefined, reason);
    this.#publishFailure?.(reason);
    this.#deliver(reason);
  }

  /** Whether `error` was caused by the caller, its body, or the request's deadline. */
  #isOurs(error: Error): boolean {
    return this.abortReason !== undefined || isCallersError(error) || bodyOf(this.#options)?.errored === error;
  }

  #deliver(error: Error): void {
    if (this.#hedged !== undefined) {
      this.#hedged.failed(this, error);
      return;
    }
    try {
      this.#caller.fail(error);
    } catch (thrown) {
      this.#owner.handlerThrew(thrown);
    }
  }
}

/** All leases of a dispatcher are on evenkeel's own pools. */
function signalsOf({ handle }: CallLease<Pool>): PodSignals {
  return (handle as PodPool | Http2Pool).signals;
}
