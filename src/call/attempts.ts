import { type Outcome, outcomes } from '../endpoint/outcome.js';
import { isTraced, observes } from '../observe/observer.js';
import { TriedEndpoints } from '../retry/tried-endpoints.js';
import { ownProperties } from '../runtime/own-properties.js';
import { Stopper } from '../runtime/stopper.js';
import {
  type AttemptEnd,
  type AttemptedCall,
  type AttemptSource,
  type FailedAttempt,
  type HedgePart,
  reportAttempt,
  type SharedAttempts,
} from './attempted-call.js';
import { AttemptTraces, traceOf } from './call-trace.js';
import { type CallLease, callLease, type Lease } from './lease.js';
import { pickOther } from './other-endpoint.js';

const noDetails: AttemptEnd = Object.freeze({});

/**
 * A call may move to another endpoint this often without costing a retry, which is enough for a whole rollout. Further moves count as
 * retries.
 */
const MAX_MOVES = 100;

/**
 * One call through its attempts, for every protocol: it picks an endpoint or waits for one, makes the protocol send the attempt,
 * ends the lease, consults the retry policy, retries on another endpoint, and notifies the observer.
 * A hedged call has one of these for each concurrent attempt; they share a `SharedAttempts`.
 *
 *     state      what happens                    next state
 *     (none)     begin                           sending; if no endpoint can take the call: `wait`, waiting
 *     waiting    an endpoint becomes available   sending
 *                none does in time, or `stop`    over: the call fails
 *     sending    end, conclude                   over
 *                fail                            sending on another endpoint, or waiting, or over: the call fails
 *                giveBack                        waiting
 *                move                            sending on another endpoint, which `other` has found
 *
 * After `stop` no attempt follows; one that is running still has to be ended by the protocol.
 */
export class Attempts<C> implements SharedAttempts<C> {
  /** How many attempts the call has made. */
  made = 0;
  /** How many of its attempts moved to another endpoint because nothing was sent. */
  moves = 0;
  /** The endpoints on which the call was tried; undefined before the first failure. */
  tried: TriedEndpoints<C> | undefined = undefined;
  /** What this call has tried so far: this object itself, unless the call is hedged. */
  readonly shared: SharedAttempts<C>;
  // Only this class writes `lease` and `number`. They are plain fields because adapters read them for every call.
  /** The lease of the running attempt. */
  lease: CallLease<C> | undefined = undefined;
  /** Which attempt of the call is running or was last, counted from 1. */
  number = 0;
  readonly #source: AttemptSource<C>;
  readonly #call: AttemptedCall<C>;
  readonly #key: string | undefined;
  readonly #isHedge: boolean;
  #waiting: Stopper | undefined = undefined;
  /**
   * The error of the last attempt, and that of the last attempt that really failed: an attempt of which nothing was sent sets only
   * `#error`.
   */
  #error: unknown = undefined;
  #failure: unknown = undefined;
  /** Whether no attempt may follow, because `stop` was called or the call has ended. */
  #stopped = false;
  /** Whether the call has used its one free retry (see `Resend`). */
  #hadFreeRetry = false;
  /** The tracing spans of the call's attempts; undefined unless calls are traced. */
  #traces: AttemptTraces | undefined = undefined;

  constructor(source: AttemptSource<C>, call: AttemptedCall<C>, key: string | undefined, hedging?: HedgePart<C>) {
    this.#source = source;
    this.#call = call;
    this.#key = key;
    this.shared = hedging?.shared ?? this;
    this.#isHedge = hedging?.isHedge ?? false;
  }

  /**
   * Makes the first attempt: on `existing` if the call already has a lease, else on a picked endpoint. Returns false if no endpoint can
   * take the call now; then call `wait`.
   */
  begin(existing?: Lease<C>): boolean {
    const isWhole = this.shared === this;
    if (isWhole) this.#source.retries?.budget?.deposit();
    const trace = isWhole && isTraced() ? traceOf(this.#source, this.#call) : this.shared.trace;
    if (trace === undefined) return this.#begin(existing);
    this.#traces = new AttemptTraces(trace, isWhole, this.#isHedge);
    return isWhole ? trace.start(() => this.#begin(existing)) : this.#begin(existing);
  }

  #begin(existing: Lease<C> | undefined): boolean {
    const { unlimited } = this.#call;
    const isPlain = this.#key === undefined && unlimited !== true;
    const lease = existing ?? this.#source.pick(isPlain ? undefined : { key: this.#key, unlimited });
    if (lease === undefined) return false;
    this.#send(callLease(lease));
    return true;
  }

  /** Waits for an endpoint and makes the next attempt on it. If none becomes available, the call fails. */
  wait(): void {
    const waiting = new Stopper();
    this.#waiting = waiting;
    this.#call.waitBegan?.();
    this.#traces?.waits();
    this.#acquire(waiting).then(
      (lease) => this.#waited(callLease(lease), undefined),
      (error) => this.#waited(undefined, error),
    );
  }

