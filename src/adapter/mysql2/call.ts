import type { Pool, PoolConnection } from 'mysql2';
import { EvenkeelError, endpointAddress, type Lease, type Outcome, outcomes, type Timer } from '../../index.js';
import { TriedEndpoints } from '../kit/index.js';
import { AcquireTimeout } from './acquire-timeout.js';
import type { Borrower, NotLent } from './borrower.js';
import { Checkout, reportAttempt } from './checkout.js';
import { readOnlyOutcome, type Verdict, verdictOf } from './outcome.js';
import type { Answer } from './pending-statement.js';
import type { Route } from './route.js';
import type { RowReader } from './running-statement.js';
import type { Session, SessionHolder } from './session.js';
import { queryTimeout } from './session-errors.js';
import { isWhole, type Statement } from './statement.js';

/** So often a call moves on because its server left before it had a connection; from then on each move costs as a retry does. */
const MAX_MOVES = 100;

/** What a call is to end in: the answer to a statement, or a connection for a caller to keep for a while. */
export type Task =
  | { readonly kind: 'statement'; readonly statement: Statement; readonly done: Answer; readonly reader?: RowReader }
  | {
      readonly kind: 'checkout';
      readonly key: string | undefined;
      readonly done: (error: Error | null, connection?: PoolConnection) => void;
    };

/**
 * One call over all its attempts: picks a server, borrows a connection, runs the statement or hands the connection out,
 * reports how it went, and goes elsewhere with what is safe to repeat. `done` is called exactly once, never before
 * `begin` has returned.
 */
export class Call implements Borrower, SessionHolder {
  readonly #route: Route;
  readonly #task: Task;
  readonly #key: string | undefined;
  /** The time-out of the statement, from here to its answer, in ms. */
  readonly #timeoutMs: number;
  #attempt = 0;
  /** Attempts that ended because the server left, before anything was sent. */
  #moves = 0;
  /** The retry budget knows of this call. */
  #counted = false;
  #lease: Lease<Pool> | undefined;
  /** While the statement runs on it. */
  #session: Session | undefined;
  /** How the attempt under way ended. */
  #outcome: Outcome = outcomes.success;
  #tried: TriedEndpoints<Pool> | undefined;
  /** Rows of the answer were handed out. */
  #isAnswering = false;
  /** Ends the waiting for a server. */
  #waiting: AbortController | undefined;
  /** Unset while a connection was always at hand, as it mostly is. */
  #acquireTimeout: AcquireTimeout | undefined;
  #statementTimer: Timer | undefined;
  #done = false;

  constructor(route: Route, task: Task) {
    this.#route = route;
    this.#task = task;
    this.#key = task.kind === 'statement' ? task.statement.key : task.key;
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
    const lease = this.#route.pick(this.#key, undefined);
    if (lease === undefined) this.#wait(undefined);
    else this.#use(lease);
  }

