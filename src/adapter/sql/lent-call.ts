import { AsyncResource } from 'node:async_hooks';
import {
  type Clock,
  EvenkeelError,
  endpointAddress,
  type Lease,
  type Outcome,
  outcomes,
  type Priority,
  type Timer,
} from '../../index.js';
import {
  type AttemptedCall,
  type AttemptSource,
  Attempts,
  type CallFacts,
  deadline,
  type Resend,
} from '../kit/index.js';
import type { Borrower, NotLentReason, PooledSession } from './session.js';
import type { SessionPool } from './session-pool.js';

/** What a database call does with the session it was lent. Each database has its own implementation. */
export interface SessionUse<S extends PooledSession> {
  readonly source: AttemptSource<SessionPool<S>>;
  readonly clock: Clock;
  /** How long the call may wait for a session, in ms. */
  readonly waitLimitMs: number;
  /** Whether the call is outside the balancer's `limit`. @defaultValue false */
  readonly unlimited?: boolean | undefined;
  /** The priority of the call. @defaultValue 'default' */
  readonly priority?: Priority | undefined;
  /** The time left until the call's deadline, in ms. @defaultValue it has no deadline */
  readonly deadlineMs?: number | undefined;
  /** Whether rows of the answer have already reached the caller, so that the call cannot be repeated. @defaultValue false */
  readonly isAnswering?: boolean;
  facts(): CallFacts;
  /** Uses a session that was lent, in the caller's async context. The implementation must end the attempt sooner or later. */
  use(session: S): void;
  /** Whether the statement may run twice without harm. */
  isIdempotent(lease: Lease<SessionPool<S>>): boolean;
  /** The call began to wait until a server can be picked. `waitEnded` follows when it stops waiting. */
  waitBegan(): void;
  waitEnded?(): void;
  /** Tells the caller how the call ended, once, never before `begin` has returned. */
  settle(error: unknown, result: unknown, more: unknown): void;
}

/**
 * One call to a database through all its attempts, each of which borrows a session of the server that was picked. One time limit covers all
 * waits of the call: for a server to be picked, and for that server's handshake, ping, or next free session.
 */
export class LentCall<S extends PooledSession> implements AttemptedCall<SessionPool<S>>, Borrower<S> {
  readonly isOwn = false;
  readonly attempts: Attempts<SessionPool<S>>;
  readonly #use: SessionUse<S>;
  /**
   * The async context of the caller, where tracing of the database library finds the parent span. A session may be lent from any other
   * context.
   */
  readonly #context = new AsyncResource('evenkeel', { requireManualDestroy: true });
  /** When the call will have waited long enough, on the clock. Unset until the call has to wait, and again once it was lent a session. */
  #waitUntilMs: number | undefined;
  /** Since when the call has waited for a session of the picked server, on the clock; unset if the server had an idle session. */
  #waitsSinceMs: number | undefined;
  #waitTimer: Timer | undefined;
  #isDone = false;
  #isBeginning = true;

  /** @param key The call's key for hash pickers. */
  constructor(use: SessionUse<S>, key: string | undefined) {
    this.#use = use;
    this.attempts = new Attempts(use.source, this, key);
  }

  begin(): void {
    if (!this.attempts.begin()) this.attempts.wait();
    this.#isBeginning = false;
  }

  /** Whether `begin` has not returned yet. */
  get isBeginning(): boolean {
    return this.#isBeginning;
  }

  get unlimited(): boolean | undefined {
    return this.#use.unlimited;
  }

  get priority(): Priority | undefined {
    return this.#use.priority;
  }

  get deadlineMs(): number | undefined {
    return this.#use.deadlineMs;
  }

  get waitLimitMs(): number {
    return this.#use.waitLimitMs;
  }

