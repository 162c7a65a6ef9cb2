import type { Duplex } from 'node:stream';
import { type Dispatcher, errors, type Pool } from 'undici';
import { type Balancer, type Clock, type Lease, type Outcome, outcomes } from '../../index.js';
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
import { isRefusedError } from './http2.js';
import { isGivenUpError, outcomeOfError, podLeftError } from './outcome.js';
import { dispatchTo, needingNewConnection, type PodClient } from './pod-pool.js';
import { bodyOf, hasLastingBody, isBodyError, isRepeatable } from './request-body.js';
import { refusalOf } from './request-options.js';
import { unsentTeller } from './unsent-request.js';

/** What the calls of one dispatcher share. */
export interface CallOwner {
  readonly balancer: Balancer<Pool>;
  readonly clock: Clock;
  /** The Service as its callers know it, for messages. */
  readonly origin: string;
  /** The balancer is closed: a request that has a pod stays there. */
  readonly isClosing: boolean;
  /** What the dispatcher was destroyed with: its calls fail with that. */
  readonly destroyedBy: Error | undefined;
  /** A call waits for an endpoint; a call waits no more. */
  waits(): void;
  served(): void;
  /** A request on `pool` died with its socket. */
  lost(pool: Pool, error: Error): void;
  /** A connection became a WebSocket. Returns what to call when it is closed. */
  upgraded(lease: Lease<Pool>, socket: Duplex, options: Dispatcher.DispatchOptions): () => void;
  /** A handler threw this when it was told that its request failed. Never throws. */
  handlerThrew(error: unknown): void;
}

/**
 * The handler undici is given for each attempt of a call. It tells the call what happens, and passes the response on in the form
 * the caller's handler has.
 */
export interface AttemptHandler {
  /** Tells the caller that its request begins. The caller may abort it from within. */
  announce?(): void;
  /** Tells the caller that its request failed. May throw what the caller's code throws. */
  fail(error: Error): void;
  /** Aborts the attempt undici has begun to send; undici then reports its failure. */
  interrupt(reason: Error): void;
  /** Whether another attempt may follow. @defaultValue yes */
  readonly mayRepeat?: boolean;
  /** How long the whole call may take, in ms. @defaultValue what `limit` said */
  readonly limitMs?: number | undefined;
}

/**
 * A request on its way to the pods: through all its attempts, until one has a response or none can follow. What it knows of an
 * attempt is how far it came: whether undici has begun to send it, whether a response has begun, what the head of that says.
 *
 * It ends once: `completed`, `upgraded`, or `fail` of its handler.
 */
export class Call implements AttemptedCall<Pool>, Timed {
  /** The caller has been told how it ended. */
  done = false;
  /** The reason for which it is given up. */
  abortReason: Error | undefined = undefined;
  /** The connection the attempt was given to. */
  client: PodClient | undefined = undefined;
  readonly #owner: CallOwner;
  readonly #options: Dispatcher.DispatchOptions;
  readonly #attempts: Attempts<Pool>;
  #handler!: AttemptHandler;
  /** When the whole call has to be over, if it has to. */
  #deadline: SharedTimer | undefined;
  /** Publishes the failure on undici's diagnostics channels while undici has not seen the request. */
  #tellUnsent: ((error: Error) => void) | undefined;
  /** Told when the body fails while the call waits. */
  #bodyFailed: ((error: Error) => void) | undefined;
  /** undici began to write the attempt to a socket: from then on it may have reached the pod. */
  #sent = false;
  /** An attempt was lost with its connection, which the pod may have ended before. */
  #wasReset = false;
  /** A part of the response, a 1xx included, has come. */
  #answered = false;
  #verdict: Outcome = outcomes.success;
  /** What the caller's own code threw while it was told of the response; undici then aborts the attempt with it. */
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

  /** `handler` is given to undici; to be said before the call begins. */
  handledBy(handler: AttemptHandler): void {
    this.#handler = handler;
  }

  /** The call has until `deadline`; to be said before it begins. */
  limit(deadline: SharedTimer): void {
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
    // It need not wait for what undici would refuse there.
    const options = this.#options;
    const refusal = refusalOf(options);
    if (refusal !== undefined) {
      this.fail(refusal);
      return true;
    }
    this.#tellUnsent = unsentTeller(this.#owner.origin, options);
    this.#attempts.wait();
    return false;
  }