  #waited(lease: CallLease<C> | undefined, error: unknown): void {
    const call = this.#call;
    this.#waiting = undefined;
    call.waitEnded?.();
    const aborted = call.signal?.aborted === true;
    if (lease !== undefined) {
      if (!this.#stopped && !aborted && this.shared.tried?.allows(lease) !== false) {
        this.#send(lease);
        return;
      }
      lease.end(outcomes.notStarted);
    }
    // If the call was tried before, it fails with the error of its last attempt rather than that of the wait.
    const reason = aborted ? (error ?? call.signal?.reason) : (this.#failure ?? error ?? this.#error);
    this.#traces?.refused(reason, aborted || this.#stopped);
    call.fail(reason);
  }

  /**
   * The caller gives up: any wait ends, and no attempt follows. The protocol still has to end the running attempt.
   *
   * @param error The error that the caller gets, for traces.
   */
  stop(reason?: unknown, error: unknown = reason): void {
    this.#stopped = true;
    this.#traces?.stopped(error, this.#waiting !== undefined || this.lease !== undefined);
    this.#waiting?.stop(reason);
  }

  /** Ends the call together with its running attempt. */
  end(outcome: Outcome, end: AttemptEnd = noDetails): void {
    const lease = this.conclude();
    if (lease === undefined) return;
    lease.end(outcome, end.latencyMs);
    this.report(lease, end);
  }

  /**
   * Ends the call without ending the lease of its last attempt. Whoever calls this must later end that lease and call `report`.
   *
   * @param outcome How the attempt ended, for traces, if the lease may last much longer. @defaultValue as reported later
   */
  conclude(outcome?: Outcome): CallLease<C> | undefined {
    const lease = this.lease;
    this.lease = undefined;
    this.#stopped = true;
    if (outcome !== undefined) this.#traces?.ended(outcome, undefined, true);
    return lease;
  }

