import type { Pool } from 'mysql2';
import { type Clock, endpointAddress, type Outcome, outcomes, type Priority, type Timer } from '../../../index.js';
import type { AttemptSource, Attempts, CallFacts, CallLease } from '../../kit/index.js';
import { LentCall, type SessionUse } from '../../sql/lent-call.js';
import { type MysqlVerdict, queryTimeout, readOnlyOutcome, verdictOf } from '../outcome.js';
import type { MysqlCallback } from '../server/connection-methods.js';
import type { ServerConnection } from '../server/server-connection.js';
import type { MysqlSession } from '../server/session.js';
import type { ServiceRoute } from './route.js';
import { isWhole, type RunningStatement, type Statement } from './statement.js';

/**
 * What a call does with the session of the server that was picked: runs its statement or, without one, hands out the connection for the
 * caller to keep for a while. `done` is called exactly once, with the answer or the connection, never before `begin` has returned.
 */
export class MysqlCall implements SessionUse<MysqlSession, Pool> {
  /** Whether rows of the answer have been handed out to the caller. */
  isAnswering = false;
  readonly #route: ServiceRoute;
  readonly #statement: Statement | undefined;
  readonly #done: MysqlCallback;
  readonly #lent: LentCall<MysqlSession, Pool>;
  readonly #beganMs: number;
  /** The timeout of the whole statement, in ms; Infinity = no limit. */
  readonly #timeoutMs: number;
  #statementTimer: Timer | undefined;
  /** The session that the statement runs on; set while it runs. */
  #session: MysqlSession | undefined;
  /** What mysql2 returned along with an error: the server's answer to LOAD DATA LOCAL, if our side of that failed. */
  #rows: unknown;

  /** @param key The key for hash pickers. */
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

  get source(): AttemptSource<Pool> {
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

  poolOf({ subchannel, handle }: CallLease<Pool>): ServerConnection | undefined {
    const { connection } = subchannel;
    // The transport of every service makes connections of this class. The connection to the picked server may be lost or replaced by now.
    return connection?.handle === handle ? (connection as ServerConnection) : undefined;
  }

  waitBegan(): void {
    this.#route.first.enqueued();
  }

  /**
   * Whether the call has no time limit: how long a caller keeps a connection says nothing about its server, and nobody is sent away in the
   * middle of a transaction.
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

  isIdempotent(lease: CallLease<Pool>): boolean {
    if (this.#statement === undefined) return false;
    return this.#statement.idempotent ?? this.#route.serviceOf(lease).idempotent;
  }

  use(session: MysqlSession): void {
    session.acquired();
    const statement = this.#statement;
    if (statement === undefined) this.#handOut(session);
    // The caller of the statement may still choose to read its rows one by one.
    else if (this.#lent.isBeginning && statement.running !== undefined)
      process.nextTick(() => this.#run(session, statement));
    else this.#run(session, statement);
  }

  settle(error: unknown, result: unknown, fields: unknown): void {
    this.#statementTimer?.cancel();
    if (error === undefined) this.#done(null, result, fields);
    else this.#done(error as Error, this.#rows);
  }

  get #attempts(): Attempts<Pool> {
    return this.#lent.attempts;
  }

  /** The caller keeps the connection: the lease lasts until it is released or gone. Nothing on it is ever retried. */
  #handOut(session: MysqlSession): void {
    const lease = this.#attempts.conclude(outcomes.success) as CallLease<Pool>;
    session.checkOut((outcome) => {
      // How long a caller keeps a connection says nothing about the server.
      lease.end(outcome, null);
      this.#attempts.report(lease, { outcome });
    });
    this.#lent.finish(undefined, session.connection);
  }

  #run(session: MysqlSession, statement: Statement): void {
    this.#session = session;
    this.#attempts.noted('statement');
    const { method, sql, values, running } = statement;
    try {
      if (running?.settle() === true) this.#read(session, statement, running);
      else session.send(method, sql, values, (error, rows, fields) => this.#answered(session, error, rows, fields));
    } catch (error) {
      // mysql2 cannot send the statement, so no other server could run it either.
      this.#session = undefined;
      this.#attemptEnded(session, outcomes.cancelled, error);
      this.#lent.fail(error);
    }
  }

  /** Hands out the rows as they arrive. From now on the timeout limits the time without any row. */
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
    if (this.#session !== session) return; // timed out meanwhile
    this.#session = undefined;
    if (!error) {
      this.#attemptEnded(session, outcomes.success);
      this.#lent.finish(undefined, rows, fields);
      return;
    }
    this.#rows = rows;
    const verdict = verdictOf(error);
    const lease = this.#attempts.lease as CallLease<Pool>;
    const { errno } = error as { readonly errno?: unknown };
    // Only the server's own errors have positive numbers: those of the system are negative.
    const { note } = this.#attempts;
    if (note !== undefined && typeof errno === 'number' && errno > 0) note.status = errno;
    if (!verdict.usable) session.kill(error);
    else if (verdict.discard) session.discard();
    // The lease does not wait for the session to be free: it ends now.
    session.release();
    const repeatAs = this.#isUnsent(verdict, lease) ? outcomes.notStarted : verdict.outcome;
    this.#lent.failed(verdict.outcome, repeatAs, error);
  }

  /**
   * Whether a statement that the server refused had no effect. A server that is read-only refuses a whole statement; if there are several
   * statements in one, the first may have been done.
   */
  #isUnsent({ unsent, outcome }: MysqlVerdict, lease: CallLease<Pool>): boolean {
    if (!unsent || outcome !== readOnlyOutcome) return unsent;
    const { writable, settings } = this.#route.serviceOf(lease);
    const { multipleStatements, flags } = settings.mysql;
    const isOne = multipleStatements !== true && !/MULTI_STATEMENTS/i.test(String(flags));
    return writable && isOne && this.#statement !== undefined && isWhole(this.#statement);
  }

  /** The call is over, and the server is not to blame for its end: the lease lasts until the session is free. */
  #attemptEnded(session: MysqlSession, outcome: Outcome, error?: unknown): void {
    const lease = this.#attempts.conclude() as CallLease<Pool>;
    const { note } = this.#attempts;
    session.release(() => lease.end(outcome, undefined, note));
    this.#attempts.report(lease, { outcome, error });
  }

  /** The statement's timeout is over, whatever the call is doing. */
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