  /** Where the attempt under way went; also of one whose caller gave up while undici had it queued. */
  get lease(): Lease<Pool> | undefined {
    return this.#attempts.lease;
  }

  /** How far the attempt under way has come, for people. */
  get stage(): 'waiting' | 'connecting' | 'sent' | 'answered' {
    if (this.lease === undefined) return 'waiting';
    if (!this.#sent) return 'connecting';
    return this.#answered ? 'answered' : 'sent';
  }

  /** Gives up; only the first time counts, and not after the end. */
  abort(reason?: Error): void {
    if (this.done || this.abortReason !== undefined) return;
    this.abortReason = reason ?? new errors.RequestAbortedError();
    if (this.#sent) this.#handler.interrupt(this.abortReason);
    else this.fail(this.abortReason);
  }

  /** Its deadline. */
  timedOut(): void {
    const { origin } = this.#owner;
    const { method } = this.#options;
    this.abort(
      deadlineError({ origin, method, limitMs: this.#limitMs as number, running: [this], tried: this.#attempts.tried }),
    );
  }

  /**
   * undici begins to write the attempt, perhaps long after it was picked: on a connection that opened only now. What
   * this throws undici fails the attempt with; it has then written nothing, and leaves the body and the socket alone.
   */
  began(): void {
    const { lease } = this;
    // Its address may be another's in a moment.
    if (lease?.subchannel.state === 'draining' && !this.#owner.isClosing) throw podLeftError(lease.endpoint);
    this.#sent = true;
  }

  /** The first byte of an answer came. */
  responded(): void {
    if (this.#answered) return;
    this.#answered = true;
    this.lease?.progressed();
  }

  /** The head of the final answer came, and says something other than a plain success. */
  judged(verdict: Outcome): void {
    this.#verdict = verdict;
  }

  /** The caller's code threw this when it was told of the answer. */
  threw(error: unknown): void {
    this.#thrown = error;
  }

  /** The answer is complete; or the rest is not wanted, and the call goes on at another pod. */
  completed(retrying = false): void {
    this.#over();
    this.client?.answered();
    if (retrying) this.#attempts.end(this.#verdict, { retrying });
    else this.#attempts.end(this.#verdict);
  }

  /** The connection is the caller's own from now on; it stays a call on the pod until it is closed. */
  upgraded(status: number, socket: Duplex): void {
    this.#over();
    const attempts = this.#attempts;
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
  attemptFailed(error: Error): void {
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
    this.#attempts.fail({
      outcome,
      error,
      repeatable: this.#mayRepeat(sent),
      idempotent: isRepeatable(this.#options, lease.retries),
      answered: this.#answered,
      untried: isPodLeftError(error) || (!sent && isGivenUpError(error)),
      refused: isRefusedError(error),
      method: this.#options.method,
    });
  }

  /** Whether there is still something to send. */
  #mayRepeat(sent: boolean): boolean {
    const options = this.#options;
    if (this.#handler.mayRepeat === false || this.abortReason !== undefined || bodyOf(options)?.destroyed === true)
      return false;
    // The pod did nothing of it, but it was sent.
    return !sent || hasLastingBody(options);
  }

  send(lease: Lease<Pool>): void {
    this.#tellUnsent = undefined;
    const { retries } = lease;
    // A second attempt takes fewer chances, and the last one none.
    const isRepeated = this.#attempts.number === 1 && retries.repeatsLost && isRepeatable(this.#options, retries);
    const isLast = this.#wasReset && this.#attempts.counted >= retries.maxAttempts;
    const options = isLast ? needingNewConnection(this.#options) : this.#options;
    dispatchTo(lease.handle, options, this.#handler as Dispatcher.DispatchHandler, isRepeated);
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
    this.#attempts.stop();
    const told = this.#isOurs(error as Error) ? (error as Error) : (this.#owner.destroyedBy ?? (error as Error));
    this.#tellUnsent?.(told);
    this.#deliver(told);
  }

  /** How long the whole call may take, in ms. */
  get #limitMs(): number | undefined {
    return this.#handler.limitMs ?? this.#deadline?.delayMs;
  }

  /** Whether the caller, or its deadline, made the attempt fail with `error`. */
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
