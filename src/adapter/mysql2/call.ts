import { type Clock, endpointAddress, type Outcome, outcomes, type Priority, type Timer } from '../../index.js';
import type { AttemptSource, Attempts, CallFacts, CallLease } from '../kit/index.js';
import { LentCall, type SessionUse } from '../sql/lent-call.js';
import type { MysqlCallback } from './connection-methods.js';
import { type MysqlVerdict, queryTimeout, readOnlyOutcome, verdictOf } from './outcome.js';
import type { ServiceRoute } from './route.js';
import type { MysqlServer, MysqlSession } from './session.js';
import { isAlone, isWhole, type RunningStatement, type Statement } from './statement.js';

/**
 * One call of a MySQL cluster, and what it does with the session it was lent: it runs its statement or, without a statement, hands out the
 * connection, which a caller keeps for a while. `done` is called exactly once, with the answer or the connection, never before `begin` has
 * returned.
 */
export class MysqlCall implements SessionUse<MysqlSession> {
  /** Whether rows of the answer have already reached the caller. */
  isAnswering = false;
  readonly #route: ServiceRoute;
  readonly #statement: Statement | undefined;
  readonly #done: MysqlCallback;
  readonly #lent: LentCall<MysqlSession>;
  readonly #beganMs: number;
  /** The timeout of the whole statement, in ms; Infinity = no limit. */
  readonly #timeoutMs: number;
  #statementTimer: Timer | undefined;
  /** The session on which the statement runs; unset while the statement is not running. */
  #session: MysqlSession | undefined;
  /** What mysql2 returned along with an error: the server's answer to LOAD DATA LOCAL, if the client's side of that failed. */
  #rows: unknown;

  /** @param key The call's key for hash pickers. */
  constructor(route: ServiceRoute, statement: Statement | undefined, key: string | undefined, done: MysqlCallback) {
    this.#route = route;
    this.#statement = statement;
    this.#done = done;
    this.#timeoutMs =
      statement === undefined ? Number.POSITIVE_INFINITY : (statement.timeoutMs ?? route.first.settings.queryTimeoutMs);
    this.#beganMs = Number.isFinite(this.#timeoutMs) ? route.first.clock.now() : 0;
    this.#lent = new LentCall(this, key);
  }