  get waitTimeoutMs(): number {
    const { clock, waitLimitMs } = this.#use;
    const nowMs = clock.now();
    this.#waitUntilMs ??= nowMs + waitLimitMs;
    return Math.max(0, Math.ceil(this.#waitUntilMs - nowMs));
  }

  facts(): CallFacts {
    return this.#use.facts();
  }

  waitBegan(): void {
    this.#use.waitBegan();
  }

  waitEnded(): void {
    this.#use.waitEnded?.();
  }

  send(lease: Lease<SessionPool<S>>): void {
    this.#waitsSinceMs = undefined;
    lease.handle.borrow(this);
  }

  waits(): void {
    if (this.#waitTimer !== undefined) return;
    const { clock } = this.#use;
    this.#waitsSinceMs = clock.now();
    this.#waitTimer = deadline(clock, () => this.#waitedTooLong(), this.waitTimeoutMs);
    this.#waitTimer.ref();
  }

  lent(session: S): void {
    this.#stopWaiting();
    this.#waitUntilMs = undefined;
    if (this.attempts.isTraced) this.attempts.resume(() => this.#use.use(session));
    else this.#context.runInAsyncScope(this.#use.use, this.#use, session);
  }

  notLent(error: EvenkeelError, why: NotLentReason): void {
    this.#stopWaiting();
    if (this.#isDone || this.attempts.lease === undefined) return;
    // The call waits for the next session that is given back, at the server that is full or at another, or for a server of its role.
    if ((why === 'full' || why === 'standby') && this.waitTimeoutMs > 0) this.attempts.giveBack();
    else if (why === 'left') this.failed(outcomes.notStarted, outcomes.notStarted, error, 'free');
    else if (why === 'unresponsive') this.failed(outcomes.timeout, outcomes.notStarted, error);
    else this.failed(outcomes.notConnected, outcomes.notConnected, error);
  }

  /** Reports that the attempt failed. `outcome` is for the stages and the load; `repeatAs` decides whether the call may be repeated. */
  failed(outcome: Outcome, repeatAs: Outcome, error: unknown, resend: Resend = 'paid'): void {
    const { attempts } = this;
    const use = this.#use;
    const idempotent = use.isIdempotent(attempts.lease as Lease<SessionPool<S>>);
    attempts.fail({ outcome, repeatAs, error, resend, idempotent, answered: use.isAnswering === true });
  }

  /** Ends the call with an error that no other attempt could avoid; `outcome` is what the attempt says about its server. */
  ended(outcome: Outcome, error: unknown): void {
    this.attempts.end(outcome, { error });
    this.fail(error);
  }

  /**
   * Ends the call, because no session was lent within `limitMs`. The server is blamed only if the call waited for it at least half of that
   * time.
   */
  notLentInTime(limitMs: number, error: Error): void {
    const { clock } = this.#use;
    const { lease } = this.attempts;
    const waitedMs = clock.now() - (this.#waitsSinceMs ?? Number.POSITIVE_INFINITY);
    lease?.handle.forget(this);
    this.ended(waitedMs >= limitMs / 2 ? outcomes.timeout : outcomes.cancelled, error);
  }

  fail(error: unknown): void {
    if (this.#isDone) return;
    this.attempts.stop(undefined, error);
    this.finish(error, undefined);
  }

  /** Gives the caller its answer. The rest of the attempt, such as giving the session back, continues without the caller. */
  finish(error: unknown, result: unknown, more?: unknown): void {
    if (this.#isDone) return;
    this.#isDone = true;
    this.#stopWaiting();
    const use = this.#use;
    if (this.#isBeginning) use.clock.defer(() => use.settle(error, result, more));
    else use.settle(error, result, more);
  }

  #waitedTooLong(): void {
    const { lease } = this.attempts;
    if (lease === undefined) return;
    const { waitLimitMs } = this.#use;
    const endpoint = endpointAddress(lease.endpoint);
    const message = `no connection to ${endpoint} within ${waitLimitMs} ms`;
    this.notLentInTime(waitLimitMs, new EvenkeelError('EVENKEEL_NOT_READY', message, { endpoint }));
  }

  #stopWaiting(): void {
    this.#waitTimer?.cancel();
    this.#waitTimer = undefined;
  }
}
