import type { Duplex } from 'node:stream';
import { type Dispatcher, errors, type Pool } from 'undici';
import { type Lease, type Outcome, outcomes, type Priority } from '../../index.js';
import {
  announcementOf,
  DISCARDED_BYTES,
  DISCARDED_MS,
  type HeaderOf,
  outcomeOfAnswer,
  reportOf,
} from '../http/answer.js';
import type { ConcurrentAttemptsOwner } from '../http/concurrent-attempts.js';
import { deadlineError, type RequestDeadline } from '../http/request-deadline.js';
import {
  type AskForReports,
  type AttemptedCall,
  Attempts,
  type CallFacts,
  type CallLease,
  type FailedAttempt,
  type HedgePart,
  loadReportHeader,
  type Propagation,
  type ReportAsking,
  type SharedTimer,
  type Timed,
} from '../kit/index.js';
import { type AttemptHandler, type CallersRequest, isCallersError } from './handler.js';
import type { Http2Pool } from './http2.js';
import { isRefusedError } from './internals.js';
import { MOST_REFUSALS, type Offering } from './offering.js';
import { isUntried, outcomeOfAbort, outcomeOfError, outcomeOfUnsent, podLeftError } from './outcome.js';
import { needingNewConnection, type PodClient, PodPool } from './pod-pool.js';
import { bodyOf } from './request-body.js';
import { askForReport, headerSetter, sayDeadline } from './request-headers.js';
import { canBeSent, isRepeatable, type OwnOptions } from './request-options.js';
import type { PodTransport } from './transport.js';
import { refusalOf, unsentTeller, watchBody } from './unsent-request.js';
import { holdUpgraded, type UpgradeOwner } from './web-socket.js';

/** What all undici requests of one dispatcher share. */
export interface CallOwner extends UpgradeOwner, ConcurrentAttemptsOwner<Pool> {
  /** The Service's origin as callers write it, for error messages. */
  readonly origin: string;
  /** Whether the dispatcher's balancer is closed: its requests then stay with the pods that were picked. */
  readonly isClosing: boolean;
  /** The error with which the dispatcher was destroyed; its running requests fail with that error. */
  readonly destroyedBy: Error | undefined;
  readonly propagation: Propagation;
  /** Which requests ask their pod for a load report. */
  readonly askForReports: AskForReports;
  readonly offering: Offering;
  readonly transport: Pick<PodTransport, 'lost' | 'unreadable' | 'size'>;
  /** Called when a request starts to wait for an endpoint; `served` is called when it stops. */
  waits(): void;
  served(): void;
  /** Called with what a handler threw when it was notified of its request's failure. Never throws. */
  handlerThrew(error: unknown): void;
}

/**
 * One undici request through all its attempts, until an attempt has a response or no further attempt is possible. It tracks how far the
 * running attempt has come (`stage`). It ends once: by `completed`, by `upgraded`, or by calling `fail` of its handler.
 *
 *     stage        what happens             next stage
 *     waiting      send                     connecting
 *     connecting   began                    sent
 *     sent         responded                answered
 *     answered     completed, upgraded      over
 *                  judged                   answered; the response is discarded if another pod may take the request
 *                  discarded                connecting or waiting again, for another pod if there is one
 *     each         attemptFailed            connecting or waiting again, for another pod, or over
 *                  abort                    over at once if nothing was sent; else undici fails the attempt first
 */
export class UndiciCall implements AttemptedCall<Pool>, Required<CallersRequest>, Timed {
  done = false;
  abortReason: Error | undefined = undefined;
  client: PodClient | undefined = undefined;
  isDiscarding = false;
  /** How many bytes of the discarded response have arrived. */
  #discardedBytes = 0;
  #discarding: SharedTimer | undefined = undefined;
  // The deadline, the priority and the handler are set before the call begins.
  deadline: RequestDeadline | undefined = undefined;
  priority: Priority | undefined = undefined;
  handler!: AttemptHandler;
  readonly #owner: CallOwner;
  readonly #options: Dispatcher.DispatchOptions;
  readonly #attempts: Attempts<Pool>;
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
  /** Whether a hash key decides which pod gets the request. */
  readonly #isKeyed: boolean;
  #refusalsLeft = MOST_REFUSALS;

