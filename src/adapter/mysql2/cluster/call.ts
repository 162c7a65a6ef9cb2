import type { Pool, PoolConnection } from 'mysql2';
import { EvenkeelError, endpointAddress, type Lease, type Outcome, outcomes, type Timer } from '../../../index.js';
import { type AttemptedCall, Attempts } from '../../kit/index.js';
import { queryTimeout, readOnlyOutcome, type Verdict, verdictOf } from '../outcome.js';
import type { Borrower, NotLent } from '../server/borrower.js';
import type { Answer } from '../server/pending-statement.js';
import type { Session, SessionHolder } from '../server/session.js';
import { AcquireTimeout } from './acquire-timeout.js';
import { Checkout } from './checkout.js';
import type { Route } from './route.js';
import type { RowReader } from './running-statement.js';
import { isWhole, type Statement } from './statement.js';

/** What a call is to end in: the answer to a statement, or a connection for a caller to keep for a while. */
export type Task =
  | { readonly kind: 'statement'; readonly statement: Statement; readonly done: Answer; readonly reader?: RowReader }
  | {
      readonly kind: 'checkout';
      readonly key: string | undefined;
      readonly done: (error: Error | null, connection?: PoolConnection) => void;
    };

/**
 * One call over all its attempts: each borrows a connection of a server, and runs the statement on it or hands it out.
 * `done` is called exactly once, never before `begin` has returned.
 */
export class Call implements AttemptedCall<Pool>, Borrower, SessionHolder {
  readonly #route: Route;
  readonly #task: Task;
  readonly #attempts: Attempts<Pool>;
  /** The time-out of the statement, from here to its answer, in ms. */
  readonly #timeoutMs: number;
  /** Of the session the statement was given; it lasts until that is free again. */
  #held: Lease<Pool> | undefined;
  /** While the statement runs on it. */
  #session: Session | undefined;
  /** How the attempt under way ended. */
  #outcome: Outcome = outcomes.success;
  /** Rows of the answer were handed out. */
  #isAnswering = false;
  /** Unset while a connection was always at hand, as it mostly is. */
  #acquireTimeout: AcquireTimeout | undefined;
  #statementTimer: Timer | undefined;
  #done = false;

  constructor(route: Route, task: Task) {
    this.#route = route;
    this.#task = task;
    this.#attempts = new Attempts(route, this, task.kind === 'statement' ? task.statement.key : task.key);
    this.#timeoutMs =
      task.kind === 'statement'
        ? (task.statement.timeoutMs ?? route.first.settings.queryTimeoutMs)
        : Number.POSITIVE_INFINITY;
  }

