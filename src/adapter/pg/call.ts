import { AsyncResource } from 'node:async_hooks';
import type { PoolClient } from 'pg';
import {
  type Balancer,
  type Clock,
  EvenkeelError,
  endpointAddress,
  type Lease,
  type Outcome,
  outcomes,
  type Timer,
} from '../../index.js';
import { type AttemptedCall, Attempts, asError, type CallFacts, deadline } from '../kit/index.js';
import type { PgServer } from './connection.js';
import type { PoolSettings } from './options.js';
import { isReplayConflict, isWholeChange, READ_ONLY, sqlState, verdictOf } from './outcome.js';
import type { ServerRoles } from './roles.js';
import type { Answer, Borrower, NotLent, Session } from './session.js';

/** What calls share: their pool. */
export interface CallOwner {
  readonly balancer: Balancer<PgServer>;
  readonly settings: PoolSettings;
  readonly clock: Clock;
  readonly roles: ServerRoles | undefined;
  /** Calls that wait for a server. */
  waiting: number;
  /** One fewer waits. */
  waited(): void;
  acquired(client: PoolClient): void;
  released(error: unknown, client: PoolClient): void;
}

/** What a call is for: a statement, a query object that reads its answer by itself, or a client for a caller to keep for a while. */
export interface Task {
  readonly kind: 'statement' | 'object' | 'client';
  /** As pg gets them. */
  readonly text?: unknown;
  readonly values?: unknown;
  readonly key?: string | undefined;
  readonly idempotent?: boolean | undefined;
  /** Called once, never before `begin` has returned: with the answer, or the client. */
  readonly done: Answer;
}

/** One call over all its attempts: each borrows a session of the server that was picked. */
export class Call implements AttemptedCall<PgServer>, Borrower {
  readonly isOwn = false;
  readonly #owner: CallOwner;
  readonly #task: Task;
  readonly #attempts: Attempts<PgServer>;
  /** The caller's: who traces pg's statements finds their parent there. A session may come in any other. */
  readonly #context = new AsyncResource('evenkeel', { requireManualDestroy: true });
  /** Until when it may wait, on the clock. Unset until it has to, which most calls never do. */
  #byMs: number | undefined;
  #timer: Timer | undefined;
  #isDone = false;
  #isBeginning = true;

  constructor(owner: CallOwner, task: Task) {
    this.#owner = owner;
    this.#task = task;
    this.#attempts = new Attempts(owner.balancer, this, task.key);
  }

