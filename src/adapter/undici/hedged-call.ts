import { type Dispatcher, errors, type Pool } from 'undici';
import { type Lease, outcomes, type Priority } from '../../index.js';
import { deadlineError } from '../http/deadline-error.js';
import type { RequestDeadline } from '../http/request-deadline.js';
import {
  type CallTrace,
  LatencyQuantile,
  type SharedTimer,
  type SharedTimers,
  type Timed,
  TriedEndpoints,
  traceOf,
} from '../kit/index.js';
import { factsOf } from './call.js';
import type { CallOwner } from './call-owner.js';
import { Caller, type CallersRequest } from './caller.js';
import type { HandlerV2 } from './handler.js';
import { type Answer, HedgedAttempt, type HedgedAttemptOwner } from './hedged-attempt.js';

/** What the hedged calls of one dispatcher share. */
export interface HedgedCallOwner extends CallOwner {
  readonly timers: SharedTimers;
  readonly hedging: Hedging | undefined;
}

/** A request, and the handler of its caller. */
export interface Asked {
  readonly options: Dispatcher.DispatchOptions;
  readonly key: string | undefined;
  readonly handler: HandlerV2;
}

/** How many pods that asked for a pause are skipped in search of one that did not. */
const MAX_PASSED_OVER = 4;

/**
 * A request that may get several responses, of which the caller gets one: a response can be discarded in favor of another pod's
 * (`retry.statuses`, `retry.when`), and a hedge may answer sooner. Each attempt is a call of its own; they share the list of pods that
 * were tried.
 *
 * The choice is made at the head of a response, before anything was passed on. From then on it streams.
 */
export class HedgedCall implements HedgedAttemptOwner, CallersRequest, Timed {
  readonly owner: HedgedCallOwner;
  readonly options: Dispatcher.DispatchOptions;
  readonly key: string | undefined;
  readonly caller: Caller;
  /** The caller has been told how it ended. */
  done = false;
  abortReason: Error | undefined;
  readonly tried: TriedEndpoints<Pool> = new TriedEndpoints();
  made = 0;
  moves = 0;
  /** Undefined unless somebody traces calls. */
  trace: CallTrace | undefined = undefined;
  /** The attempts that may still answer. */
  #attempts: readonly HedgedAttempt[] = [];
  /** The attempt whose response the caller gets. */
  #winner: HedgedAttempt | undefined;
  #hedges = 0;
  #hedgeTimer: SharedTimer | undefined;
  /** Both set before it begins. */
  deadline: RequestDeadline | undefined;
  priority: Priority | undefined;

  constructor(owner: HedgedCallOwner, { options, key, handler }: Asked) {
    this.owner = owner;
    this.options = options;
    this.key = key;
    this.caller = new Caller(handler, this);
  }

  /** Sets its deadline. Must be called before `begin`. */
  limit(deadline: RequestDeadline): void {
    this.deadline = deadline;
  }

  /** Starts the call. False when it has to wait for an endpoint. */
  begin(): boolean {
    try {
      this.caller.announce();
    } catch (error) {
      this.#finish(error as Error);
    }
    if (this.done) return true;
    const { balancer } = this.owner;
    balancer.retries.started();
    this.#awaitHedge();
    this.trace = traceOf(balancer, { facts: () => factsOf(this.owner, this.options) });
    return this.trace === undefined ? this.#attempt(false) : this.trace.start(() => this.#attempt(false));
  }

  /** Gives up. Calls after the first, or after the end, do nothing. */
  abort(reason?: Error): void {
    if (this.done || this.abortReason !== undefined) return;
    const given = reason ?? new errors.RequestAbortedError();
    this.abortReason = given;
    this.#hedgeTimer?.cancel();
    const attempts = this.#attempts;
    for (const attempt of attempts) attempt.abort(given);
    // The caller may have done so from within `onRequestStart`, before there was any.
    if (attempts.length === 0) this.#finish(given);
  }