  lent(session: Session): void {
    const lease = this.#lease as Lease<Pool>;
    if (this.#done) {
      // The caller has been told by now that it took too long.
      this.#outcome = outcomes.cancelled;
      session.release(this);
      return;
    }
    this.#acquireTimeout?.answered(true);
    const task = this.#task;
    if (task.kind === 'checkout') {
      this.#finish(null);
      session.checkOut(new Checkout(this.#route.serviceOf(lease), lease, this.#attempt));
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
      // What the caller asks for cannot be sent: nobody else could do it, either.
      this.#session = undefined;
      this.#outcome = outcomes.cancelled;
      session.release(this);
      this.#report(lease, outcomes.cancelled, false, error as Error);
      this.#fail(error as Error);
    }
  }

  notLent(error: EvenkeelError, why: NotLent): void {
    const lease = this.#lease as Lease<Pool>;
    if (this.#done) {
      lease.end(outcomes.cancelled);
      return;
    }
    this.#acquireTimeout?.answered(false);
    if (why === 'full' && this.#time.restMs > 0) {
      // No attempt: the next of its connections that is given back will do, or one of another server.
      lease.end(outcomes.notStarted);
      this.#attempt--;
      this.#wait(undefined);
    } else if (why === 'left' && this.#moves < MAX_MOVES) this.#moveOn(lease, error);
    else if (why === 'unresponsive') this.#attemptFailed(lease, outcomes.timeout, outcomes.notStarted, error);
    else this.#attemptFailed(lease, outcomes.notConnected, outcomes.notConnected, error);
  }

  /** A handshake or a ping is under way: it counts as waiting. */
  waits(): void {
    if (!this.#done) this.#time.waits(() => this.#obtainedNothing());
  }

  /** The session is free again, or gone. */
  released(): void {
    this.#lease?.end(this.#outcome);
  }

  #use(lease: Lease<Pool>): void {
    const service = this.#route.serviceOf(lease);
    if (!this.#counted) service.balancer.retries.started();
    this.#counted = true;
    this.#attempt++;
    this.#lease = lease;
    this.#acquireTimeout?.picked();
    const server = service.transport.serverOf(lease.handle);
    if (server !== undefined) {
      server.borrow(this);
      return;
    }
    const error = new EvenkeelError('EVENKEEL_CONNECT', `${lease.endpoint.key} is not connected to`);
    service.clock.defer(() => this.notLent(error, 'refused'));
  }

  /** Hands out the rows as they come. From here on the time-out is for the time in which nothing comes. */
  #read(session: Session, statement: Statement, reader: RowReader): void {
    this.#statementTimer?.cancel();
    const command = session.read(statement, this.#timeoutMs);
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
    const lease = this.#lease as Lease<Pool>;
    if (!error) {
      this.#outcome = outcomes.success;
      session.release(this);
      this.#report(lease, outcomes.success, false, undefined);
      this.#finish(null);
      (this.#task.done as Answer)(null, rows, fields);
      return;
    }
    const verdict = verdictOf(error);
    this.#outcome = verdict.outcome;
    if (!verdict.usable) session.kill(error);
    else if (verdict.discard) session.discard();
    session.release(this);
    const safe = this.#isRefusedUnsent(verdict, lease) ? outcomes.notStarted : verdict.outcome;
    this.#attemptFailed(lease, verdict.outcome, safe, error);
  }

  /** A writer that has become read-only refuses a statement as a whole; of several in one, the first may have been done. */
  #isRefusedUnsent({ unsent, outcome }: Verdict, lease: Lease<Pool>): boolean {
    if (!unsent || outcome !== readOnlyOutcome) return unsent;
    const { writable, settings } = this.#route.serviceOf(lease);
    const { multipleStatements, flags } = settings.mysql;
    const isOne = multipleStatements !== true && !/MULTI_STATEMENTS/i.test(String(flags));
    return writable && isOne && this.#task.kind === 'statement' && isWhole(this.#task.statement);
  }

  /** `outcome` is for the stages and the load, `safe` says whether it may be repeated. */
  #attemptFailed(lease: Lease<Pool>, outcome: Outcome, safe: Outcome, error: Error): void {
    lease.end(outcome);
    const { balancer } = this.#route.serviceOf(lease);
    const retrying =
      !this.#done &&
      balancer.retries.allows({
        outcome: safe,
        idempotent: this.#isIdempotent(lease),
        answered: this.#isAnswering,
        tried: this.#attempt - this.#moves,
      });
    this.#report(lease, outcome, retrying, error);
    if (!retrying) {
      this.#fail(error);
      return;
    }
    this.#tried ??= new TriedEndpoints();
    this.#tried.add(lease, safe);
    this.#wait(error);
  }

  /** Its server left, and it was not tried there: nothing the retry rules would count, or the budget pay for. */
  #moveOn(lease: Lease<Pool>, error: EvenkeelError): void {
    this.#moves++;
    lease.end(outcomes.notStarted);
    this.#route.serviceOf(lease).balancer.retries.moved();
    this.#report(lease, outcomes.notStarted, true, error);
    this.#tried ??= new TriedEndpoints();
    this.#tried.add(lease, outcomes.notStarted);
    this.#wait(error, true);
  }

  #isIdempotent(lease: Lease<Pool>): boolean {
    const task = this.#task;
    if (task.kind === 'checkout') return false;
    return task.statement.idempotent ?? this.#route.serviceOf(lease).idempotent;
  }

  /**
   * Waits for a server; with `failure`, the error of the attempt before, for one to try again on. `moved`: the attempt did not
   * fail, so if no server can be had that is what the caller is told.
   */
  #wait(failure: Error | undefined, moved = false): void {
    const waiting = new AbortController();
    this.#waiting = waiting;
    const acquire = async (): Promise<Lease<Pool>> => {
      // A server that failed just now is taken out within this turn; only then is it clear who is left.
      if (failure !== undefined) await undefined;
      return this.#route.acquire(this.#key, this.#tried?.avoid, waiting, this.#time.restMs);
    };
    acquire().then(
      (lease) => {
        this.#waiting = undefined;
        if (!this.#done && this.#tried?.allows(lease) !== false) {
          this.#use(lease);
          return;
        }
        lease.end(outcomes.notStarted);
        if (failure !== undefined) this.#fail(failure);
      },
      (error) => {
        this.#waiting = undefined;
        this.#fail(moved ? error : (failure ?? error));
      },
    );
  }

