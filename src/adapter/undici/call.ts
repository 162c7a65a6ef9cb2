import { type Dispatcher, errors, type Pool } from 'undici';
import { type Lease, type Outcome, outcomes } from '../../index.js';
import { deadlineError, isDeadlineError } from '../http/deadline-error.js';
import { isPodLeftError } from '../http/pod-left.js';
import { explainSilentEnd } from '../http/silent-end.js';
import { notify, observes, outcomeAtDeadline, type SharedTimer, type Timed, TriedEndpoints } from '../kit/index.js';
import type { CallOwner } from './call-owner.js';
import { refusalOf } from './check-dispatch.js';
import { bodyOf, hasLastingBody, isRepeatable } from './dispatch-options.js';
import { waitForEndpoint } from './endpoint-wait.js';
import { outcomeOfError } from './outcome.js';
import { PodRequest } from './pod-client.js';
import { isGivenUpError, MAX_MOVES, podLeftError } from './pod-left.js';
import { dispatchTo } from './pod-pool.js';
import { isRefusedError } from './refused-stream.js';
import { unsentTeller } from './unsent-request.js';
import { isBodyError } from './watched-body.js';

/**
 * One request of a caller, over all its attempts: the one object we add to what undici allocates anyway. It is the
 * handler of each attempt; the form undici and the caller speak is the subclass's matter.
 *
 * The caller hears of its start at once, so that he can abort at every stage: while we wait for an endpoint, while a
 * socket opens, between two attempts. He then hears of exactly one end.
 */
export abstract class Call extends PodRequest implements Timed {
  readonly #owner: CallOwner;
  readonly #options: Dispatcher.DispatchOptions;
  readonly #key: string | undefined;
  /** The attempt under way; also one whose caller gave up while undici had it queued, until undici lets go of it. */
  #lease: Lease<Pool> | undefined;
  #attempt = 0;
  /** Attempts that went elsewhere before anything was sent, because their pod had left or was given up. */
  #moves = 0;
  /** Where this call was tried; undefined before the first retry. */
  protected tried: TriedEndpoints<Pool> | undefined;
  /** When the whole call has to be over, if it has to. */
  #deadline: SharedTimer | undefined;
  /** Ends the waiting for an endpoint. */
  #waiting: AbortController | undefined;
  /** Tells those who trace requests that it fails, while undici does not know of it. */
  #tellUnsent: ((error: Error) => void) | undefined;
  /** undici began to write the attempt to a socket: from then on it may have reached the pod. */
  #sent = false;
  /** A part of the answer, a 1xx included, has come. */
  #answered = false;
  #verdict: Outcome = outcomes.success;
  /** What the caller's own code threw while it was told of the answer; undici then aborts the attempt with it. */
  #thrown: unknown;
  /** The caller heard of the end. */
  protected done = false;
  /** The caller's reason for giving up. */
  protected abortReason: Error | undefined;

  constructor(owner: CallOwner, options: Dispatcher.DispatchOptions, key: string | undefined) {
    super();
    this.#owner = owner;
    this.#options = options;
    this.#key = key;
  }

  /** Tells the caller that his request begins; he may abort from within. */
  protected abstract announce(): void;
  /** Tells the caller that it failed. */
  protected abstract deliver(error: Error): void;
  /** Tells undici to abort the attempt it has begun to send; undici then reports its failure. */
  protected abstract interrupt(reason: Error): void;

  /** The call has until `deadline`; to be said before it begins. */
  limit(deadline: SharedTimer): void {
    this.#deadline = deadline;
  }

  /** Starts the call. False when it has to wait for an endpoint. */
  begin(): boolean {
    try {
      this.announce();
    } catch (error) {
      this.#finish(error as Error);
    }
    if (this.done) return true;
    this.#owner.balancer.retries.started();
    return this.start();
  }

  /** Makes the first attempt. False when it has to wait for an endpoint. */
  protected start(): boolean {
    const lease = this.#owner.balancer.pick(this.#key === undefined ? undefined : { key: this.#key });
    if (lease === undefined) return this.#waitFirst();
    this.send(lease);
    return true;
  }

  /** Where the attempt under way went. */
  get lease(): Lease<Pool> | undefined {
    return this.#lease;
  }

