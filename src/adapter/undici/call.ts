import type { Duplex } from 'node:stream';
import type { Dispatcher, errors, Pool } from 'undici';
import { type Lease, type Outcome, outcomes } from '../../index.js';
import { deadlineError, isDeadlineError } from '../http/deadline-error.js';
import { isPodLeftError } from '../http/pod-left.js';
import { explainSilentEnd } from '../http/silent-end.js';
import {
  type AttemptedCall,
  Attempts,
  type AttemptTally,
  outcomeAtDeadline,
  type SharedTimer,
  type Timed,
} from '../kit/index.js';
import type { CallOwner } from './call-owner.js';
import { isRefusedError } from './http2.js';
import { isGivenUpError, outcomeOfError, podLeftError } from './outcome.js';
import { dispatchTo, needingNewConnection, PodRequest } from './pod-pool.js';
import { bodyOf, hasLastingBody, isBodyError, isRepeatable } from './request-body.js';
import { refusalOf } from './request-options.js';
import { unsentTeller } from './unsent-request.js';

/**
 * One request of a caller, over all its attempts: the one object we add to what undici allocates anyway. It is the
 * handler of each attempt; the form undici and the caller speak is the subclass's matter.
 *
 * The caller is told of its start at once, so that it can abort at every stage: while we wait for an endpoint, while a
 * socket opens, between two attempts. He then hears of exactly one end.
 */
export abstract class Call extends PodRequest implements AttemptedCall<Pool>, Timed {
  readonly #owner: CallOwner;
  readonly #options: Dispatcher.DispatchOptions;
  protected readonly attempts: Attempts<Pool>;
  /** When the whole call has to be over, if it has to. */
  #deadline: SharedTimer | undefined;
  /** Publishes the failure on undici's diagnostics channels while undici has not seen the request. */
  #tellUnsent: ((error: Error) => void) | undefined;
  /** Hears the body fail while the call waits. */
  #bodyFailed: ((error: Error) => void) | undefined;
  /** undici began to write the attempt to a socket: from then on it may have reached the pod. */
  #sent = false;
  /** An attempt was lost with its connection, which the pod may have ended before. */
  #wasReset = false;
  /** A part of the answer, a 1xx included, has come. */
  #answered = false;
  #verdict: Outcome = outcomes.success;
  /** What the caller's own code threw while it was told of the answer; undici then aborts the attempt with it. */
  #thrown: unknown;

  constructor(
    owner: CallOwner,
    options: Dispatcher.DispatchOptions,
    key: string | undefined,
    hedging?: { readonly tally: AttemptTally<Pool>; readonly isHedge: boolean },
  ) {
    super();
    this.#owner = owner;
    this.#options = options;
    this.attempts = new Attempts(owner.balancer, this, key, hedging);
  }

  /** Tells the caller that its request begins; the caller may abort from within. */
  protected abstract announce(): void;
  /** Tells the caller that it failed. */
  protected abstract deliver(error: Error): void;

  /** The call has until `deadline`; to be said before it begins. */
  limit(deadline: SharedTimer): void {
    this.#deadline = deadline;
  }

  /** Starts the call. False when it has to wait for an endpoint. */
  begin(): boolean {
    try {
      this.announce();
    } catch (error) {
      this.fail(error);
    }
    return this.done || this.start();
  }

  /** Makes the first attempt, on `lease` if there is one. False when it has to wait for an endpoint. */
  start(lease?: Lease<Pool>): boolean {
    if (this.attempts.begin(lease)) return true;
    // It need not wait for what undici would refuse there.
    const options = this.#options;
    const refusal = refusalOf(options);
    if (refusal !== undefined) {
      this.fail(refusal);
      return true;
    }
    this.#tellUnsent = unsentTeller(this.#owner.origin, options);
    this.attempts.wait();
    return false;
  }

  /** Where the attempt under way went; also of one whose caller gave up while undici had it queued. */
  get lease(): Lease<Pool> | undefined {
    return this.attempts.lease;
  }