  get #time(): AcquireTimeout {
    const { clock, waitTimeoutMs } = this.#route.first;
    this.#acquireTimeout ??= new AcquireTimeout(clock, waitTimeoutMs);
    return this.#acquireTimeout;
  }

  /** A server was picked, but a connection could not be had in time. */
  #obtainedNothing(): void {
    const lease = this.#lease as Lease<Pool>;
    const { limitMs } = this.#time;
    const address = endpointAddress(lease.endpoint);
    const error = new EvenkeelError('EVENKEEL_NOT_READY', `no connection to ${address} within ${limitMs} ms`, {
      endpoint: address,
    });
    this.#gaveUp(lease, limitMs, error);
    this.#fail(error);
  }

  /** No connection came from a server within `limitMs`: its failure, if it had half of that time or more to itself. */
  #gaveUp(lease: Lease<Pool>, limitMs: number, error: Error): void {
    const outcome = this.#time.spentMs >= limitMs / 2 ? outcomes.timeout : outcomes.cancelled;
    lease.end(outcome);
    this.#report(lease, outcome, false, error);
  }

  /** The statement's own time is over, wherever it stands. */
  #tookTooLong(): void {
    const session = this.#session;
    const lease = this.#lease;
    if (session === undefined || lease === undefined) {
      const where = lease === undefined || this.#waiting !== undefined ? undefined : endpointAddress(lease.endpoint);
      this.#waiting?.abort();
      const error = queryTimeout(where, this.#timeoutMs);
      if (this.#waiting === undefined && lease !== undefined) this.#gaveUp(lease, this.#timeoutMs, error);
      this.#fail(error);
      return;
    }
    const error = queryTimeout(endpointAddress(lease.endpoint), this.#timeoutMs);
    this.#session = undefined;
    // First, so that the connection is not used again: whatever the server still sends on it belongs to this statement.
    session.kill(error);
    lease.end(outcomes.timeout);
    this.#report(lease, outcomes.timeout, false, error);
    this.#fail(error);
  }

  #fail(error: Error): void {
    if (this.#done) return;
    this.#finish(error);
    this.#task.done(error);
  }

  #finish(_error: Error | null): void {
    this.#done = true;
    this.#statementTimer?.cancel();
    this.#acquireTimeout?.stop();
  }

  #report(lease: Lease<Pool>, outcome: Outcome, retrying: boolean, error: Error | undefined): void {
    const attempt = this.#attempt;
    const report = { attempt, outcome, retrying, ...(error !== undefined && { error }) };
    reportAttempt(this.#route.serviceOf(lease), lease, report);
  }
}
