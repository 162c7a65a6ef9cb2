import type { Socket } from 'node:net';
import { Connection as BaseConnection, type PoolConnection } from 'mysql2';
import { type Clock, type Endpoint, EvenkeelError, type Outcome, outcomes, type Timer } from '../../../index.js';
import { connectionLost, isFarewell, isQueryTimeout, verdictOf } from '../outcome.js';
import { isOwnFault } from '../own-functions.js';
import {
  type Answer,
  type Command,
  type ConnectionMethods,
  ConnectionStatements,
  type Method,
  nameServer,
  replaceMethods,
} from './connection-methods.js';
import type { Credentials } from './credentials.js';
import type { PendingConnection } from './opening.js';

/** Called once, when a session is free again or gone. `outcome`: of the statements its user ran on the connection itself. */
export type Freed = (outcome: Outcome) => void;

/** What a session needs of the pool it belongs to. */
export interface SessionOwner {
  readonly clock: Clock;
  readonly endpoint: Endpoint;
  readonly address: string;
  /** How long statements on a checked-out connection may take without a `timeout`, in ms; Infinity = no limit. */
  readonly queryTimeoutMs: number;
  /** Whether a session that is given back is closed rather than kept. */
  isSuperfluous(session: Session): boolean;
  becameIdle(session: Session): void;
  /** A session is gone; once for each. `error`: why, unless it ended in an orderly way. */
  ended(session: Session, error: Error | undefined): void;
}

/** How long a server may take to hang up, or to answer a reset, in ms. */
const PATIENCE_MS = 1_000;

/**
 * One connection of a mysql2 pool, from its handshake to its end: whether it is in use, since when it is idle, whether it can be
 * used again. It replaces methods of the connection, to know what a user does who has it checked out.
 */
export class Session {
  readonly connection: PoolConnection;
  /** What it logged in with, where that was asked for. */
  readonly credentials: Credentials | undefined;
  /** When it is to be replaced, on the clock. */
  expiresAtMs: number;
  idleSinceMs: number;
  /** `application`: it ended it, or stopped reading from it, which says nothing about the server. `limit`: a statement took too long. */
  endedBy: 'server' | 'application' | 'limit' = 'server';
  readonly #socket: Socket;
  readonly #owner: SessionOwner;
  /** mysql2's own methods. */
  readonly #methods: ConnectionMethods;
  /** Unset until its user runs a statement on the connection itself, or an answer is read by events. */
  #statements: ConnectionStatements | undefined;
  #state: 'busy' | 'idle' | 'leaving' | 'dead' = 'busy';
  #freed: Freed | undefined;
  /** Given back while statements were still running. */
  #isGivenBack = false;
  /** The first failure among the statements of the present user. */
  #outcome: Outcome = outcomes.success;
  /** It is closed when its present user gives it back. */
  #isDiscarded = false;
  /** Why it was killed. */
  #killedFor: Error | undefined;
  /** Runs until the server has answered a reset. */
  #resetTimer: Timer | undefined;

