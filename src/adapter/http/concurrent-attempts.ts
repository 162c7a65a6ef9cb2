import { type Balancer, type Clock, type Lease, type Outcome, outcomes } from '../../index.js';
import {
  type AttemptTally,
  type CallFacts,
  type CallTrace,
  type FailedAttempt,
  isTraced,
  pickOther,
  type SharedTimer,
  type SharedTimers,
  TriedEndpoints,
  traceOf,
} from '../kit/index.js';
import type { Hedging } from './hedging.js';

/** One attempt of a request whose attempts may run concurrently. */
export interface ConcurrentAttempt<C> {
  readonly isHedge: boolean;
  /** The lease of this attempt; undefined while the attempt waits, and once it is over. */
  readonly lease: Lease<C> | undefined;
  /** Starts the attempt, on `lease` if one is passed. Returns false when the attempt has to wait for an endpoint. */
  start(lease?: Lease<C>): boolean;
  /**
   * Gives up this attempt's response, as `Attempts.giveUp` does, and returns the lease for the next attempt; undefined if there is none.
   */
  giveUp(failed: FailedAttempt): Lease<C> | undefined;
  abort(reason: Error): void;
}

/** What all requests of one dispatcher or agent share. */
export interface ConcurrentAttemptsOwner<C> {
  readonly balancer: Balancer<C>;
  readonly clock: Clock;
  readonly timers: SharedTimers;
  readonly hedging: Hedging | undefined;
}

/** The head of a final response, and what it means for the pod that sent it. */
export interface ResponseHead {
  readonly status: number;
  readonly header: (name: string) => unknown;
  readonly verdict: Outcome;
}

/** What concurrent attempts need to know of their request. */
export interface ConcurrentRequest<A> {
  readonly method: string;
  readonly key: string | undefined;
  /** What traces say about the request. */
  facts(): CallFacts;
  attempt(isHedge: boolean): A;
  /** Creates the abort reason for attempts whose response comes later than another attempt's. */
  beaten(): Error;
}

/**
 * The attempts of a request that may get several responses, of which the caller gets one: a response can be discarded in favor of another
 * pod's (`retry.statuses`, `retry.when`), and a hedge may answer sooner. The choice is made at the head of a response, before anything is
 * passed on.
 */
export class ConcurrentAttempts<C, A extends ConcurrentAttempt<C>> implements AttemptTally<C> {
  readonly tried: TriedEndpoints<C> = new TriedEndpoints();
  made = 0;
  moves = 0;
  /** The trace of the request; undefined unless calls are traced. */
  trace: CallTrace | undefined = undefined;
  readonly #owner: ConcurrentAttemptsOwner<C>;
  readonly #request: ConcurrentRequest<A>;
  /** The attempts of the request that may still get a response. */
  #running: readonly A[] = [];
  /** The attempt whose response the caller gets. */
  #winner: A | undefined;
  #isStopped = false;
  #hedges = 0;
  #hedgeTimer: SharedTimer | undefined;

  constructor(owner: ConcurrentAttemptsOwner<C>, request: ConcurrentRequest<A>) {
    this.#owner = owner;
    this.#request = request;
  }

  get running(): readonly A[] {
    return this.#running;
  }

  /** Whether it is decided which response the caller gets. */
  get isDecided(): boolean {
    return this.#winner !== undefined;
  }