  constructor(owner: CallOwner, options: Dispatcher.DispatchOptions, key?: string, hedging?: HedgePart<Pool>) {
    this.#owner = owner;
    this.#options = options;
    this.#isKeyed = key !== undefined;
    this.#attempts = new Attempts(owner.balancer, this, key, hedging);
  }

  /** Starts the request. Returns false when it has to wait for an endpoint. */
  begin(): boolean {
    try {
      this.handler.announce?.();
    } catch (error) {
      this.fail(error);
    }
    return this.done || this.start();
  }

  /** Makes the first attempt, on `lease` if one is passed. Returns false when the request has to wait for an endpoint. */
  start(lease?: Lease<Pool>): boolean {
    if (this.#attempts.begin(lease)) return true;
    // A request that undici would refuse is failed now, and does not wait for a pod.
    const refusal = refusalOf(this.#options);
    if (refusal !== undefined) {
      this.fail(refusal);
      return true;
    }
    this.#publishFailure = unsentTeller(this.#owner.origin, this.#options);
    this.#attempts.wait();
    return false;
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
    if (this.#sent) this.handler.interrupt(this.abortReason);
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
  began(): void {
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

  /** Returns what the head of the final response means for its pod. */
  verdictOf(status: number, header: HeaderOf): Outcome {
    const { lease } = this;
    const verdict = outcomeOfAnswer(status, header, reportOf(header(loadReportHeader)), lease?.endpoint);
    this.#verdict = verdict;
    if (lease !== undefined) {
      const announced = announcementOf(header, lease.endpoint);
      if (announced !== undefined) askingOf(lease).announced(announced === 'may-refuse');
      if (verdict.report !== undefined) {
        askingOf(lease).reported();
        lease.reported(verdict.report);
        this.#owner.offering.reported(verdict.report);
      }
    }
    return verdict;
  }

  /**
   * Moves the request if its pod has not begun it, and said so: because other pods have less to do, or because it has too much to do
   * itself.
   */
  judged(status: number, header: HeaderOf): void {
    const { kind, cause } = this.verdictOf(status, header);
    if (kind !== 'not-started' || !this.#mayRepeat(true)) return;
    if (cause === undefined) {
      if (this.#refusalsLeft === 0) return;
      this.#refusalsLeft--;
      this.discard();
      return;
    }
    const outcome = this.#verdict;
    const error = new Error('the pod did not begin the request: it has too much to do');
    const { method } = this.#options;
    if (this.#attempts.giveUp({ outcome, error, idempotent: true, answered: false, method })) this.discard();
  }

  /** Gives up the response, as `Attempts.giveUp` does. Returns a lease for the concurrent attempt that takes the place of this one. */
  giveUp(failed: FailedAttempt): Lease<Pool> | undefined {
    return this.#attempts.giveUp(failed) ? this.#attempts.handOver() : undefined;
  }

  /**
   * Discards the response, which nobody gets. A short rest is read, so that the connection can be reused; a long or slow one is cut.
   * @param declaredBytes The response's Content-Length, for an attempt whose response another attempt need not wait for.
   */
  discard(declaredBytes = 0): void {
    this.isDiscarding = true;
    this.#discardedBytes = 0;
    this.#discarding = this.#owner.timers.start(DISCARDED_MS, { timedOut: () => this.#cut() });
    if (declaredBytes > DISCARDED_BYTES) this.#cut();
  }

  discards(bytes: number): void {
    this.#discardedBytes += bytes;
    if (this.#discardedBytes > DISCARDED_BYTES) this.#cut();
  }

  #cut(): void {
    this.handler.interrupt(new errors.RequestAbortedError('the response was given up for that of another pod'));
  }

  discarded(error?: Error): void {
    this.#discarding?.cancel();
    // The next attempt starts without a discarded response, because it may fail before undici reports its begin.
    this.isDiscarding = false;
    this.client?.answered();
    if (this.done || this.abortReason !== undefined) {
      this.attemptFailed(error ?? (this.abortReason as Error));
      return;
    }
    const outcome = this.#verdict;
    this.#sent = false;
    this.#answered = false;
    this.#verdict = outcomes.success;
    if (this.#attempts.isGivenUp) {
      this.#attempts.move();
      return;
    }
    // The pod did not begin the request because other pods have less to do. The request moves to one of those, or else to this pod again.
    const { method } = this.#options;
    const reason = new Error('the pod did not begin the request: others have less to do');
    this.#attempts.fail({ outcome, error: reason, untried: true, idempotent: true, answered: false, method });
  }

  /** The header that lets the pod refuse the request because other pods have less to do; undefined if this pod has to take the request. */
  #offer(lease: CallLease<Pool>): string | undefined {
    const { offering, transport } = this.#owner;
    if (!askingOf(lease).mayRefuse || this.#refusalsLeft === 0 || this.#isKeyed || transport.size < 2) return undefined;
    // Concurrent attempts make no such offer, because their responses are judged together.
    if (this.#attempts.tally !== this.#attempts || !this.#mayRepeat(true)) return undefined;
    return offering.header(this.#refusalsLeft);
  }

  /** The response is complete, or the discarded response has ended while the request continues with another attempt. */
  completed(): void {
    this.#over();
    this.client?.answered();
    this.#discarding?.cancel();
    this.#attempts.end(this.#verdict, this.isDiscarding ? { retrying: true } : undefined);
  }

  /** The connection was upgraded. It counts as a running call on its pod until it is closed. */
  upgraded(status: number, socket: Duplex): void {
    this.#over();
    holdUpgraded(this.#owner, this.#attempts, { status, socket, options: this.#options });
  }

  #over(): void {
    this.#sent = false;
    this.done = true;
    // The deadline stays while concurrent attempts of the request continue.
    if (this.#attempts.tally === this.#attempts) this.deadline?.cancel();
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
      repeatable: this.#mayRepeat(sent),
      idempotent: isRepeatable(this.#options, lease.retries),
      answered: this.#answered,
      untried: isUntried(error, sent),
      // An attempt that never started counts as cut, so that its first retry is free: hundreds of requests may wait for the sockets of a
      // pod that ends.
      cut: outcome.kind === 'not-started',
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

  #mayRepeat(sent: boolean): boolean {
    if (this.handler.mayRepeat === false || this.abortReason !== undefined) return false;
    return canBeSent(this.#options, sent);
  }

  facts(): CallFacts {
    return { protocol: 'http', method: this.#options.method, service: this.#owner.origin };
  }

  get setHeader(): AttemptedCall<Pool>['setHeader'] {
    return headerSetter(this.#options as OwnOptions);
  }

  send(lease: CallLease<Pool>): void {
    this.#publishFailure = undefined;
    this.#attempts.noted(this.#options.method);
    const { retries, handle } = lease;
    if (this.deadline !== undefined) sayDeadline(this.#options as OwnOptions, this.#owner.propagation, this.deadline);
    // Only a first attempt takes the shortcut, which may lose a request; the last attempt after a loss insists on a new connection.
    const isRepeated = this.#attempts.number === 1 && retries.repeatsLost && isRepeatable(this.#options, retries);
    const isLast = this.#wasReset && this.#attempts.counted >= retries.maxAttempts;
    const asksForReport = askingOf(lease).next(this.#owner.askForReports);
    const withReportHeader = asksForReport ? askForReport(this.#options, this.#offer(lease)) : this.#options;
    const options = isLast ? needingNewConnection(withReportHeader) : withReportHeader;
    const handler = this.handler as Dispatcher.DispatchHandler;
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
    try {
      this.handler.fail(error);
    } catch (thrown) {
      this.#owner.handlerThrew(thrown);
    }
  }
}

/** Returns what decides whether a request on this lease asks for a load report. All leases of a dispatcher are on evenkeel's own pools. */
function askingOf({ handle }: CallLease<Pool>): ReportAsking {
  return (handle as PodPool | Http2Pool).reportAsking;
}
