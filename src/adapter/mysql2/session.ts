import type { Socket } from 'node:net';
import type { PoolConnection } from 'mysql2';
import { type Clock, type Endpoint, EvenkeelError, type Outcome, outcomes, type Timer } from '../../index.js';
import type { EndedBy, OwnAnswer, PooledSession, SessionOwner } from '../sql/session.js';
import type { SessionPool } from '../sql/session-pool.js';
import {
  type Command,
  type ConnectionMethods,
  ConnectionStatements,
  type Method,
  type MysqlCallback,
} from './connection-methods.js';
import type { Credentials } from './credentials.js';
import { endsGracefully, nameServer, onTransactionState, replaceMethods, reset, sayGoodbye } from './internals.js';
import { connectionLost, isFarewell, isQueryTimeout, verdictOf } from './outcome.js';
import { isApplicationError } from './own-functions.js';

/** Called once, when a session is free again or gone. `outcome` is that of the statements that its user ran on the connection itself. */
export type Freed = (outcome: Outcome) => void;

/** What a session to a MySQL server needs from the one who opens it. */
export interface SessionParts {
  readonly clock: Clock;
  readonly endpoint: Endpoint;
  readonly address: string;
  /** How long statements without a `timeout` on a checked-out connection may take, in ms; Infinity = no limit. */
  readonly queryTimeoutMs: number;
  /** Whether a session makes its server forget what a user has set, when that user gives the session back. */
  readonly resetsOnRelease: boolean;
  readonly acquired: (connection: PoolConnection) => void;
  readonly released: (connection: PoolConnection) => void;
  /** Called when a session was given back in the middle of a transaction, and is closed. */
  readonly leftOpen: () => void;
}

/** MySQL's ping, as a query of evenkeel's own. All other queries of evenkeel's own are the text of a statement. */
export const PING: unique symbol = Symbol('ping');

/** A `typeCast` that keeps values unchanged. Only a function overrides a `typeCast` of the application. */
const asItIs = (_field: unknown, next: () => unknown): unknown => next();

/** How long a server may take to hang up, or to answer a reset, in ms. */
const PATIENCE_MS = 1_000;

/** One MySQL server, with the pool of sessions that evenkeel keeps to it. */
export type MysqlServer = SessionPool<MysqlSession>;

/**
 * One connection of a mysql2 pool, from its handshake to its end. It replaces methods of the connection, to know what a user does who has
 * the connection checked out.
 */
export class MysqlSession implements PooledSession {
  readonly connection: PoolConnection;
  /** The credentials with which the session logged in, if functions of the application provided them. */
  readonly credentials: Credentials | undefined;
  unusedSinceMs = 0;
  expiresAtMs: number = Number.POSITIVE_INFINITY;
  idleSinceMs: number;
  uses = 0;
  isIdle = false;
  isUsed = false;
  readonly #socket: Socket;
  readonly #parts: SessionParts;
  readonly #owner: SessionOwner<MysqlSession>;
  /** mysql2's own methods of the connection, which evenkeel's replace. */
  readonly #methods: ConnectionMethods;
  /**
   * The statements of the session's user; unset until the user runs a statement on the connection itself, or an answer is read by events.
   */
  #statements: ConnectionStatements | undefined;
  #state: 'open' | 'leaving' | 'dead' = 'open';
  #endedBy: EndedBy = 'server';
  #freed: Freed | undefined;
  /** Whether a statement or a user has the session. */
  #isAcquired = false;
  /** Whether the session was given back while statements still ran on it. */
  #isReleased = false;
  /** The outcome of the first failure among the statements of the session's present user. */
  #outcome: Outcome = outcomes.success;
  /** Whether a transaction was open after the last statement whose answer said so. */
  #isInTransaction = false;
  /** Whether the session is closed when its present user gives it back. */
  #isDiscarded = false;
  /** The error with which the session was killed. */
  #killedFor: Error | undefined;
  /** The timer that runs until the server has answered a reset of the session. */
  #resetTimer: Timer | undefined;

