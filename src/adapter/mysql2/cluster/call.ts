import { AsyncResource } from 'node:async_hooks';
import type { Pool } from 'mysql2';
import {
  EvenkeelError,
  endpointAddress,
  type Lease,
  type Outcome,
  outcomes,
  type Priority,
  type Timer,
} from '../../../index.js';
import { type AttemptedCall, Attempts, type CallFacts, deadline } from '../../kit/index.js';
import { queryTimeout, readOnlyOutcome, type Verdict, verdictOf } from '../outcome.js';
import type { Borrower, NotLent } from '../server/borrowers.js';
import type { Answer } from '../server/connection-methods.js';
import type { ServerConnection } from '../server/server-connection.js';
import type { Session } from '../server/session.js';
import type { Route } from './route.js';
import { isWhole, type RunningStatement, type Statement } from './statement.js';

/**
 * One call over all its attempts: each borrows a session of the server that was picked, and runs the statement on it or, without a
 * statement, hands out its connection for the caller to keep for a while. `done` is called exactly once, with the answer or the
 * connection, never before `begin` has returned.
 */
export class Call implements AttemptedCall<Pool>, Borrower {
  readonly #route: Route;
  readonly #statement: Statement | undefined;
  readonly #done: Answer;
  readonly #attempts: Attempts<Pool>;
  /** The caller's: who traces mysql2's statements finds their parent there. A session comes in any other. */
  readonly #context = new AsyncResource('evenkeel', { requireManualDestroy: true });
  readonly #beganMs: number;
  /** For the whole statement, in ms; Infinity = no limit. */
  readonly #timeoutMs: number;
  #statementTimer: Timer | undefined;
  /** When it has waited long enough for a connection, on the clock. Unset until it has to wait, and again once it found one. */
  #waitUntilMs: number | undefined;
  /** Since when it has been waiting for the server that was picked, on the clock. Unset if that had a connection at hand. */
  #waitsSinceMs: number | undefined;
  #waitTimer: Timer | undefined;
  /** Set while the statement runs on it. */
  #session: Session | undefined;
  /** What mysql2 gave with an error: the server's answer to LOAD DATA LOCAL, if our side of it failed. */
  #rows: unknown;
  /** Rows of the answer have been handed out. */
  #isAnswering = false;
  #isDone = false;

  /** @param key For hash pickers. */
  constructor(route: Route, statement: Statement | undefined, key: string | undefined, done: Answer) {
    this.#route = route;
    this.#statement = statement;
    this.#done = done;
    this.#attempts = new Attempts(route.source, this, key);
    this.#timeoutMs =
      statement === undefined ? Number.POSITIVE_INFINITY : (statement.timeoutMs ?? route.first.settings.queryTimeoutMs);
    this.#beganMs = Number.isFinite(this.#timeoutMs) ? route.first.clock.now() : 0;
  }