  /** Its deadline has passed. */
  timedOut(): void {
    const { owner, options, tried } = this;
    const { method } = options;
    const { limitMs } = this.deadline as RequestDeadline;
    this.abort(deadlineError({ origin: owner.origin, method, limitMs, running: this.#attempts, tried }));
  }

  // What its attempts ask for and report.

  get timers(): SharedTimers {
    return this.owner.timers;
  }

  isAlone(attempt: HedgedAttempt): boolean {
    return this.#attempts.every((other) => other === attempt || other.lease === undefined);
  }

  takes(attempt: HedgedAttempt, answer: Answer): boolean {
    if (this.done || this.#winner !== undefined || this.abortReason !== undefined) return false;
    this.#measure(attempt);
    if (answer.status >= 400 && this.#isGivenUp(attempt, answer)) return false;
    this.#winner = attempt;
    if (attempt.isHedge) this.owner.balancer.retries.hedgeWon();
    this.#hedgeTimer?.cancel();
    const losers = this.#attempts.filter((other) => other !== attempt);
    this.#attempts = [attempt];
    for (const loser of losers) {
      // It would have taken at least this long. Leaving it out would make the usual time shrink steadily.
      this.#measure(loser);
      loser.abort(new errors.RequestAbortedError('another pod answered first'));
    }
    this.caller.answeredBy(attempt.controller);
    return true;
  }

  ended(): void {
    this.done = true;
    this.trace?.end(undefined, undefined);
    this.deadline?.cancel();
  }

  failed(attempt: HedgedAttempt, error: Error): void {
    const isWinner = attempt === this.#winner;
    this.#attempts = this.#attempts.filter((other) => other !== attempt);
    if (isWinner && this.done) {
      // The caller's handler threw this when it was told of the end.
      this.#deliver(error);
    } else if (isWinner || (this.#winner === undefined && this.#attempts.length === 0)) this.#finish(error);
  }

  /** Starts another attempt, on `lease` if it already has one. */
  #attempt(isHedge: boolean, lease?: Lease<Pool>): boolean {
    const attempt = new HedgedAttempt(this, isHedge);
    this.#attempts = [...this.#attempts, attempt];
    return attempt.start(lease);
  }

  /** Whether to discard a response: another attempt is running, or can be made on another pod immediately. */
  #isGivenUp(attempt: HedgedAttempt, { status, header, verdict }: Answer): boolean {
    const { retries } = this.owner.balancer;
    const isNotBegun = verdict.kind === 'not-started';
    if (!retries.looksAtAnswers && !isNotBegun) return false;
    const { method } = this.options;
    const tried = this.made - this.moves;
    // What the pod did not begin is no answer, whatever its status.
    const answer = isNotBegun ? {} : { status, header };
    const ended = { outcome: verdict, idempotent: true, answered: false, tried, method, ...answer };
    if (!this.isAlone(attempt)) {
      if (!retries.wants(ended)) return false;
      this.#attempts = this.#attempts.filter((other) => other !== attempt);
      return true;
    }
    if (!retries.allows(ended)) return false;
    this.tried.add(attempt.lease as Lease<Pool>, verdict);
    const lease = this.#pickOther();
    if (lease === undefined) {
      retries.refund();
      return false;
    }
    this.#attempts = this.#attempts.filter((other) => other !== attempt);
    this.#attempt(false, lease);
    return true;
  }

  /** A pod that has not been tried, can take the request now and did not ask for a pause. */
  #pickOther(): Lease<Pool> | undefined {
    const { balancer, clock } = this.owner;
    const { avoid } = this.tried;
    const nowMs = clock.now();
    for (let passedOver = 0; passedOver <= MAX_PASSED_OVER; passedOver++) {
      const lease = balancer.pick({ key: this.key, avoid });
      if (lease === undefined) return undefined;
      const isNew = !avoid.has(lease.subchannel);
      if (isNew && lease.subchannel.pushedBackUntilMs <= nowMs) return lease;
      lease.end(outcomes.notStarted);
      if (!isNew) return undefined;
      this.tried.add(lease, outcomes.overload);
    }
    return undefined;
  }

  #awaitHedge(): void {
    const { hedging, timers } = this.owner;
    const delayMs = hedging?.delayMs;
    if (hedging === undefined || delayMs === undefined || this.#hedges >= hedging.max) return;
    this.#hedgeTimer = timers.start(delayMs, { timedOut: () => this.#hedge() });
  }

  /**
   * No pod has answered in time: another one is asked as well, if there is one and the retry budget allows it. Otherwise this is tried
   * again after the same delay.
   */
  #hedge(): void {
    if (this.done || this.#winner !== undefined || this.abortReason !== undefined) return;
    const lease = this.#leaseForHedge();
    if (lease !== undefined) this.#hedges++;
    this.#awaitHedge();
    if (lease !== undefined) this.#attempt(true, lease);
  }

  #leaseForHedge(): Lease<Pool> | undefined {
    const { retries } = this.owner.balancer;
    const leases = this.#attempts.flatMap(({ lease }) => lease ?? []);
    // If one attempt is waiting for a pod, there is none for a second.
    if (leases.length === 0 || !retries.allowsHedge(this.made - this.moves)) return undefined;
    for (const lease of leases) this.tried.add(lease, outcomes.cancelled);
    const other = this.#pickOther();
    if (other === undefined) retries.refund();
    return other;
  }

  #measure({ lease }: HedgedAttempt): void {
    if (lease !== undefined) this.owner.hedging?.took(this.owner.clock.now() - lease.startedMs);
  }

  #finish(error: Error): void {
    if (this.done) return;
    this.done = true;
    this.trace?.end(undefined, error);
    this.deadline?.cancel();
    this.#hedgeTimer?.cancel();
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

/** How many responses it takes to know the usual time. */
const MIN_MEASURED = 100;
/** The quantile is recomputed after this many more responses. It costs as much as counting ten requests. */
const LOOK_UP_AFTER = 64;

/** When the requests of one dispatcher are hedged. */
export class Hedging {
  readonly max: number;
  readonly #quantile: number | undefined;
  readonly #latency: LatencyQuantile = new LatencyQuantile();
  #delayMs: number | undefined;
  #measured = 0;
  #sinceLookUp = 0;

  constructor(afterMs: number | undefined, quantile: number | undefined, max: number) {
    this.max = max;
    this.#delayMs = afterMs;
    this.#quantile = quantile;
  }

  /** How long to wait for a response, in ms; undefined while that is not known. */
  get delayMs(): number | undefined {
    return this.#delayMs;
  }

  /** An attempt took at least this long without a response. */
  took(ms: number): void {
    if (this.#quantile === undefined) return;
    this.#latency.add(ms);
    if (++this.#measured < MIN_MEASURED || (++this.#sinceLookUp < LOOK_UP_AFTER && this.#delayMs !== undefined)) return;
    this.#sinceLookUp = 0;
    this.#delayMs = Math.max(1, this.#latency.quantile(this.#quantile));
  }
}
