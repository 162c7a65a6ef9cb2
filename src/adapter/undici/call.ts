import type { Duplex } from 'node:stream';
import { type Dispatcher, errors, type Pool } from 'undici';
import { type Lease, type Outcome, outcomes, type Priority } from '../../index.js';
import { type HeaderOf, outcomeOfAnswer, reportOf } from '../http/answer.js';
import { deadlineError, isDeadlineError } from '../http/deadline-error.js';
import type { RequestDeadline } from '../http/request-deadline.js';
import { explainSilentEnd } from '../http/silent-end.js';
import {
  type AttemptedCall,
  Attempts,
  type AttemptTally,
  type CallFacts,
  type FailedAttempt,
  loadReportHeader,
  outcomeAtDeadline,
  type Timed,
} from '../kit/index.js';
import type { CallOwner } from './call-owner.js';
import type { AttemptHandler } from './handler.js';
import { isRefusedError } from './http2.js';
import { isUntried, outcomeOfError, podLeftError } from './outcome.js';
import { sayDeadline, setHeader } from './own-headers.js';
import { dispatchTo, needingNewConnection, type PodClient } from './pod-pool.js';
import { bodyOf, canBeSent, isBodyError, isRepeatable, watchBody } from './request-body.js';
import { type OwnOptions, refusalOf } from './request-options.js';
import { unsentTeller } from './unsent-request.js';

/**
 * A request through all its attempts, until one has a response or none can follow. It tracks how far the attempt has come: whether
 * undici has begun to send it, whether a response has begun, and what its headers say.
 *
 * It ends once: `completed`, `upgraded`, or `fail` of its handler.
 */
export class Call implements AttemptedCall<Pool>, Timed {
  /** The caller has been told how it ended. */
  done = false;
  /** Why it was given up. */
  abortReason: Error | undefined = undefined;
  /** The connection the attempt was given to. */
  client: PodClient | undefined = undefined;
  /** Set before it begins. */
  priority: Priority | undefined = undefined;
  readonly #owner: CallOwner;
  readonly #options: Dispatcher.DispatchOptions;
  readonly #attempts: Attempts<Pool>;
  #handler!: AttemptHandler;
  /** Ends the whole call, if it has a deadline. */
  #deadline: RequestDeadline | undefined;
  /** Publishes a failure on undici's diagnostics channels, while undici has not seen the request. */
  #tellUnsent: ((error: Error) => void) | undefined;
  /** While the call waits. */
  #unwatchBody: (() => void) | undefined;
  /** undici began to write the attempt to a socket: from then on it may have reached the pod. */
  #sent = false;
  /** An attempt was lost with its connection, which the pod may have closed before it was sent. */
  #wasReset = false;
  /** Part of the response has arrived; a 1xx counts. */
  #answered = false;
  #verdict: Outcome = outcomes.success;
  /** Where the request goes when the response of a pod that has not begun it is over. */
  #next: Lease<Pool> | undefined;
  /** What the caller's handler threw while it got the response; undici then aborts the attempt with it. */
  #thrown: unknown;

  constructor(
    owner: CallOwner,
    options: Dispatcher.DispatchOptions,
    key: string | undefined,
    hedging?: { readonly tally: AttemptTally<Pool>; readonly isHedge: boolean },
  ) {
    this.#owner = owner;
    this.#options = options;
    this.#attempts = new Attempts(owner.balancer, this, key, hedging);
  }

  /** Sets the handler undici gets. Must be called before `begin`. */
  handledBy(handler: AttemptHandler): void {
    this.#handler = handler;
  }

  /** Sets its deadline. Must be called before `begin`. */
  limit(deadline: RequestDeadline): void {
    this.#deadline = deadline;
  }

  /** Starts the call. False when it has to wait for an endpoint. */
  begin(): boolean {
    try {
      this.#handler.announce?.();
    } catch (error) {
      this.fail(error);
    }
    return this.done || this.start();
  }