  /** Notifies the observer how the running attempt ended. Needed only for attempts that do not end with `end` or `fail`. */
  report(lease: CallLease<C>, end: AttemptEnd = noDetails): void {
    this.#traces?.ended(end.outcome ?? (lease.outcome as Outcome), end.error, end.retrying !== true);
    if (!observes(lease.observer, 'attemptEnded')) return;
    reportAttempt(lease, { ...end, attempt: this.number, hedged: this.#isHedge });
  }

  /** The running attempt failed. Another attempt follows, now or after a wait, or the call fails with this attempt's error. */
  fail(failure: FailedAttempt): void {
    const lease = this.lease;
    if (lease === undefined) return;
    // Its optional members decide about sending the call again, so none is read from a polluted prototype.
    const failed = ownProperties(failure);
    this.lease = undefined;
    lease.end(failed.outcome);
    const { error } = failed;
    const retrying = !this.#stopped && this.#mayRepeat(lease, failed);
    this.report(lease, { error, retrying });
    if (!retrying) {
      this.#call.fail(error);
      return;
    }
    if (this.#failedIfLeft(lease, error)) return;
    if (this.#traces !== undefined) this.#traces.isMoving = failed.resend === 'free';
    this.#error = error;
    // An attempt of which nothing was sent is no failure: if there is no other endpoint, the caller gets the error of the last real
    // failure.
    if (failed.resend !== 'free') this.#failure = error;
    const next = this.#pickAnother(lease, failed.repeatAs ?? failed.outcome);
    if (failed.refused) this.shared.tried?.refused(lease);
    if (next === undefined) this.wait();
    else this.#send(next);
  }

  /**
   * Finds another endpoint for a call that could also keep its running attempt: the endpoint refused the call, does not respond, or gave a
   * response that the options retry. The call may then be repeated, the retry is paid for, and `move` must follow in the same turn. Returns
   * undefined if nothing changed, and the attempt continues.
   */
  other(failure: FailedAttempt): CallLease<C> | undefined {
    const failed = ownProperties(failure);
    const lease = this.lease;
    const hadFreeRetry = this.#hadFreeRetry;
    if (lease === undefined || this.#stopped || !this.#mayRepeat(lease, failed)) return undefined;
    const { shared } = this;
    shared.tried ??= new TriedEndpoints();
    shared.tried.add(lease, failed.outcome);
    const options = { key: this.#key, unlimited: this.#call.unlimited };
    const next = pickOther(this.#source, lease.retries, shared.tried, options);
    if (next === undefined) this.#hadFreeRetry = hadFreeRetry;
    return next;
  }

  /** The running attempt is given up, whatever still arrives for it, and the call goes on with `next`, which `other` has returned. */
  move({ outcome, error }: FailedAttempt, next: CallLease<C>): void {
    const lease = this.lease as CallLease<C>;
    this.lease = undefined;
    lease.end(outcome);
    this.report(lease, { error, retrying: true });
    if (this.#failedIfLeft(lease, error)) next.end(outcomes.notStarted);
    else this.#send(next);
  }

  /**
   * The code that was called last, an observer's hook or `retry.when`, may have made the caller give up. If so, the call fails instead of
   * going on, its retry is refunded, and this returns true.
   */
  #failedIfLeft({ retries }: CallLease<C>, error: unknown): boolean {
    const { signal } = this.#call;
    const aborted = signal?.aborted === true;
    if (!aborted && !this.#stopped) return false;
    retries.refund();
    this.#call.fail(aborted ? signal.reason : error);
    return true;
  }

  /**
   * The endpoint cannot take the running attempt after all. The attempt does not count, and the call waits for this endpoint or another.
   */
  giveBack(): void {
    this.lease?.end(outcomes.notStarted);
    this.lease = undefined;
    this.#traces?.ended(outcomes.notStarted, undefined, false);
    this.shared.made--;
    this.wait();
  }

  /**
   * Records that the call was tried on `lease`, and picks another endpoint. Returns undefined if only endpoints that were tried before can
   * take the call now.
   */
  #pickAnother(lease: CallLease<C>, outcome: Outcome): CallLease<C> | undefined {
    const { shared } = this;
    shared.tried ??= new TriedEndpoints();
    shared.tried.add(lease, outcome);
    const { avoid } = shared.tried;
    const next = this.#source.pick({ key: this.#key, avoid, unlimited: this.#call.unlimited });
    if (next === undefined || !avoid.has(next.subchannel)) return next && callLease(next);
    next.end(outcomes.notStarted);
    return undefined;
  }

  /** How many attempts of the call the retry rules count: all except those of which nothing was sent. */
  get counted(): number {
    const { made, moves } = this.shared;
    return made - moves;
  }

  #send(lease: CallLease<C>): void {
    const { shared } = this;
    if (shared.made === 0 && this.#source.retries === undefined) lease.retries.budget.deposit();
    this.number = ++shared.made;
    this.lease = lease;
    try {
      if (this.#traces === undefined) this.#call.send(lease);
      else this.#sendTraced(this.#traces, lease);
    } catch (error) {
      // `send` threw, so no other code will end this attempt.
      this.end(outcomes.cancelled, { error });
      this.#call.fail(error);
    }
  }

  #sendTraced(traces: AttemptTraces, lease: CallLease<C>): void {
    traces.send(lease, this.number, this.#call.setHeader, () => {
      const { signal } = this.#call;
      if (!this.#stopped && signal?.aborted !== true) {
        this.#call.send(lease);
        return;
      }
      // A subscriber of the tracing channel made the caller give up before anything was sent.
      this.end(outcomes.notStarted, { error: signal?.reason });
      this.#call.fail(signal?.reason);
    });
  }

  /** Whether the call is traced; only then does `resume` make a difference. */
  get isTraced(): boolean {
    return this.#traces !== undefined;
  }

  /** Runs `work` as a part of the running attempt, in that attempt's async context. */
  resume<T>(work: () => T): T {
    return this.#traces === undefined ? work() : this.#traces.resume(work);
  }

  /** The response to the running attempt has this status; traces need it. */
  answeredWith(status: number): void {
    this.#traces?.answeredWith(status);
  }

  async #acquire(waiting: Stopper): Promise<Lease<C>> {
    const avoid = this.shared.tried?.avoid;
    // An endpoint that failed just now is taken out of use within this turn of the event loop. Only then is it clear which endpoints are
    // left.
    if (avoid !== undefined) await undefined;
    const { signal, waitTimeoutMs: timeoutMs, waitLimitMs: limitMs, unlimited, priority, deadlineMs } = this.#call;
    const options = { key: this.#key, avoid, unlimited, priority, signal, timeoutMs, limitMs, deadlineMs };
    return this.#source.acquire(options, waiting);
  }

  /** Whether another attempt may follow. If so, its retry is paid for from the budget, unless the retry is free. */
  #mayRepeat({ retries }: CallLease<C>, failed: FailedAttempt): boolean {
    const { idempotent, answered, method, status, header, error, repeatAs: outcome = failed.outcome } = failed;
    const { resend = 'paid' } = failed;
    if (resend === 'never' || failed.outcome.kind === 'cancelled') return false;
    const { shared } = this;
    if (resend === 'free' && shared.moves < MAX_MOVES) {
      shared.moves++;
      retries.countMove();
      return true;
    }
    const attempt = { outcome, idempotent, answered, tried: this.counted, error, method, status, header };
    if (resend === 'first-free' && !this.#hadFreeRetry) {
      this.#hadFreeRetry = true;
      if (retries.allowsFree(attempt)) return true;
    }
    return retries.allows(attempt);
  }
}