  /** Makes the first attempt of the request. Returns false when the attempt has to wait for an endpoint. */
  begin(): boolean {
    this.#owner.balancer.retries.budget.deposit();
    this.#awaitHedge();
    const trace = isTraced() ? traceOf(this.#owner.balancer, this.#request) : undefined;
    this.trace = trace;
    return trace === undefined ? this.#attempt(false) : trace.start(() => this.#attempt(false));
  }

  /**
   * Aborts running attempts, and makes no further attempt. Returns false if no attempt is running, so that none will report the end of the
   * request.
   */
  abort(reason: Error): boolean {
    this.stop();
    const running = this.#running;
    for (const attempt of running) attempt.abort(reason);
    return running.length > 0;
  }

  /** Makes no further attempt of the request. */
  stop(): void {
    this.#isStopped = true;
    this.#hedgeTimer?.cancel();
  }

  /** The request has ended. */
  ended(error?: unknown): void {
    this.trace?.end(undefined, error);
  }

  isAlone(attempt: A): boolean {
    return this.#running.every((other) => other === attempt || other.lease === undefined);
  }

  /** Handles the head of a final response. Returns true if the caller gets this response, false if it is discarded. */
  takes(attempt: A, answer: ResponseHead): boolean {
    if (this.#isStopped || this.#winner !== undefined) return false;
    this.#measure(attempt);
    if (answer.status >= 400 && this.#isGivenUp(attempt, answer)) return false;
    this.#winner = attempt;
    if (attempt.isHedge) this.#owner.balancer.retries.hedgeWon();
    this.#hedgeTimer?.cancel();
    const losers = this.#running.filter((other) => other !== attempt);
    this.#running = [attempt];
    for (const loser of losers) {
      // The aborted attempt would have taken at least this long. Without its time, the usual time to a response would shrink steadily.
      this.#measure(loser);
      loser.abort(this.#request.beaten());
    }
    return true;
  }

  /** Handles an attempt that failed for good. Returns true if the request ends with that failure. */
  failed(attempt: A): boolean {
    this.#running = this.#running.filter((other) => other !== attempt);
    return attempt === this.#winner || (this.#winner === undefined && this.#running.length === 0);
  }

  /** Starts another attempt of the request, on `lease` if one is passed. */
  #attempt(isHedge: boolean, lease?: Lease<C>): boolean {
    const attempt = this.#request.attempt(isHedge);
    this.#running = [...this.#running, attempt];
    return attempt.start(lease);
  }

  /** Whether to discard a response because another attempt is running, or can be made on another pod immediately. */
  #isGivenUp(attempt: A, { status, header, verdict }: ResponseHead): boolean {
    const { retries } = this.#owner.balancer;
    const isNotBegun = verdict.kind === 'not-started';
    if (!retries.looksAtAnswers && !isNotBegun) return false;
    const { method } = this.#request;
    // A response that says "not begun" does not answer the request, whatever its status.
    const answer = isNotBegun ? {} : { status, header };
    const failed = { outcome: verdict, error: undefined, idempotent: true, answered: false, method, ...answer };
    if (!this.isAlone(attempt)) {
      // Another attempt of the request is already running and paid for.
      if (!retries.wants({ ...failed, tried: this.made - this.moves })) return false;
      this.#running = this.#running.filter((other) => other !== attempt);
      return true;
    }
    const lease = attempt.giveUp(failed);
    if (lease === undefined) return false;
    this.#running = this.#running.filter((other) => other !== attempt);
    this.#attempt(false, lease);
    return true;
  }

  #awaitHedge(): void {
    const { hedging, timers } = this.#owner;
    const delayMs = hedging?.delayMs;
    if (hedging === undefined || delayMs === undefined || this.#hedges >= hedging.max) return;
    this.#hedgeTimer = timers.start(delayMs, { timedOut: () => this.#hedge() });
  }

  /**
   * No pod has responded in time: sends a hedge to another pod, if there is one and the retry budget allows it. Otherwise tries again after
   * another such delay.
   */
  #hedge(): void {
    if (this.#isStopped || this.#winner !== undefined) return;
    const lease = this.#leaseForHedge();
    if (lease !== undefined) this.#hedges++;
    this.#awaitHedge();
    if (lease !== undefined) this.#attempt(true, lease);
  }

  #leaseForHedge(): Lease<C> | undefined {
    const { retries } = this.#owner.balancer;
    const leases = this.#running.flatMap(({ lease }) => lease ?? []);
    // While an attempt waits for a pod, there is no pod for a second attempt.
    if (leases.length === 0 || !retries.allowsHedge(this.made - this.moves)) return undefined;
    for (const lease of leases) this.tried.add(lease, outcomes.cancelled);
    return pickOther(this.#owner.balancer, retries, this.tried, { key: this.#request.key });
  }

  #measure({ lease }: A): void {
    if (lease !== undefined) this.#owner.hedging?.took(this.#owner.clock.now() - lease.startedMs);
  }
}