  begin(): void {
    if (Number.isFinite(this.#timeoutMs)) {
      this.#statementTimer = this.#route.first.clock.timer(() => this.#tookTooLong(), this.#timeoutMs);
      this.#statementTimer.ref();
    }
    if (!this.#attempts.begin()) this.#attempts.wait();
  }

  facts(): CallFacts {
    return { protocol: 'mysql', method: this.#statement?.method ?? 'getConnection' };
  }

  send(lease: Lease<Pool>): void {
    this.#waitsSinceMs = undefined;
    const { connection } = lease.subchannel;
    // The transport of every service makes these. It may have lost the one that was picked, or have another by now.
    if (connection?.handle === lease.handle) {
      (connection as ServerConnection).borrow(this);
      return;
    }
    const error = new EvenkeelError('EVENKEEL_CONNECT', `${lease.endpoint.key} is not connected to`);
    this.#route.first.clock.defer(() => this.notLent(error, 'refused'));
  }

  waitBegan(): void {
    this.#route.first.enqueued();
  }

  /** How long a caller keeps a connection says nothing about its server, and nobody is sent away in the middle of a transaction. */
  get unlimited(): boolean {
    return this.#statement === undefined;
  }

  get priority(): Priority | undefined {
    return this.#statement?.priority;
  }

  /** What is left of the statement's timeout, in ms. */
  get deadlineMs(): number | undefined {
    if (!Number.isFinite(this.#timeoutMs)) return undefined;
    return this.#beganMs + this.#timeoutMs - this.#route.first.clock.now();
  }

  /** What is left of the time it may wait for a connection, in ms: for a server to be picked, and for its handshake or ping. */
  get waitTimeoutMs(): number {
    const { clock, waitTimeoutMs } = this.#route.first;
    const nowMs = clock.now();
    this.#waitUntilMs ??= nowMs + waitTimeoutMs;
    return Math.max(0, Math.ceil(this.#waitUntilMs - nowMs));
  }

  lent(session: Session): void {
    if (this.#isDone) {
      // The caller has already been told that it took too long.
      session.release();
      return;
    }
    this.#stopWaiting();
    this.#waitUntilMs = undefined;
    const statement = this.#statement;
    if (statement === undefined) this.#handOut(session);
    else if (this.#attempts.isTraced) this.#attempts.resume(() => this.#run(session, statement));
    else this.#context.runInAsyncScope(this.#run, this, session, statement);
  }

  notLent(error: EvenkeelError, why: NotLent): void {
    // If the call is over, it took too long, and its lease has ended.
    if (this.#isDone) return;
    this.#stopWaiting();
    // Waits for the next connection that is given back, here or at another server.
    if (why === 'full' && this.waitTimeoutMs > 0) this.#attempts.giveBack();
    else if (why === 'left') this.#attemptFailed(outcomes.notStarted, outcomes.notStarted, error, true);
    else if (why === 'unresponsive') this.#attemptFailed(outcomes.timeout, outcomes.notStarted, error);
    else this.#attemptFailed(outcomes.notConnected, outcomes.notConnected, error);
  }

  /** The server needs time for a handshake or a ping: that counts as waiting. */
  waits(): void {
    if (this.#isDone || this.#waitTimer !== undefined) return;
    const { clock } = this.#route.first;
    this.#waitsSinceMs = clock.now();
    this.#waitTimer = deadline(clock, () => this.#waitedTooLong(), this.waitTimeoutMs);
    this.#waitTimer.ref();
  }

  fail(error: unknown): void {
    if (this.#isDone) return;
    this.#finish();
    this.#attempts.stop(undefined, error);
    this.#done(error as Error, this.#rows);
  }

  /** The caller keeps the connection: the lease lasts until it is released or gone. Nothing on it is ever retried. */
  #handOut(session: Session): void {
    this.#finish();
    const lease = this.#attempts.conclude(outcomes.success) as Lease<Pool>;
    session.checkOut((outcome) => {
      // How long a caller keeps a connection says nothing about the server.
      lease.end(outcome, null);
      this.#attempts.report(lease, { outcome });
    });
    this.#done(null, session.connection);
  }

  #run(session: Session, statement: Statement): void {
    this.#session = session;
    this.#attempts.noted('statement');
    const { method, sql, values, running } = statement;
    try {
      if (running?.settle() === true) this.#read(session, statement, running);
      else session.send(method, sql, values, (error, rows, fields) => this.#answered(session, error, rows, fields));
    } catch (error) {
      // The statement cannot be sent, so no other server could run it either.
      this.#session = undefined;
      this.#attemptEnded(session, outcomes.cancelled, error);
      this.fail(error);
    }
  }

  /** Hands out the rows as they arrive. From now on the timeout limits the time without any. */
  #read(session: Session, { method, sql, values }: Statement, running: RunningStatement<unknown>): void {
    this.#statementTimer?.cancel();
    const command = session.read(method, sql, values, this.#timeoutMs);
    const { connection } = session;
    running.began({ pause: () => connection.pause(), resume: () => connection.resume() });
    let failure: Error | null = null;
    command.on('fields', (fields: unknown) => {
      this.#isAnswering = true;
      this.#attempts.lease?.progressed();
      running.fields(fields);
    });
    command.on('result', (row: unknown, index: unknown) => {
      this.#isAnswering = true;
      running.row(row, index);
    });
    command.on('error', (error: Error) => {
      failure ??= error;
    });
    command.once('end', () => this.#answered(session, failure, undefined, undefined));
  }

  #answered(session: Session, error: Error | null, rows: unknown, fields: unknown): void {
    if (this.#session !== session) return; // timed out meanwhile
    this.#session = undefined;
    if (!error) {
      this.#attemptEnded(session, outcomes.success);
      this.#finish();
      this.#done(null, rows, fields);
      return;
    }
    this.#rows = rows;
    const verdict = verdictOf(error);
    const lease = this.#attempts.lease as Lease<Pool>;
    const { errno } = error as { readonly errno?: unknown };
    // The server's own errors: those of the system are negative.
    const { note } = this.#attempts;
    if (note !== undefined && typeof errno === 'number' && errno > 0) note.status = errno;
    if (!verdict.usable) session.kill(error);
    else if (verdict.discard) session.discard();
    // The lease does not wait for the session to be free: it ends now.
    session.release();
    const repeatAs = this.#isUnsent(verdict, lease) ? outcomes.notStarted : verdict.outcome;
    this.#attemptFailed(verdict.outcome, repeatAs, error);
  }

  /** A server that is read-only refuses a whole statement; if there are several in one, the first may have been done. */
  #isUnsent({ unsent, outcome }: Verdict, lease: Lease<Pool>): boolean {
    if (!unsent || outcome !== readOnlyOutcome) return unsent;
    const { writable, settings } = this.#route.serviceOf(lease);
    const { multipleStatements, flags } = settings.mysql;
    const isOne = multipleStatements !== true && !/MULTI_STATEMENTS/i.test(String(flags));
    return writable && isOne && this.#statement !== undefined && isWhole(this.#statement);
  }

  /** The call is over, and the server is not to blame: the lease lasts until the session is free. */
  #attemptEnded(session: Session, outcome: Outcome, error?: unknown): void {
    const lease = this.#attempts.conclude() as Lease<Pool>;
    const { note } = this.#attempts;
    session.release(() => lease.end(outcome, undefined, note));
    this.#attempts.report(lease, { outcome, error });
  }

  /** `outcome` is for the stages and the load; `repeatAs` decides whether the call may be repeated. */
  #attemptFailed(outcome: Outcome, repeatAs: Outcome, error: Error, untried = false): void {
    const idempotent = this.#isIdempotent(this.#attempts.lease as Lease<Pool>);
    this.#attempts.fail({ outcome, repeatAs, error, untried, idempotent, answered: this.#isAnswering });
  }

  #isIdempotent(lease: Lease<Pool>): boolean {
    if (this.#statement === undefined) return false;
    return this.#statement.idempotent ?? this.#route.serviceOf(lease).idempotent;
  }

  /** A server was picked, but lent no session in time. */
  #waitedTooLong(): void {
    const endpoint = endpointAddress((this.#attempts.lease as Lease<Pool>).endpoint);
    const { waitTimeoutMs } = this.#route.first;
    const message = `no connection to ${endpoint} within ${waitTimeoutMs} ms`;
    this.#giveUp(waitTimeoutMs, new EvenkeelError('EVENKEEL_NOT_READY', message, { endpoint }));
  }

  /** No session was lent within `limitMs`. The server is only blamed if it had at least half of that time. */
  #giveUp(limitMs: number, error: Error): void {
    const waitedMs = this.#route.first.clock.now() - (this.#waitsSinceMs ?? Number.POSITIVE_INFINITY);
    const outcome = waitedMs >= limitMs / 2 ? outcomes.timeout : outcomes.cancelled;
    this.#attempts.end(outcome, { error });
    this.fail(error);
  }

  /** The statement's timeout is over, whatever the call is doing. */
  #tookTooLong(): void {
    const { lease } = this.#attempts;
    const error = queryTimeout(lease && endpointAddress(lease.endpoint), this.#timeoutMs);
    const session = this.#session;
    if (lease === undefined) this.fail(error);
    else if (session === undefined) this.#giveUp(this.#timeoutMs, error);
    else {
      this.#session = undefined;
      // First, so that the session is not used again: anything the server still sends on it belongs to this statement.
      session.kill(error);
      this.#attempts.end(outcomes.timeout, { error });
      this.fail(error);
    }
  }

  #finish(): void {
    this.#isDone = true;
    this.#statementTimer?.cancel();
    this.#stopWaiting();
  }

  #stopWaiting(): void {
    this.#waitTimer?.cancel();
    this.#waitTimer = undefined;
  }
}