  /** How far the attempt under way has come, for people. */
  get stage(): 'waiting' | 'connecting' | 'sent' | 'answered' {
    if (this.#lease === undefined) return 'waiting';
    if (!this.#sent) return 'connecting';
    return this.#answered ? 'answered' : 'sent';
  }

  /** The caller gives up. */
  abort(reason?: Error): void {
    if (this.done || this.abortReason !== undefined) return;
    this.abortReason = reason ?? new errors.RequestAbortedError();
    if (this.#sent) this.interrupt(this.abortReason);
    else this.#finish(this.abortReason);
  }

  /** Its deadline. */
  timedOut(): void {
    const { origin } = this.#owner;
    const { method } = this.#options;
    this.abort(deadlineError({ origin, method, limitMs: this.limitMs as number, running: [this], tried: this.tried }));
  }

  /**
   * undici begins to write the attempt, perhaps long after it was picked: on a connection that opened only now. What
   * this throws undici fails the attempt with; it has then written nothing, and leaves the body and the socket alone.
   */
  protected began(): void {
    const lease = this.#lease;
    // Its address may be another's in a moment.
    if (lease?.subchannel.state === 'draining' && !this.#owner.isClosing) throw podLeftError(lease.endpoint);
    this.#sent = true;
  }

  /** The first byte of an answer came. */
  protected responded(): void {
    if (this.#answered) return;
    this.#answered = true;
    this.#lease?.progressed();
  }

  /** The head of the final answer came, and says something other than a plain success. */
  protected judged(verdict: Outcome): void {
    this.#verdict = verdict;
  }

  /** The caller's code threw this when it was told of the answer. */
  protected threw(error: unknown): void {
    this.#thrown = error;
  }

  /** The answer is complete; or as much of it as anybody wants, and the call goes on elsewhere. */
  protected completed(retrying = false): void {
    const lease = this.#conclude();
    if (lease === undefined) return;
    this.client?.answered();
    lease.end(this.#verdict);
    this.#report(lease, this.#verdict, retrying, undefined);
  }

  /** The connection is the caller's own from now on; it stays a call on the pod until it is closed. */
  protected upgraded(status: number, socket: { once(event: 'close', listener: () => void): unknown }): void {
    const lease = this.#conclude();
    if (lease === undefined) return;
    lease.progressed();
    const outcome = status >= 500 ? outcomes.status : outcomes.success;
    socket.once('close', () => {
      lease.end(outcome);
      this.#report(lease, outcome, false, undefined);
    });
  }

  /** The caller hears nothing more of us. The lease of the attempt under way is to be ended. */
  #conclude(): Lease<Pool> | undefined {
    const lease = this.#lease;
    this.#lease = undefined;
    this.#sent = false;
    this.done = true;
    this.#deadline?.cancel();
    return lease;
  }

  /** The attempt failed; another may follow elsewhere. */
  protected failed(error: Error): void {
    const lease = this.#lease;
    if (lease === undefined) {
      // What the caller's own code threw when it was told of the end.
      this.deliver(error);
      return;
    }
    this.#lease = undefined;
    const isOurs = this.#isOurs(error);
    const outcome = isOurs ? this.#outcomeOfAbort(lease) : outcomeOfError(error, this.#sent);
    lease.end(outcome);
    if (outcome.cause === 'reset') {
      this.#owner.lost(lease.handle, error);
      const { socket } = error as errors.SocketError;
      if (this.#owner.origin.startsWith('http:')) explainSilentEnd(error, lease.endpoint, socket?.bytesRead);
    }
    const retrying = !this.done && this.mayRepeat(outcome, error);
    this.#sent = false;
    this.#report(lease, outcome, retrying, error);
    if (retrying) this.#repeat(lease, outcome, error);
    else this.#finish((isOurs ? undefined : this.#owner.destroyedBy) ?? error);
  }

  protected send(lease: Lease<Pool>): void {
    this.#lease = lease;
    this.#tellUnsent = undefined;
    this.#attempt = this.nextAttempt(this.#attempt);
    const { retries } = this.#owner.balancer;
    // A second attempt takes no more chances.
    const isRepeated = this.#attempt === 1 && retries.repeatsLost && isRepeatable(this.#options, retries);
    dispatchTo(lease.handle, this.#options, this as Dispatcher.DispatchHandler, isRepeated);
  }

  /** The number of the attempt that follows `attempt`, from 1. */
  protected nextAttempt(attempt: number): number {
    return attempt + 1;
  }

  /** Attempts so far as the retry rules count them: without those that were only moved. */
  protected get attemptsTried(): number {
    return this.#attempt - this.#moves;
  }

  /** The attempt goes elsewhere without being counted. False: that was done too often. */
  protected move(): boolean {
    if (this.#moves >= MAX_MOVES) return false;
    this.#moves++;
    return true;
  }

  /** Whether an attempt of this call is a hedge. */
  get isHedge(): boolean {
    return false;
  }

  /** How long the whole call may take, in ms. */
  protected get limitMs(): number | undefined {
    return this.#deadline?.delayMs;
  }

  /** Whether another attempt may follow the one that failed; if so it is paid for. */
  protected mayRepeat(outcome: Outcome, error: Error): boolean {
    if (outcome.kind === 'cancelled' || this.abortReason !== undefined) return false;
    if (bodyOf(this.#options)?.destroyed === true) return false;
    // The pod did nothing of it, but it was sent.
    if (this.#sent && !hasLastingBody(this.#options)) return false;
    // It was not tried there: nothing the retry rules would count, or the budget pay for.
    const { retries } = this.#owner.balancer;
    const untried = isPodLeftError(error) || (!this.#sent && isGivenUpError(error));
    if (untried && this.move()) {
      retries.moved();
      return true;
    }
    const { method } = this.#options;
    const idempotent = isRepeatable(this.#options, retries);
    return retries.allows({ outcome, idempotent, answered: this.#answered, tried: this.attemptsTried, method, error });
  }

  /** Whether an attempt that failed with `error` did so by the caller's doing, or at his deadline. */
  #isOurs(error: Error): boolean {
    if (this.abortReason !== undefined || this.#thrown === error || isBodyError(error)) return true;
    return bodyOf(this.#options)?.errored === error;
  }

  /** What it says of the endpoint that its caller gave up, or his deadline. */
  #outcomeOfAbort({ startedMs }: Lease<Pool>): Outcome {
    const { limitMs } = this;
    if (limitMs === undefined || !isDeadlineError(this.abortReason)) return outcomes.cancelled;
    return outcomeAtDeadline(this.#owner.clock.now() - startedMs, limitMs, this.#answered);
  }

  #repeat(failed: Lease<Pool>, outcome: Outcome, error: Error): void {
    this.tried ??= new TriedEndpoints();
    this.tried.add(failed, outcome);
    if (isRefusedError(error)) this.tried.refused(failed);
    const { avoid } = this.tried;
    const lease = this.#owner.balancer.pick({ key: this.#key, avoid });
    if (lease !== undefined && !avoid.has(lease.subchannel)) {
      this.send(lease);
      return;
    }
    lease?.end(outcomes.notStarted);
    this.#wait(error);
  }

  /** Waits for its first endpoint, unless undici would refuse it there. */
  #waitFirst(): boolean {
    const options = this.#options;
    const refusal = refusalOf(options);
    if (refusal !== undefined) {
      this.#finish(refusal);
      return true;
    }
    this.#tellUnsent = unsentTeller(this.#owner.origin, options);
    this.#wait(undefined);
    return false;
  }

  /** Waits for an endpoint; with `failure`, the error of the attempt before, for one to try again on. */
  #wait(failure: Error | undefined): void {
    const { tried } = this;
    this.#waiting = waitForEndpoint({
      owner: this.#owner,
      key: this.#key,
      tried,
      body: bodyOf(this.#options),
      isRepeat: failure !== undefined,
      bodyFailed: (error) => this.abort(error),
      got: (lease) => {
        this.#waiting = undefined;
        if (!this.done && tried?.allows(lease) !== false) {
          this.send(lease);
          return;
        }
        lease.end(outcomes.notStarted);
        if (failure !== undefined) this.#finish(failure);
      },
      failed: (error) => {
        this.#waiting = undefined;
        this.#finish(this.#owner.destroyedBy ?? failure ?? error);
      },
    });
  }

  #finish(error: Error): void {
    if (this.done) return;
    this.done = true;
    this.#deadline?.cancel();
    this.#waiting?.abort();
    this.#tellUnsent?.(error);
    this.deliver(error);
  }

  #report(lease: Lease<Pool>, outcome: Outcome, retrying: boolean, error: Error | undefined): void {
    const { observer } = this.#owner.balancer;
    if (!observes(observer, 'attemptEnded')) return;
    const { endpoint } = lease;
    const attempt = this.#attempt;
    const hedged = this.isHedge;
    notify(observer, 'attemptEnded', { endpoint, outcome, attempt, retrying, ...(hedged && { hedged }), error });
  }
}