  constructor(
    connection: PoolConnection,
    socket: Socket,
    credentials: Credentials | undefined,
    parts: SessionParts,
    owner: SessionOwner<MysqlSession>,
  ) {
    this.connection = connection;
    this.credentials = credentials;
    this.idleSinceMs = parts.clock.now();
    this.#socket = socket;
    this.#parts = parts;
    this.#owner = owner;
    this.#methods = replaceMethods<ConnectionMethods>(connection, {
      release: () => this.release(),
      destroy: () => this.#destroyedByUser(),
      query: (...args: unknown[]) => this.#ownStatements.run('query', args),
      execute: (...args: unknown[]) => this.#ownStatements.run('execute', args),
      end: (ended?: (error?: Error) => void) => this.#endedByUser(ended),
    });
    nameServer(connection, parts.endpoint);
    // The error listener is never removed: mysql2 may report several errors, and one without a listener ends the process.
    connection.on('error', (error: Error) => this.#end(error));
    connection.on('end', () => this.#end(undefined));
    socket.once('close', () => this.#end(undefined));
  }

  get isAlive(): boolean {
    return this.#state === 'open';
  }

  get isOccupied(): boolean {
    return this.#statements?.areRunning === true || this.#isInTransaction;
  }

  get #isBusy(): boolean {
    return this.#state === 'open' && !this.isIdle;
  }

  ref(): void {
    this.#socket.ref();
  }

  unref(): void {
    this.#socket.unref();
  }

  /** Notes that a statement or a user has the session from now on. */
  acquired(): void {
    this.#isAcquired = true;
    this.#parts.acquired(this.connection);
  }

  /** Lends the session to a caller that keeps it until it releases it. */
  checkOut(freed: Freed): void {
    this.#freed = freed;
    if (!this.isAlive) this.#free();
  }

  runOwn(query: unknown, answer: OwnAnswer): void {
    if (query === PING) {
      this.connection.ping((error) => answer(error));
      return;
    }
    const statement = { sql: query, rowsAsArray: false, nestTables: false, typeCast: asItIs };
    this.send('query', statement, undefined, (error, rows) => answer(error, rows));
  }

  /** Runs one statement. Throws what mysql2 throws for its arguments; then nothing was sent. */
  send(method: Method, sql: unknown, values: unknown, answer: MysqlCallback): void {
    onTransactionState(this.#methods[method].call(this.connection, sql, values, answer), this.#noteTransaction);
  }

  /** Runs a statement as `send` does, with an answer that is read by events; see `ConnectionStatements.read`. */
  read(method: Method, sql: unknown, values: unknown, limitMs: number): Command {
    return this.#ownStatements.read(method, sql, values, limitMs);
  }

  release(freed?: Freed): void {
    if (freed !== undefined) this.#freed = freed;
    if (!this.isAlive) {
      this.#free();
      return;
    }
    if (this.isIdle || this.#resetTimer !== undefined) return;
    if (this.#statements?.areRunning) {
      this.#isReleased = true;
      return;
    }
    if (this.#isDiscarded) this.quit();
    else if (this.#parts.resetsOnRelease && this.#isAcquired) this.#reset();
    else if (this.#isInTransaction) {
      // The next caller's statements would be part of that transaction, and be lost with it.
      this.#parts.leftOpen();
      this.discard();
      this.quit();
    } else this.#giveBack();
  }

  #reset(): void {
    this.#resetTimer = this.#cutUnless(() => this.#resetTimer === undefined, 'did not answer a reset');
    reset(this.connection, (error) => {
      this.#resetTimer?.cancel();
      this.#resetTimer = undefined;
      if (!this.isAlive) return;
      this.#isInTransaction = false;
      if (error) this.quit();
      else this.#giveBack();
    });
  }

  #giveBack(): void {
    const wasAcquired = this.#isAcquired;
    const free = this.#takeFreed();
    this.uses++;
    if (wasAcquired) this.#parts.released(this.connection);
    this.#owner.freed(this);
    free();
  }

  /** Makes the session close, instead of being kept, when it is given back. Its server is not to blame. */
  discard(): void {
    this.#isDiscarded = true;
    this.#endedBy = 'application';
  }

  /** Ends the session in an orderly way, so that the server does not log an aborted client. Called only while no statement runs. */
  quit(): void {
    if (!this.isAlive) return;
    const wasBusy = this.#isBusy;
    this.#state = 'leaving';
    const hangUp = (): void => {
      sayGoodbye(this.connection);
      this.#methods.destroy.call(this.connection);
    };
    // mysql2 reports an error before its command has ended: a QUIT sent from there would wait behind that command forever.
    if (wasBusy) this.#parts.clock.defer(hangUp);
    else hangUp();
    this.#cutUnless(() => this.#socket.destroyed, 'did not hang up');
    this.#free();
  }

  /** Ends the session at once; a statement that runs on it fails with `error`. */
  kill(error: Error): void {
    if (this.#state === 'dead') return;
    this.#endNow(error, isApplicationError(error) ? 'application' : isQueryTimeout(error) ? 'limit' : 'server');
  }

  cut(error: Error): void {
    if (this.#state !== 'dead') this.#endNow(error, 'application');
  }

  #endNow(error: Error, endedBy: EndedBy): void {
    this.#endedBy = endedBy;
    this.#killedFor = error;
    // With an error, mysql2 fails the statements that are running; after its own `destroy` it would not notify them.
    if (this.#isBusy) this.#socket.destroy(error);
    else {
      this.#methods.destroy.call(this.connection);
      this.#socket.destroy();
    }
    this.#state = 'leaving';
    this.#end(undefined);
  }

  #error(code: 'EVENKEEL_DEADLINE' | 'EVENKEEL_CLOSED', what: string): EvenkeelError {
    const { address } = this.#parts;
    return new EvenkeelError(code, `${address} ${what}`, { endpoint: address });
  }

  /** Cuts the connection if the server has not done its part of closing or resetting it in time. */
  #cutUnless(isDone: () => boolean, what: string): Timer {
    return this.#parts.clock.timer(() => {
      if (isDone()) return;
      this.#socket.destroy();
      this.#end(this.#error('EVENKEEL_DEADLINE', what));
    }, PATIENCE_MS);
  }

  /**
   * Handles that the session's user calls `end()`, which gives the connection back; with `gracefulEnd`, mysql2 closes it once its
   * statements have ended.
   */
  #endedByUser(ended: ((error?: Error) => void) | undefined): void {
    if (endsGracefully(this.connection) && this.#isBusy) {
      this.#state = 'leaving';
      this.#endedBy = 'application';
    }
    this.#methods.end.call(this.connection, ended);
  }

  /** Handles that the session's user calls `destroy()`. */
  #destroyedByUser(): void {
    if (!this.#isBusy) return;
    this.#state = 'leaving';
    this.#endedBy = 'application';
    if (this.#statements?.areRunning) {
      this.#killedFor = this.#error('EVENKEEL_CLOSED', ': the connection was destroyed by its user');
      this.#socket.destroy(this.#killedFor);
      this.#note(outcomes.cancelled);
    } else {
      this.#methods.destroy.call(this.connection);
      this.#socket.destroy();
    }
    this.#free();
  }

  readonly #noteTransaction = (isOpen: boolean): void => {
    this.#isInTransaction = isOpen;
  };

  get #ownStatements(): ConnectionStatements {
    this.#statements ??= new ConnectionStatements({
      connection: this.connection,
      socket: this.#socket,
      methods: this.#methods,
      server: this.#parts,
      transaction: this.#noteTransaction,
      failed: (error) => this.#statementFailed(error),
      stalled: (error) => {
        this.#note(outcomes.timeout);
        this.kill(error);
      },
      ended: () => {
        if (this.isAlive && this.#isReleased) this.release();
      },
    });
    return this.#statements;
  }

  /** Handles that a statement of the session's user failed. */
  #statementFailed(error: Error): void {
    const { outcome, usable, discard } = verdictOf(error);
    this.#note(outcome);
    if (this.isAlive && !usable) this.kill(error);
    else if (this.isAlive && discard) this.discard();
  }

  /** Records how a statement of the session's user ended; only the first failure counts. */
  #note(outcome: Outcome): void {
    if (this.#outcome.kind === 'success' && outcome !== outcomes.success) this.#outcome = outcome;
  }

  /** Handles the end of the session's connection. `error` is why, if mysql2 reported an error. */
  #end(error: Error | undefined): void {
    if (this.#state === 'dead') return;
    const lastState = this.#state !== 'open' ? this.#state : this.isIdle ? 'idle' : 'busy';
    this.#state = 'dead';
    if (lastState === 'busy') this.#note(outcomes.reset);
    const { address, clock } = this.#parts;
    const reason =
      lastState === 'busy'
        ? (error ?? new EvenkeelError('EVENKEEL_CONNECT', `${address} closed the connection`, { endpoint: address }))
        : lastState === 'idle' && !isFarewell(error, clock.now() - this.idleSinceMs)
          ? error
          : undefined;
    // After some errors, mysql2 leaves the socket open.
    if (!this.#socket.destroyed && error !== undefined) this.#socket.destroy(error);
    this.#statements?.fail(this.#killedFor ?? error ?? connectionLost(address));
    this.#owner.lost(this, reason, this.#endedBy);
    this.#free();
  }

  #free(): void {
    this.#takeFreed()();
  }

  /** Makes the session forget its present user. Returns the function that notifies that user. */
  #takeFreed(): () => void {
    const freed = this.#freed;
    const outcome = this.#outcome;
    this.#resetTimer?.cancel();
    this.#resetTimer = undefined;
    this.#freed = undefined;
    this.#outcome = outcomes.success;
    this.#statements?.forget();
    this.#isReleased = false;
    this.#isAcquired = false;
    return () => freed?.(outcome);
  }
}