  begin(): void {
    if (Number.isFinite(this.#timeoutMs)) {
      this.#statementTimer = this.#route.first.clock.timer(() => this.#tookTooLong(), this.#timeoutMs);
      this.#statementTimer.ref();
    }
    if (!this.#attempts.begin()) this.#attempts.wait();
  }

  send(lease: Lease<Pool>): void {
    const service = this.#route.serviceOf(lease);
    this.#acquireTimeout?.picked();
    const server = service.transport.serverOf(lease.handle);
    if (server !== undefined) {
      server.borrow(this);
      return;
    }
    const error = new EvenkeelError('EVENKEEL_CONNECT', `${lease.endpoint.key} is not connected to`);
    service.clock.defer(() => this.notLent(error, 'refused'));
  }

  get waitTimeoutMs(): number {
    return this.#time.restMs;
  }

  lent(session: Session): void {
    const lease = this.#attempts.lease as Lease<Pool>;
    this.#held = lease;
    if (this.#done) {
      // The caller has been told by now that it took too long.
      session.release(undefined);
      return;
    }
    this.#acquireTimeout?.answered(true);
    const task = this.#task;
    if (task.kind === 'checkout') {
      this.#finish();
      this.#attempts.conclude();
      session.checkOut(new Checkout(lease, this.#attempts.number));
      task.done(null, session.connection);
      return;
    }
    this.#session = session;
    const { method, sql, values } = task.statement;
    const { reader } = task;
    try {
      if (reader?.settle() === true) this.#read(session, task.statement, reader);
      else session.send(method, sql, values, (error, rows, fields) => this.#answered(session, error, rows, fields));
    } catch (error) {
      // The statement cannot be sent, so no other server could run it either.
      this.#session = undefined;
      this.#end(session, outcomes.cancelled, error);
      this.fail(error);
    }
  }

  notLent(error: EvenkeelError, why: NotLent): void {
    // If it is over, it took too long: its lease has ended.
    if (this.#done) return;
    this.#acquireTimeout?.answered(false);
    // The next of its connections that is given back will do, or one of another server.
    if (why === 'full' && this.#time.restMs > 0) this.#attempts.giveBack();
    else if (why === 'left') this.#attemptFailed(outcomes.notStarted, outcomes.notStarted, error, true);
    else if (why === 'unresponsive') this.#attemptFailed(outcomes.timeout, outcomes.notStarted, error);
    else this.#attemptFailed(outcomes.notConnected, outcomes.notConnected, error);
  }

  /** A handshake or a ping is under way: it counts as waiting. */
  waits(): void {
    if (!this.#done) this.#time.waits(() => this.#obtainedNothing());
  }

  /** The session is free again, or gone. */
  released(): void {
    this.#held?.end(this.#outcome);
  }

  /** Hands out the rows as they come. From here on the time-out is for the time in which nothing comes. */
  #read(session: Session, { method, sql, values }: Statement, reader: RowReader): void {
    this.#statementTimer?.cancel();
    const command = session.read(method, sql, values, this.#timeoutMs);
    const { connection } = session;
    reader.began({ pause: () => connection.pause(), resume: () => connection.resume() });
    let failure: Error | null = null;
    command.on('fields', (fields: unknown) => {
      this.#isAnswering = true;
      reader.fields(fields);
    });
    command.on('result', (row: unknown, index: unknown) => {
      this.#isAnswering = true;
      reader.row(row, index);
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
      this.#end(session, outcomes.success);
      this.#finish();
      (this.#task.done as Answer)(null, rows, fields);
      return;
    }
    const verdict = verdictOf(error);
    const lease = this.#attempts.lease as Lease<Pool>;
    if (!verdict.usable) session.kill(error);
    else if (verdict.discard) session.discard();
    // Not told when it is free: the lease ends now.
    session.release(undefined);
    const safe = this.#isRefusedUnsent(verdict, lease) ? outcomes.notStarted : verdict.outcome;
    this.#attemptFailed(verdict.outcome, safe, error);
  }

  /** A writer that has become read-only refuses a statement as a whole; of several in one, the first may have been done. */
  #isRefusedUnsent({ unsent, outcome }: Verdict, lease: Lease<Pool>): boolean {
    if (!unsent || outcome !== readOnlyOutcome) return unsent;
    const { writable, settings } = this.#route.serviceOf(lease);
    const { multipleStatements, flags } = settings.mysql;
    const isOne = multipleStatements !== true && !/MULTI_STATEMENTS/i.test(String(flags));
    return writable && isOne && this.#task.kind === 'statement' && isWhole(this.#task.statement);
  }

  /** The attempt succeeded, or never was one: its lease lasts until the session is free. */
  #end(session: Session, outcome: Outcome, error?: unknown): void {
    this.#outcome = outcome;
    const lease = this.#attempts.conclude() as Lease<Pool>;
    session.release(this);
    this.#attempts.report(lease, { outcome, error });
  }

  /** `outcome` is for the stages and the load, `safe` says whether it may be repeated. */
  #attemptFailed(outcome: Outcome, safe: Outcome, error: Error, untried = false): void {
    const idempotent = this.#isIdempotent(this.#attempts.lease as Lease<Pool>);
    this.#attempts.fail({ outcome, repeatAs: safe, error, untried, idempotent, answered: this.#isAnswering });
  }

  #isIdempotent(lease: Lease<Pool>): boolean {
    const task = this.#task;
    if (task.kind === 'checkout') return false;
    return task.statement.idempotent ?? this.#route.serviceOf(lease).idempotent;
  }

  get #time(): AcquireTimeout {
    const { clock, waitTimeoutMs } = this.#route.first;
    this.#acquireTimeout ??= new AcquireTimeout(clock, waitTimeoutMs);
    return this.#acquireTimeout;
  }

  /** A server was picked, but a connection could not be had in time. */
  #obtainedNothing(): void {
    const { endpoint } = this.#attempts.lease as Lease<Pool>;
    const { limitMs } = this.#time;
    const address = endpointAddress(endpoint);
    const error = new EvenkeelError('EVENKEEL_NOT_READY', `no connection to ${address} within ${limitMs} ms`, {
      endpoint: address,
    });
    this.#gaveUp(limitMs, error);
  }

  /** No connection came from a server within `limitMs`: its failure, if it had half of that time or more to itself. */
  #gaveUp(limitMs: number, error: Error): void {
    const outcome = this.#time.spentMs >= limitMs / 2 ? outcomes.timeout : outcomes.cancelled;
    this.#attempts.end(outcome, { error });
    this.fail(error);
  }

  /** The statement's own time is over, wherever it stands. */
  #tookTooLong(): void {
    const { lease } = this.#attempts;
    const error = queryTimeout(lease && endpointAddress(lease.endpoint), this.#timeoutMs);
    const session = this.#session;
    if (lease === undefined) this.fail(error);
    else if (session === undefined) this.#gaveUp(this.#timeoutMs, error);
    else {
      this.#session = undefined;
      // First, so that the connection is not used again: whatever the server still sends on it belongs to this statement.
      session.kill(error);
      this.#attempts.end(outcomes.timeout, { error });
      this.fail(error);
    }
  }

  fail(error: unknown): void {
    if (this.#done) return;
    this.#finish();
    this.#attempts.stop();
    this.#task.done(error as Error);
  }

  #finish(): void {
    this.#done = true;
    this.#statementTimer?.cancel();
    this.#acquireTimeout?.stop();
  }
}