  constructor(connection: PoolConnection, from: PendingConnection, expiresAtMs: number, owner: SessionOwner) {
    const { socket } = from;
    this.connection = connection;
    this.credentials = from.credentials;
    this.expiresAtMs = expiresAtMs;
    this.idleSinceMs = owner.clock.now();
    this.#socket = socket;
    this.#owner = owner;
    this.#methods = replaceMethods(connection, {
      release: () => this.release(),
      destroy: () => this.#destroyedByUser(),
      query: (...args: unknown[]) => this.#ownStatements.run('query', args),
      execute: (...args: unknown[]) => this.#ownStatements.run('execute', args),
      end: (ended?: (error?: Error) => void) => this.#endedByUser(ended),
    });
    nameServer(connection, owner.endpoint);
    // A caller waits for it; it was opened without keeping the process alive.
    socket.ref();
    // Never removed: mysql2 may report several errors, and one without a listener ends the process.
    connection.on('error', (error: Error) => this.#end(error));
    connection.on('end', () => this.#end(undefined));
    socket.once('close', () => this.#end(undefined));
  }

  get isIdle(): boolean {
    return this.#state === 'idle';
  }

  /** Whether it is open and can take statements. */
  get isAlive(): boolean {
    return this.#state === 'busy' || this.#state === 'idle';
  }

  /** The pool hands it out. */
  acquired(): void {
    // Busy: a caller in mysql2's own queue gets it directly from the previous user, and no event reports that it was given back.
    if (this.#state === 'busy') this.#free();
    else if (this.#state === 'idle') {
      this.#state = 'busy';
      this.#socket.ref();
    }
  }

  /** It is back in the pool. */
  returned(): void {
    if (this.#state !== 'busy') return;
    this.#state = 'idle';
    this.#socket.unref();
    this.idleSinceMs = this.#owner.clock.now();
    this.#owner.becameIdle(this);
    this.#free();
  }

  /** A caller has it until it releases it. */
  checkOut(freed: Freed): void {
    this.#freed = freed;
    if (!this.isAlive) this.#free();
  }

  /** Runs one statement. Throws what mysql2 throws for its arguments; then nothing was sent. */
  send(method: Method, sql: unknown, values: unknown, answer: Answer): void {
    this.#methods[method].call(this.connection, sql, values, answer);
  }

  /** As `send`, for an answer that is read by events; see `ConnectionStatements.read`. */
  read(method: Method, sql: unknown, values: unknown, limitMs: number): Command {
    return this.#ownStatements.read(method, sql, values, limitMs);
  }

  /** Gives it back: it may be used again, unless it is superfluous. */
  release(freed?: Freed): void {
    if (freed !== undefined) this.#freed = freed;
    if (this.#state !== 'busy') {
      if (!this.isAlive) this.#free();
      return;
    }
    if (this.#statements?.areRunning) {
      this.#isGivenBack = true;
      return;
    }
    this.#isGivenBack = false;
    if (this.#isDiscarded || this.#owner.isSuperfluous(this)) {
      this.quit();
      return;
    }
    this.#methods.release.call(this.connection);
    // With `resetOnRelease` it is back only once the server has answered.
    if (this.#state === 'busy')
      this.#resetTimer = this.#cutUnless(() => this.#state !== 'busy', 'did not answer a reset');
  }

  /** Has it closed rather than kept when it is given back. Nothing is wrong with its server. */
  discard(): void {
    this.#isDiscarded = true;
    this.endedBy = 'application';
  }

  /** Ends it in an orderly way, so that the server does not log an aborted client. Only while no statement is running. */
  quit(): void {
    if (!this.isAlive) return;
    const wasBusy = this.#state === 'busy';
    this.#state = 'leaving';
    const hangUp = (): void => {
      (BaseConnection.prototype.end as (this: PoolConnection) => void).call(this.connection);
      this.#methods.destroy.call(this.connection);
    };
    // mysql2 reports an error before its command has ended: a QUIT sent from there would wait behind that command forever.
    if (wasBusy) this.#owner.clock.defer(hangUp);
    else hangUp();
    this.#cutUnless(() => this.#socket.destroyed, 'did not hang up');
    this.#free();
  }

  /** Ends it at once; what is running on it fails with `error`. */
  kill(error: Error): void {
    if (this.#state === 'dead') return;
    this.endedBy = isOwnFault(error) ? 'application' : isQueryTimeout(error) ? 'limit' : 'server';
    this.#killedFor = error;
    // With an error, mysql2 fails the statements that are running; after its `destroy` it would tell them nothing.
    if (this.#state === 'busy') this.#socket.destroy(error);
    else {
      this.#methods.destroy.call(this.connection);
      this.#socket.destroy();
    }
    this.#state = 'leaving';
    this.#end(undefined);
  }

  #error(code: 'EVENKEEL_DEADLINE' | 'EVENKEEL_CLOSED', what: string): EvenkeelError {
    const { address } = this.#owner;
    return new EvenkeelError(code, `${address} ${what}`, { endpoint: address });
  }

  /** Cuts the connection if the server has not done its part in time. */
  #cutUnless(isDone: () => boolean, what: string): Timer {
    return this.#owner.clock.timer(() => {
      if (isDone()) return;
      this.#socket.destroy();
      this.#end(this.#error('EVENKEEL_DEADLINE', what));
    }, PATIENCE_MS);
  }

  /** Its user calls `end()`. That gives it back; with `gracefulEnd`, mysql2 closes it once its statements have ended. */
  #endedByUser(ended: ((error?: Error) => void) | undefined): void {
    const { config } = this.connection as { readonly config: { readonly gracefulEnd?: boolean } };
    if (config.gracefulEnd === true && this.#state === 'busy') {
      this.#state = 'leaving';
      this.endedBy = 'application';
    }
    this.#methods.end.call(this.connection, ended);
  }

  /** Its user calls `destroy()`. */
  #destroyedByUser(): void {
    if (this.#state !== 'busy') return;
    this.#state = 'leaving';
    this.endedBy = 'application';
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

  get #ownStatements(): ConnectionStatements {
    this.#statements ??= new ConnectionStatements({
      connection: this.connection,
      socket: this.#socket,
      methods: this.#methods,
      server: this.#owner,
      failed: (error) => this.#statementFailed(error),
      stalled: (error) => {
        this.#note(outcomes.timeout);
        this.kill(error);
      },
      ended: () => {
        if (this.isAlive && this.#isGivenBack) this.release();
      },
    });
    return this.#statements;
  }

  /** A statement of its user failed. */
  #statementFailed(error: Error): void {
    const { outcome, usable, discard } = verdictOf(error);
    this.#note(outcome);
    if (this.isAlive && !usable) this.kill(error);
    else if (this.isAlive && discard) this.discard();
  }

  /** Only the first failure counts. */
  #note(outcome: Outcome): void {
    if (this.#outcome.kind === 'success' && outcome !== outcomes.success) this.#outcome = outcome;
  }

  /** It is gone. `error`: why, if mysql2 reported an error. */
  #end(error: Error | undefined): void {
    if (this.#state === 'dead') return;
    const was = this.#state;
    this.#state = 'dead';
    if (was === 'busy') this.#note(outcomes.reset);
    const { address, clock } = this.#owner;
    const reason =
      was === 'busy'
        ? (error ?? new EvenkeelError('EVENKEEL_CONNECT', `${address} closed the connection`, { endpoint: address }))
        : was === 'idle' && !isFarewell(error, clock.now() - this.idleSinceMs)
          ? error
          : undefined;
    // After some errors mysql2 leaves the socket open.
    if (!this.#socket.destroyed && error !== undefined) this.#socket.destroy(error);
    this.#statements?.fail(this.#killedFor ?? error ?? connectionLost(address));
    this.#owner.ended(this, reason);
    this.#free();
  }

  #free(): void {
    const freed = this.#freed;
    const outcome = this.#outcome;
    this.#resetTimer?.cancel();
    this.#resetTimer = undefined;
    this.#freed = undefined;
    this.#outcome = outcomes.success;
    this.#statements?.forget();
    this.#isGivenBack = false;
    freed?.(outcome);
  }
}