  /** How far the attempt under way has come, for people. */
  get stage(): 'waiting' | 'connecting' | 'sent' | 'answered' {
    if (this.lease === undefined) return 'waiting';
    if (!this.#sent) return 'connecting';
    return this.#answered ? 'answered' : 'sent';
  }

  protected override giveUp(reason: Error): void {
    if (this.#sent) this.interrupt(reason);
    else this.fail(reason);
  }

  /** Its deadline. */
  timedOut(): void {
    const { origin } = this.#owner;
    const { method } = this.#options;
    this.abort(
      deadlineError({ origin, method, limitMs: this.limitMs as number, running: [this], tried: this.attempts.tried }),
    );
  }

  /**
   * undici begins to write the attempt, perhaps long after it was picked: on a connection that opened only now. What
   * this throws undici fails the attempt with; it has then written nothing, and leaves the body and the socket alone.
   */
  protected began(): void {
    const { lease } = this;
    // Its address may be another's in a moment.
    if (lease?.subchannel.state === 'draining' && !this.#owner.isClosing) throw podLeftError(lease.endpoint);
    this.#sent = true;
  }

  /** Tells undici to abort the attempt it has begun to send; undici then reports its failure. */
  protected interrupt(reason: Error): void {
    this.answering?.abort(reason);
  }

  /** `began` in the newer form, unless the caller has given up meanwhile. */
  protected begunBy(controller: Dispatcher.DispatchController): void {
    if (this.done) {
      controller.abort(this.abortReason as Error);
      return;
    }
    this.began();
    this.answeredBy(controller);
  }

  /** The first byte of an answer came. */
  protected responded(): void {
    if (this.#answered) return;
    this.#answered = true;
    this.lease?.progressed();
  }

  /** The head of the final answer came, and says something other than a plain success. */
  protected judged(verdict: Outcome): void {
    this.#verdict = verdict;
  }

  /** The caller's code threw this when it was told of the answer. */
  protected threw(error: unknown): void {
    this.#thrown = error;
  }

  /** The answer is complete; or the rest is not wanted, and the call goes on at another pod. */
  protected completed(retrying = false): void {
    this.#over();
    this.client?.answered();
    if (retrying) this.attempts.end(this.#verdict, { retrying });
    else this.attempts.end(this.#verdict);
  }

  /** The connection is the caller's own from now on; it stays a call on the pod until it is closed. */
  protected upgraded(status: number, socket: Duplex): void {
    this.#over();
    const { attempts } = this;
    const lease = attempts.conclude();
    if (lease === undefined) return;
    lease.progressed();
    const outcome = status >= 500 ? outcomes.status : outcomes.success;
    const options = this.#options;
    const released = options.upgrade === 'websocket' ? this.#owner.upgraded(lease, socket, options) : undefined;
    socket.once('close', () => {
      released?.();
      lease.end(outcome);
      attempts.report(lease);
    });
  }

  /** The caller hears nothing more of us. */
  #over(): void {
    this.#sent = false;
    this.done = true;
    this.#deadline?.cancel();
  }

  /** The attempt failed; another may follow at another pod. */
  protected attemptFailed(error: Error): void {
    const { lease } = this;
    if (lease === undefined) {
      // What the caller's own code threw when it was told of the end.
      this.#deliver(error);
      return;
    }
    const sent = this.#sent;
    this.#sent = false;
    const isOurs = this.#isOurs(error);
    const outcome = isOurs ? this.#outcomeOfAbort(lease) : outcomeOfError(error, sent);
    if (outcome.cause === 'reset') {
      this.#wasReset = true;
      this.#owner.lost(lease.handle, error);
      const { socket } = error as errors.SocketError;
      if (this.#owner.origin.startsWith('http:')) explainSilentEnd(error, lease.endpoint, socket?.bytesRead);
    }
    this.attempts.fail({
      outcome,
      error,
      repeatable: this.mayRepeat(sent),
      idempotent: isRepeatable(this.#options, lease.retries),
      answered: this.#answered,
      untried: isPodLeftError(error) || (!sent && isGivenUpError(error)),
      refused: isRefusedError(error),
      method: this.#options.method,
    });
  }

  /** Whether there is still something to send. */
  protected mayRepeat(sent: boolean): boolean {
    const options = this.#options;
    if (this.abortReason !== undefined || bodyOf(options)?.destroyed === true) return false;
    // The pod did nothing of it, but it was sent.
    return !sent || hasLastingBody(options);
  }

  send(lease: Lease<Pool>): void {
    this.#tellUnsent = undefined;
    const { retries } = lease;
    // A second attempt takes fewer chances, and the last one none.
    const isRepeated = this.attempts.number === 1 && retries.repeatsLost && isRepeatable(this.#options, retries);
    const isLast = this.#wasReset && this.attempts.counted >= retries.maxAttempts;
    const options = isLast ? needingNewConnection(this.#options) : this.#options;
    dispatchTo(lease.handle, options, this as Dispatcher.DispatchHandler, isRepeated);
  }

  waitBegan(): void {
    this.#owner.waits();
    // undici watches the body only while it has the request, so its errors would go unheard until then.
    this.#bodyFailed = (error) => this.abort(error);
    bodyOf(this.#options)?.on('error', this.#bodyFailed);
  }

  waitEnded(): void {
    if (this.#bodyFailed !== undefined) bodyOf(this.#options)?.off('error', this.#bodyFailed);
    this.#owner.served();
  }

  fail(error: unknown): void {
    if (this.done) return;
    this.done = true;
    this.#deadline?.cancel();
    this.attempts.stop();
    const told = this.#isOurs(error as Error) ? (error as Error) : (this.#owner.destroyedBy ?? (error as Error));
    this.#tellUnsent?.(told);
    this.#deliver(told);
  }

  /** How long the whole call may take, in ms. */
  protected get limitMs(): number | undefined {
    return this.#deadline?.delayMs;
  }

  /** Whether the caller, or its deadline, made the attempt fail with `error`. */
  #isOurs(error: Error): boolean {
    if (this.abortReason !== undefined || this.#thrown === error || isBodyError(error)) return true;
    return bodyOf(this.#options)?.errored === error;
  }

  /** The outcome when the caller gives up, or its deadline passes. */
  #outcomeOfAbort({ startedMs }: Lease<Pool>): Outcome {
    const { limitMs } = this;
    if (limitMs === undefined || !isDeadlineError(this.abortReason)) return outcomes.cancelled;
    return outcomeAtDeadline(this.#owner.clock.now() - startedMs, limitMs, this.#answered);
  }

  #deliver(error: Error): void {
    try {
      this.deliver(error);
    } catch (thrown) {
      this.#owner.handlerThrew(thrown);
    }
  }
}