  /** Makes the first attempt, on `lease` if there is one. False when it has to wait for an endpoint. */
  start(lease?: Lease<Pool>): boolean {
    if (this.#attempts.begin(lease)) return true;
    // A request that undici would refuse need not wait for a pod.
    const refusal = refusalOf(this.#options);
    if (refusal !== undefined) {
      this.fail(refusal);
      return true;
    }
    this.#tellUnsent = unsentTeller(this.#owner.origin, this.#options);
    this.#attempts.wait();
    return false;
  }

  /** What is left of its time, in ms. */
  get deadlineMs(): number | undefined {
    return this.#limited?.remainingMs;
  }

  /** The lease of the running attempt, also of one whose caller gave up while undici had it queued. */
  get lease(): Lease<Pool> | undefined {
    return this.#attempts.lease;
  }

  /** How far the running attempt has come, for messages. */
  get stage(): 'waiting' | 'connecting' | 'sent' | 'answered' {
    if (this.lease === undefined) return 'waiting';
    if (!this.#sent) return 'connecting';
    return this.#answered ? 'answered' : 'sent';
  }

  /** Gives up. Calls after the first, or after the end, do nothing. */
  abort(reason?: Error): void {
    if (this.done || this.abortReason !== undefined) return;
    this.abortReason = reason ?? new errors.RequestAbortedError();
    if (this.#sent) this.#handler.interrupt(this.abortReason);
    else this.fail(this.abortReason);
  }

  /** Its deadline has passed. */
  timedOut(): void {
    const { origin } = this.#owner;
    const { method } = this.#options;
    const { tried } = this.#attempts;
    this.abort(deadlineError({ origin, method, limitMs: this.#limitMs as number, running: [this], tried }));
  }

  /**
   * undici begins to write the attempt, perhaps long after the pod was picked, if its connection had to be opened. If this throws,
   * undici fails the attempt without writing anything, and leaves the body and the socket alone.
   */
  began(): void {
    const { lease } = this;
    // Another pod may get this address at any moment.
    if (lease?.subchannel.state === 'draining' && !this.#owner.isClosing) throw podLeftError(lease.endpoint);
    this.#sent = true;
  }

  /** The first byte of a response arrived, or its head with a status. */
  responded(status?: number): void {
    if (status !== undefined) this.#attempts.answeredWith(status);
    if (this.#answered) return;
    this.#answered = true;
    this.lease?.progressed();
  }

  /** What the head of the final response says about its pod. */
  verdictOf(status: number, header: HeaderOf): Outcome {
    const { lease } = this;
    const verdict = outcomeOfAnswer(status, header, reportOf(header(loadReportHeader)), lease?.endpoint);
    this.#verdict = verdict;
    if (verdict.report !== undefined) {
      this.#owner.heardReport();
      lease?.reported(verdict.report);
    }
    return verdict;
  }

  /**
   * The head of the final response may say something other than a plain success. True: the pod has not begun the request, which goes
   * to another one when this response is over. Nobody wants that.
   */
  judged(status: number, header: HeaderOf): boolean {
    const { kind } = this.verdictOf(status, header);
    if (kind !== 'not-started' || !this.#mayRepeat(true)) return false;
    this.#next = this.#attempts.another(this.#notBegun);
    return this.#next !== undefined;
  }

  /** The response nobody wants is over, or broke off. */
  moved(error?: Error): void {
    const next = this.#next as Lease<Pool>;
    this.#next = undefined;
    this.client?.answered();
    if (this.done || this.abortReason !== undefined) {
      next.end(outcomes.notStarted);
      this.attemptFailed(error ?? (this.abortReason as Error));
      return;
    }
    const failed = this.#notBegun;
    this.#sent = false;
    this.#answered = false;
    this.#verdict = outcomes.success;
    this.#attempts.moveTo(next, failed);
  }

  get #notBegun(): FailedAttempt {
    const { method } = this.#options;
    const error = new Error('the pod did not begin the request: it has too much to do');
    return { outcome: this.#verdict, error, idempotent: true, answered: false, method };
  }

  /** The caller's handler threw this while it got the response. */
  threw(error: unknown): void {
    this.#thrown = error;
  }

  /** The response is complete, or the rest of it is not wanted because the request continues on another pod. */
  completed(retrying = false): void {
    this.#over();
    this.client?.answered();
    this.#attempts.end(this.#verdict, retrying ? { retrying } : undefined);
  }

  /** The connection belongs to the caller from now on; it counts as a call on the pod until it is closed. */
  upgraded(status: number, socket: Duplex): void {
    this.#over();
    const outcome = status >= 500 ? outcomes.status : outcomes.success;
    this.#attempts.answeredWith(status);
    const lease = this.#attempts.conclude(outcome);
    if (lease === undefined) return;
    lease.progressed();
    const { note } = this.#attempts;
    // Its end may be hours away.
    if (outcome === outcomes.success) lease.works();
    const options = this.#options;
    const released = options.upgrade === 'websocket' ? this.#owner.upgraded(lease, socket, options) : undefined;
    socket.once('close', () => {
      released?.();
      lease.end(outcome, undefined, note);
      this.#attempts.report(lease);
    });
  }

  /** The caller gets no further calls. */
  #over(): void {
    this.#sent = false;
    this.done = true;
    this.#deadline?.cancel();
  }

  /** The attempt failed; another may follow on another pod. */
  attemptFailed(error: Error): void {
    const { lease } = this;
    if (lease === undefined) {
      // The caller's handler threw this when it was told of the end.
      this.#deliver(error);
      return;
    }
    const sent = this.#sent;
    this.#sent = false;
    const outcome = this.#isOurs(error) ? this.#outcomeOfAbort(lease) : outcomeOfError(error, sent);
    if (outcome.cause === 'reset') {
      this.#wasReset = true;
      this.#owner.lost(lease.handle, error);
      const { socket } = error as errors.SocketError;
      if (this.#owner.origin.startsWith('http:')) explainSilentEnd(error, lease.endpoint, socket?.bytesRead);
    }
    this.#attempts.fail({
      outcome,
      error,
      repeatable: this.#mayRepeat(sent),
      idempotent: isRepeatable(this.#options, lease.retries),
      answered: this.#answered,
      untried: isUntried(error, sent),
      refused: isRefusedError(error),
      method: this.#options.method,
    });
  }

  /** Whether the request can still be sent. */
  #mayRepeat(sent: boolean): boolean {
    if (this.#handler.mayRepeat === false || this.abortReason !== undefined) return false;
    return canBeSent(this.#options, sent);
  }

  facts(): CallFacts {
    return factsOf(this.#owner, this.#options);
  }

  /** Undefined for what is not HTTP for long. */
  get setHeader(): AttemptedCall<Pool>['setHeader'] {
    const options = this.#options;
    if (options.upgrade || options.method === 'CONNECT') return undefined;
    return (name, value) => setHeader(options as OwnOptions, name.toLowerCase(), value);
  }

  send(lease: Lease<Pool>): void {
    this.#tellUnsent = undefined;
    this.#attempts.noted(this.#options.method);
    const { retries } = lease;
    const deadline = this.#limited;
    const { deadlineHeader } = this.#owner.propagation;
    if (deadline !== undefined && deadlineHeader !== undefined) {
      sayDeadline(this.#options as OwnOptions, deadlineHeader, deadline);
    }
    // A second attempt takes fewer risks, and the last one none.
    const isRepeated = this.#attempts.number === 1 && retries.repeatsLost && isRepeatable(this.#options, retries);
    const isLast = this.#wasReset && this.#attempts.counted >= retries.maxAttempts;
    const options = isLast ? needingNewConnection(this.#options) : this.#options;
    dispatchTo(lease.handle, options, this.#handler as Dispatcher.DispatchHandler, isRepeated);
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
    this.done = true;
    this.#deadline?.cancel();
    const told = this.#isOurs(error as Error) ? error : (this.#owner.destroyedBy ?? error);
    this.#attempts.stop(undefined, told);
    this.#tellUnsent?.(told as Error);
    this.#deliver(told as Error);
  }

  /** Its deadline, or that of the request it is an attempt of. */
  get #limited(): RequestDeadline | undefined {
    return this.#handler.deadline ?? this.#deadline;
  }

  /** How long the whole call may take, in ms. */
  get #limitMs(): number | undefined {
    return this.#limited?.limitMs;
  }

  /** Whether the caller or its deadline caused `error`. */
  #isOurs(error: Error): boolean {
    if (this.abortReason !== undefined || this.#thrown === error || isBodyError(error)) return true;
    return bodyOf(this.#options)?.errored === error;
  }

  /** The outcome when the caller gives up, or its deadline passes. */
  #outcomeOfAbort({ startedMs }: Lease<Pool>): Outcome {
    const limitMs = this.#limitMs;
    if (limitMs === undefined || !isDeadlineError(this.abortReason)) return outcomes.cancelled;
    return outcomeAtDeadline(this.#owner.clock.now() - startedMs, limitMs, this.#answered);
  }

  #deliver(error: Error): void {
    try {
      this.#handler.fail(error);
    } catch (thrown) {
      this.#owner.handlerThrew(thrown);
    }
  }
}

/** What traces say of a request. */
export function factsOf({ origin: service }: CallOwner, { method }: Dispatcher.DispatchOptions): CallFacts {
  return { protocol: 'http', method, service };
}