  begin(): void {
    if (!this.#attempts.begin()) this.#attempts.wait();
    this.#isBeginning = false;
  }

  facts(): CallFacts {
    return { protocol: 'postgresql', method: this.#task.kind === 'client' ? 'connect' : 'query' };
  }

  send(lease: Lease<PgServer>): void {
    lease.handle.borrow(this);
  }

  waitBegan(): void {
    this.#owner.waiting++;
  }

  waitEnded(): void {
    this.#owner.waiting--;
    this.#owner.waited();
  }

  get waitTimeoutMs(): number {
    const nowMs = this.#owner.clock.now();
    this.#byMs ??= nowMs + this.#owner.settings.waitTimeoutMs;
    return Math.max(0, Math.ceil(this.#byMs - nowMs));
  }

  /** The server has no session at hand. */
  waits(): void {
    this.#timer?.cancel();
    this.#timer = deadline(this.#owner.clock, () => this.#waitedTooLong(), this.waitTimeoutMs);
    this.#timer.ref();
  }

  lent(session: Session): void {
    this.#timer?.cancel();
    this.#owner.acquired(session.client);
    if (this.#attempts.isTraced) this.#attempts.resume(() => this.#use(session));
    else this.#context.runInAsyncScope(this.#use, this, session);
  }

  #use(session: Session): void {
    const { kind } = this.#task;
    if (kind === 'statement') this.#run(session);
    else if (kind === 'object') this.#submit(session);
    else this.#handOut(session);
  }

  notLent(error: EvenkeelError, why: NotLent): void {
    this.#timer?.cancel();
    const lease = this.#attempts.lease;
    if (this.#isDone || lease === undefined) return;
    lease.handle.ended();
    // Waits for the next session that is given back, here or at another server.
    if (why === 'full' && this.waitTimeoutMs > 0) this.#attempts.giveBack();
    else if (why === 'left') this.#failed(outcomes.notStarted, outcomes.notStarted, error, true);
    else this.#failed(outcomes.notConnected, outcomes.notConnected, error);
  }

  fail(error: unknown): void {
    this.#finish(asError(error));
  }

  #run(session: Session): void {
    const { text, values } = this.#task;
    this.#attempts.noted('statement');
    try {
      session.run(text, values, (error, result) => {
        if (error) this.#refused(session, error);
        else this.#succeeded(session, result);
      });
    } catch (error) {
      this.#notSent(session, error);
    }
  }

  #succeeded(session: Session, result: unknown): void {
    const lease = this.#attempts.conclude() as Lease<PgServer>;
    this.#owner.released(undefined, session.client);
    session.release(() => {
      lease.end(outcomes.success, undefined, this.#attempts.note);
      lease.handle.ended();
    });
    this.#attempts.report(lease, ok);
    this.#finish(undefined, result);
  }

  /** The statement failed. What that says about the server and the connection is a matter of the error. */
  #refused(session: Session, error: Error): void {
    const verdict = verdictOf(error);
    const { note } = this.#attempts;
    if (note !== undefined) note.status = sqlState(error);
    const lease = this.#attempts.lease as Lease<PgServer>;
    const { endpoint, handle } = lease;
    this.#owner.released(verdict.usable ? undefined : error, session.client);
    if (!verdict.usable) session.kill(error);
    const mayMove = this.#mayMove(error);
    const isConflict = isReplayConflict(error) && this.#owner.settings.role !== 'primary';
    const release = (isSpoilt: boolean): void => session.release(() => handle.ended(), isSpoilt);
    // pg raised it, and tells its caller before it is ready again; older ones leave such a statement without an end.
    if (verdict.usable && sqlState(error) === undefined) this.#owner.clock.defer(() => release(!session.isReady));
    else release(this.#isPaged);
    if (mayMove) {
      // A transaction may be read-only on a server that is not: that is the application's error.
      const asked = this.#owner.roles?.recheck(endpoint) ?? Promise.resolve();
      asked
        .catch(() => {})
        .then(() => {
          if (this.#owner.roles?.isUsable(endpoint)) this.#answered(error, outcomes.success);
          else this.#failed(outcomes.success, outcomes.notStarted, error);
        });
    } else if (verdict.unsent) this.#failed(verdict.outcome, outcomes.notStarted, error);
    else if (isConflict && this.#isIdempotent) this.#failed(outcomes.success, outcomes.reset, error);
    else if (verdict.outcome.kind === 'success') this.#answered(error, verdict.outcome);
    else this.#failed(verdict.outcome, verdict.outcome, error);
  }

  /** A server that takes no writes refused a change as a whole: one that does may get it. */
  #mayMove(error: Error): boolean {
    const { text } = this.#task;
    if (this.#owner.settings.role !== 'primary' || sqlState(error) !== READ_ONLY) return false;
    return isWholeChange(typeof text === 'string' ? text : (text as { readonly text?: unknown })?.text);
  }

  /** Whether pg reads the answer in pages. After an error it leaves such a connection without an end of the statement. */
  get #isPaged(): boolean {
    const { text } = this.#task;
    return typeof text === 'object' && text !== null && Boolean((text as { readonly rows?: unknown }).rows);
  }

  get #isIdempotent(): boolean {
    return this.#task.idempotent ?? this.#owner.settings.idempotent;
  }

  /** The statement cannot be sent, so no other server could run it either. */
  #notSent(session: Session, error: unknown): void {
    const lease = this.#attempts.lease as Lease<PgServer>;
    this.#owner.released(undefined, session.client);
    session.release(() => lease.handle.ended());
    this.#answered(error, outcomes.cancelled);
  }

  #submit(session: Session): void {
    const { text, done } = this.#task;
    try {
      session.submit(text as object, () => this.#over(session, outcomes.success));
      this.#isDone = true;
      this.#owner.clock.defer(() => done(undefined));
    } catch (error) {
      this.#notSent(session, error);
    }
  }

  /** The caller keeps the client: the lease lasts until it is released or gone. Nothing on it is ever repeated. */
  #handOut(session: Session): void {
    const { acquired: _, released } = this.#owner;
    const lease = this.#attempts.conclude(outcomes.success) as Lease<PgServer>;
    const client = session.checkOut(released.bind(this.#owner), (outcome) => {
      // How long a caller keeps a client says nothing about the server.
      lease.end(outcome, null);
      lease.handle.ended();
      this.#attempts.report(lease, { outcome });
    });
    this.#finish(undefined, client);
  }

  #over(session: Session, outcome: Outcome): void {
    const lease = this.#attempts.conclude();
    this.#owner.released(undefined, session.client);
    session.release(() => {
      lease?.end(outcome, null);
      lease?.handle.ended();
    });
    if (lease !== undefined) this.#attempts.report(lease, { outcome });
  }

  /** The server did its work, and the call ends with an error. */
  #answered(error: unknown, outcome: Outcome): void {
    this.#attempts.end(outcome, { error });
    this.fail(error);
  }

  /** `outcome` is for the stages and the load; `repeatAs` decides whether the call may be repeated. */
  #failed(outcome: Outcome, repeatAs: Outcome, error: Error, untried = false): void {
    const idempotent = this.#task.kind === 'statement' && this.#isIdempotent;
    this.#attempts.fail({ outcome, repeatAs, error, untried, idempotent, answered: false });
  }

  #waitedTooLong(): void {
    const lease = this.#attempts.lease;
    if (lease === undefined) return;
    const { waitTimeoutMs } = this.#owner.settings;
    const endpoint = endpointAddress(lease.endpoint);
    const error = new EvenkeelError('EVENKEEL_NOT_READY', `no connection to ${endpoint} within ${waitTimeoutMs} ms`, {
      endpoint,
    });
    lease.handle.forget(this);
    lease.handle.ended();
    this.#attempts.end(outcomes.timeout, { error });
    this.fail(error);
  }

  #finish(error: Error | undefined, result?: unknown): void {
    if (this.#isDone) return;
    this.#isDone = true;
    this.#timer?.cancel();
    this.#attempts.stop();
    const { done } = this.#task;
    if (this.#isBeginning) this.#owner.clock.defer(() => done(error, result));
    else done(error, result);
  }
}

const ok = Object.freeze({ outcome: outcomes.success });