  begin(): void {
    if (Number.isFinite(this.#timeoutMs)) {
      this.#statementTimer = this.clock.timer(() => this.#tookTooLong(), this.#timeoutMs);
      this.#statementTimer.ref();
    }
    this.#lent.begin();
  }

  get source(): AttemptSource<MysqlServer> {
    return this.#route.source;
  }

  get clock(): Clock {
    return this.#route.first.clock;
  }

  get waitLimitMs(): number {
    return this.#route.first.waitTimeoutMs;
  }

  facts(): CallFacts {
    return { protocol: 'mysql', method: this.#statement?.method ?? 'getConnection' };
  }

  waitBegan(): void {
    this.#route.first.enqueued();
  }

  /**
   * Whether the call is outside the balancer's `limit`, as every checkout is: how long a caller keeps a connection says nothing about its
   * server, and nobody is rejected in the middle of a transaction.
   */
  get unlimited(): boolean {
    return this.#statement === undefined;
  }

  get priority(): Priority | undefined {
    return this.#statement?.priority;
  }

  /** How much of the statement's timeout is left, in ms. */
  get deadlineMs(): number | undefined {
    if (!Number.isFinite(this.#timeoutMs)) return undefined;
    return this.#beganMs + this.#timeoutMs - this.clock.now();
  }

  isIdempotent(lease: CallLease<MysqlServer>): boolean {
    if (this.#statement === undefined) return false;
    return this.#statement.idempotent ?? this.#route.serviceOf(lease).idempotent;
  }

  use(session: MysqlSession): void {
    session.acquired();
    const statement = this.#statement;
    if (statement === undefined) this.#handOut(session);
    // Sending is put off, because the caller of the statement may still choose to read its rows one by one.
    else if (this.#lent.isBeginning && statement.running !== undefined)
      process.nextTick(() => this.#run(session, statement));
    else this.#run(session, statement);
  }

  settle(error: unknown, result: unknown, fields: unknown): void {
    this.#statementTimer?.cancel();
    if (error === undefined) this.#done(null, result, fields);
    else this.#done(error as Error, this.#rows);
  }

  get #attempts(): Attempts<MysqlServer> {
    return this.#lent.attempts;
  }

  /**
   * Hands the connection of the session to the caller. The lease lasts until the connection is released or gone; its statements are never
   * retried.
   */
  #handOut(session: MysqlSession): void {
    const lease = this.#attempts.conclude(outcomes.success) as CallLease<MysqlServer>;
    session.checkOut((outcome) => {
      // How long a caller keeps a connection does not count as the server's latency.
      lease.end(outcome, null);
      this.#attempts.report(lease, { outcome });
    });
    this.#lent.finish(undefined, session.connection);
  }

  #run(session: MysqlSession, statement: Statement): void {
    this.#session = session;
    const { method, sql, values, running } = statement;
    try {
      if (running?.settle() === true) this.#read(session, statement, running);
      else session.send(method, sql, values, (error, rows, fields) => this.#answered(session, error, rows, fields));
    } catch (error) {
      // mysql2 cannot send the statement (an unsupported value, say), so it would fail at every other server too.
      this.#session = undefined;
      this.#attemptEnded(session, outcomes.cancelled, error);
      this.#lent.fail(error);
    }
  }

  /** Hands out the rows of the answer as they arrive. From now on the timeout limits the time without any row. */
  #read(session: MysqlSession, { method, sql, values }: Statement, running: RunningStatement<unknown>): void {
    this.#statementTimer?.cancel();
    const command = session.read(method, sql, values, this.#timeoutMs);
    const { connection } = session;
    running.began({ pause: () => connection.pause(), resume: () => connection.resume() });
    let failure: Error | null = null;
    command.on('fields', (fields: unknown) => {
      this.isAnswering = true;
      this.#attempts.lease?.progressed();
      running.fields(fields);
    });
    command.on('result', (row: unknown, index: unknown) => {
      this.isAnswering = true;
      running.row(row, index);
    });
    command.on('error', (error: Error) => {
      failure ??= error;
    });
    command.once('end', () => this.#answered(session, failure, undefined, undefined));
  }

  #answered(session: MysqlSession, error: Error | null, rows: unknown, fields: unknown): void {
    if (this.#session !== session) return; // the statement timed out meanwhile
    this.#session = undefined;
    if (!error) {
      this.#attemptEnded(session, outcomes.success);
      this.#lent.finish(undefined, rows, fields);
      return;
    }
    this.#rows = rows;
    const verdict = verdictOf(error);
    const lease = this.#attempts.lease as CallLease<MysqlServer>;
    if (!verdict.usable) session.kill(error);
    else if (verdict.discard) session.discard();
    // The lease ends now and does not wait until nothing runs on the session.
    session.release();
    const repeatAs = this.#isUnsent(verdict, lease) ? outcomes.notStarted : verdict.outcome;
    this.#lent.failed(verdict.outcome, repeatAs, error);
  }

  /**
   * Whether a refused statement provably had no effect. A server that is read-only or not in sync refuses each statement as a whole; if
   * several were sent as one, or one ran others, the first may have been executed.
   */
  #isUnsent({ unsent, outcome }: MysqlVerdict, lease: CallLease<MysqlServer>): boolean {
    if (!unsent || outcome.kind === 'not-started') return unsent;
    const statement = this.#statement;
    const { writable, settings } = this.#route.serviceOf(lease);
    const { multipleStatements, flags } = settings.mysql;
    if (statement === undefined || multipleStatements === true || /MULTI_STATEMENTS/i.test(String(flags))) return false;
    return outcome === readOnlyOutcome ? writable && isWhole(statement) : isAlone(statement);
  }

  /** Ends an attempt whose end does not count against the server: the lease lasts until nothing runs on the session. */
  #attemptEnded(session: MysqlSession, outcome: Outcome, error?: unknown): void {
    const lease = this.#attempts.conclude() as CallLease<MysqlServer>;
    session.release(() => lease.end(outcome));
    this.#attempts.report(lease, { outcome, error });
  }

  /** The statement's timeout has passed, whatever the call is waiting for. */
  #tookTooLong(): void {
    const { lease } = this.#attempts;
    const error = queryTimeout(lease && endpointAddress(lease.endpoint), this.#timeoutMs);
    const session = this.#session;
    if (lease === undefined) this.#lent.fail(error);
    else if (session === undefined) this.#lent.notLentInTime(this.#timeoutMs, error);
    else {
      this.#session = undefined;
      // The session is killed first, so that it is not used again: anything the server still sends on it belongs to this statement.
      session.kill(error);
      this.#lent.ended(outcomes.timeout, error);
    }
  }
}
