import type { Socket } from 'node:net';
import { Connection as BaseConnection, type PoolConnection } from 'mysql2';
import { type Clock, type Endpoint, EvenkeelError, type Outcome, outcomes, type Timer } from '../../../index.js';
import { connectionLost, isFarewell, queryTimeout, verdictOf } from '../outcome.js';
import { isOwnFault, ownErrors } from '../own-functions.js';
import { nameServer } from './name-server.js';
import { type Answer, holdStatement } from './pending-statement.js';
import { type ReadCommand, Reading } from './reading.js';

/** The user of a session: told once when the session is no longer its own. */
export interface SessionHolder {
  /** `verdict`: what the user's own statements say about the server. */
  released(verdict: Outcome): void;
}

/** What a session tells its server connection. */
export interface SessionOwner {
  readonly clock: Clock;
  readonly endpoint: Endpoint;
  readonly address: string;
  /** Statements of a checked-out connection without a time-out of their own may take this long, in ms; Infinity = no limit. */
  readonly queryTimeoutMs: number;
  /** How long a reset or a farewell may take, in ms. */
  readonly patienceMs: number;
  /** Whether it is to be closed rather than kept when it is given back. */
  isSuperfluous(session: Session): boolean;
  becameIdle(session: Session): void;
  /** It is gone. `error`: it ended badly. Once per session. */
  ended(session: Session, error: Error | undefined): void;
}

type Method = 'query' | 'execute';
type End = (this: PoolConnection, ended?: (error?: Error) => void) => void;
type Send = (this: PoolConnection, sql: unknown, values: unknown, answer?: Answer) => Command;

/** The command object mysql2 returns. */
interface Command extends ReadCommand {
  onResult?: Answer;
}

/**
 * One connection of a mysql2 pool, from its handshake to its end: who has it, since when it is idle, whether it may be
 * used again. It puts its own `release`, `destroy`, `query` and `execute` on the connection, so that it knows what a
 * caller who has it checked out does with it.
 */
export class Session {
  readonly connection: PoolConnection;
  /** When it is to be replaced, on the clock. */
  expiresAtMs: number;
  idleSinceMs: number;
  /** The application threw it away or broke off reading from it: says nothing of the server. */
  endedByApplication = false;
  readonly #socket: Socket;
  readonly #owner: SessionOwner;
  readonly #original: {
    readonly release: () => void;
    readonly destroy: () => void;
    readonly query: Send;
    readonly execute: Send;
    readonly end: End;
  };
  #state: 'busy' | 'idle' | 'leaving' | 'dead' = 'busy';
  #holder: SessionHolder | undefined;
  /** Statements of the present holder that run. */
  #running = 0;
  /** Given back while statements of it still ran. */
  #givenBack = false;
  /** The worst the statements of the present holder said of the server. */
  #verdict: Outcome = outcomes.success;
  /** It is closed when its present holder gives it back. */
  #isDiscarded = false;
  /** Answers that are read by events: nobody but us tells their readers of its end. */
  readonly #readings = new Set<Reading>();
  /** Why we ended it ourselves. */
  #cutFor: Error | undefined;
  /** Until the server has answered a reset. */
  #resetTimer: Timer | undefined;

  constructor(connection: PoolConnection, socket: Socket, expiresAtMs: number, owner: SessionOwner) {
    this.connection = connection;
    this.expiresAtMs = expiresAtMs;
    this.idleSinceMs = owner.clock.now();
    this.#socket = socket;
    this.#owner = owner;
    this.#original = {
      release: connection.release,
      destroy: connection.destroy,
      query: connection.query as unknown as Send,
      execute: connection.execute as unknown as Send,
      end: connection.end as unknown as End,
    };
    Object.assign(connection, {
      release: () => this.release(undefined),
      destroy: () => this.#destroyed(),
      query: (...args: [unknown, unknown, Answer?]) => this.#track('query', args),
      execute: (...args: [unknown, unknown, Answer?]) => this.#track('execute', args),
      end: (ended?: (error?: Error) => void) => this.#endedInOrder(ended),
      // Older versions of mysql2 have none.
      [Symbol.dispose]: () => connection.release(),
    });
    nameServer(connection, owner.endpoint);
    // Somebody waits for it; it was opened without keeping the process alive.
    socket.ref();
    // For good: mysql2 may report more than one error, and one that nobody hears ends the process.
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
    if (this.#state === 'busy') {
      // One who waited in mysql2's own queue gets it from the one before, and nobody is told that it came back.
      this.#letGo();
    } else if (this.#state === 'idle') {
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
    this.#letGo();
  }

  /** The caller has it until it releases it. */
  checkOut(holder: SessionHolder): void {
    this.#holder = holder;
    if (!this.isAlive) this.#letGo();
  }

  /** Runs one statement for a caller who has only that. May throw, for what the caller asks for; then nothing was sent. */
  send(method: Method, sql: unknown, values: unknown, answer: Answer): void {
    this.#original[method].call(this.connection, sql, values, answer);
  }

  /**
   * Runs one statement whose answer is read by events: of an error, or the loss of the connection, `error` tells, and `end`
   * is always the last. Nothing may come for `limitMs` at most. May throw, as `send`.
   */
  read(method: Method, sql: unknown, values: unknown, limitMs: number): ReadCommand {
    const command = (this.#original[method] as Send).call(this.connection, sql, values);
    this.#read(command, limitMs);
    return command;
  }

  /** Given back: it may be used again, unless it is superfluous. `holder` is told when it is free. */
  release(holder: SessionHolder | undefined): void {
    if (holder !== undefined) this.#holder = holder;
    if (this.#state !== 'busy') {
      if (!this.isAlive) this.#letGo();
      return;
    }
    if (this.#running > 0) {
      this.#givenBack = true;
      return;
    }
    this.#givenBack = false;
    if (this.#isDiscarded || this.#owner.isSuperfluous(this)) {
      this.quit();
      return;
    }
    this.#original.release.call(this.connection);
    // With `resetOnRelease` it is not back before the server has answered.
    if (this.#state === 'busy') this.#resetTimer = this.#orElse(() => this.#state !== 'busy', 'did not answer a reset');
  }

  /** It works, but is closed rather than kept when it is given back. */
  discard(): void {
    this.#isDiscarded = true;
    // Its server is as good as it was: another connection is opened if this was the last.
    this.endedByApplication = true;
  }

  /** Ends it in order: the server is told, so that it does not log a client that went away. Only while nothing runs. */
  quit(): void {
    if (!this.isAlive) return;
    const wasBusy = this.#state === 'busy';
    this.#state = 'leaving';
    const { connection } = this;
    const hangUp = (): void => {
      (BaseConnection.prototype.end as (this: PoolConnection) => void).call(connection);
      this.#original.destroy.call(connection);
    };
    // mysql2 tells of an error while its statement is still at work there: a goodbye would wait behind it, for good.
    if (wasBusy) this.#owner.clock.defer(hangUp);
    else hangUp();
    this.#orElse(() => this.#socket.destroyed, 'did not hang up');
    this.#letGo();
  }

  /** Ends it at once, by our own decision; what runs on it fails with `error`. */
  kill(error: Error): void {
    if (this.#state === 'dead') return;
    this.endedByApplication = isOwnFault(error);
    this.#cutFor = error;
    // mysql2 tells those who wait of an error, but of nothing after `destroy`.
    if (this.#state === 'busy') this.#socket.destroy(error);
    else {
      this.#original.destroy.call(this.connection);
      this.#socket.destroy();
    }
    this.#state = 'leaving';
    this.#end(undefined);
  }

  /** Asks the server whether it is there. Answers once: with an error when it does not answer in time. */
  ping(timeoutMs: number, answer: (error: Error | undefined, late: boolean) => void): void {
    let over = false;
    const end = (error: Error | undefined, late: boolean): void => {
      if (over) return;
      over = true;
      timer.cancel();
      answer(error, late);
    };
    const timer = this.#owner.clock.timer(
      () => end(this.#error('EVENKEEL_DEADLINE', `did not answer a ping within ${timeoutMs} ms`), true),
      timeoutMs,
    );
    this.connection.ping((error) => end(error ?? undefined, false));
  }

  #error(code: 'EVENKEEL_DEADLINE' | 'EVENKEEL_CLOSED', what: string): EvenkeelError {
    const { address } = this.#owner;
    return new EvenkeelError(code, `${address} ${what}`, { endpoint: address });
  }

  /** A server that does not do its part is cut. */
  #orElse(isDone: () => boolean, what: string): Timer {
    const { clock, patienceMs } = this.#owner;
    return clock.timer(() => {
      if (isDone()) return;
      this.#socket.destroy();
      this.#end(this.#error('EVENKEEL_DEADLINE', what));
    }, patienceMs);
  }

  /** The caller who has it ends it: with `gracefulEnd` it is told goodbye after what runs on it, else given back. */
  #endedInOrder(ended: ((error?: Error) => void) | undefined): void {
    const { config } = this.connection as { readonly config: { readonly gracefulEnd?: boolean } };
    if (config.gracefulEnd === true && this.#state === 'busy') {
      this.#state = 'leaving';
      this.endedByApplication = true;
    }
    this.#original.end.call(this.connection, ended);
  }

  /** The caller who has it throws it away. */
  #destroyed(): void {
    if (this.#state !== 'busy') return;
    this.#state = 'leaving';
    this.endedByApplication = true;
    if (this.#running > 0) {
      this.#cutFor = this.#error('EVENKEEL_CLOSED', ': the connection was destroyed by its user');
      this.#socket.destroy(this.#cutFor);
      this.#verdict = worse(this.#verdict, outcomes.cancelled);
    } else {
      this.#original.destroy.call(this.connection);
      this.#socket.destroy();
    }
    this.#letGo();
  }

  /** A statement of the caller who has it. */
  #track(method: Method, given: readonly unknown[]): Command {
    const { args, hasCallback, limitMs, cancel } = holdStatement(given, this.#owner, (error) => this.#note(error));
    this.#running++;
    let command: Command;
    try {
      command = (this.#original[method] as (this: PoolConnection, ...args: unknown[]) => Command).apply(
        this.connection,
        [...args],
      );
    } catch (error) {
      this.#running--;
      cancel();
      throw error;
    }
    if (!hasCallback) {
      command.on('error', (error: Error) => this.#note(error));
      this.#read(command, limitMs);
    }
    command.once('end', () => {
      if (!this.isAlive) return;
      this.#running--;
      if (this.#running === 0 && this.#givenBack) this.release(undefined);
    });
    return command;
  }

  /** An answer is read by events, of which nothing may be heard for `limitMs` at most. */
  #read(command: Command, limitMs: number): void {
    const { clock, address } = this.#owner;
    const { stream } = this.connection as unknown as { readonly stream: Socket };
    const reading: Reading = new Reading(
      command,
      {
        clock,
        limitMs,
        isPaused: () => stream.isPaused(),
        tookTooLong: () => {
          const error = queryTimeout(address, limitMs);
          this.#verdict = worse(this.#verdict, outcomes.timeout);
          this.kill(error);
        },
      },
      () => this.#readings.delete(reading),
    );
    this.#readings.add(reading);
  }

  /** It is gone: remaining readers are told after mysql2 has told its own. */
  #failReadings(error: Error): void {
    if (this.#readings.size === 0) return;
    const readings = [...this.#readings];
    this.#readings.clear();
    const tell = (): void =>
      this.#owner.clock.defer(() => {
        for (const reading of readings) ownErrors(() => reading.fail(error))();
      });
    if (this.#socket.closed) tell();
    else this.#socket.once('close', tell);
  }

  /** A statement of the holder failed. */
  #note(error: Error): void {
    const { outcome, usable, discard } = verdictOf(error);
    if (outcome !== outcomes.success) this.#verdict = worse(this.#verdict, outcome);
    if (!this.isAlive) return;
    if (!usable) this.kill(error);
    else if (discard) this.discard();
  }

  /** It is gone; `error` says why, where that is no ordinary end. */
  #end(error: Error | undefined): void {
    if (this.#state === 'dead') return;
    const was = this.#state;
    this.#state = 'dead';
    if (was === 'busy') this.#verdict = worse(this.#verdict, outcomes.reset);
    const { address } = this.#owner;
    const reason =
      was === 'busy'
        ? (error ?? new EvenkeelError('EVENKEEL_CONNECT', `${address} closed the connection`, { endpoint: address }))
        : was === 'idle' && !isFarewell(error)
          ? error
          : undefined;
    // mysql2 leaves some errors without closing the connection.
    if (!this.#socket.destroyed && error !== undefined) this.#socket.destroy(error);
    this.#failReadings(this.#cutFor ?? error ?? connectionLost(address));
    this.#owner.ended(this, reason);
    this.#letGo();
  }

  #letGo(): void {
    const holder = this.#holder;
    const verdict = this.#verdict;
    this.#resetTimer?.cancel();
    this.#resetTimer = undefined;
    this.#holder = undefined;
    this.#verdict = outcomes.success;
    this.#running = 0;
    this.#givenBack = false;
    holder?.released(verdict);
  }
}

/** The first failure counts. */
function worse(before: Outcome, now: Outcome): Outcome {
  return before.kind === 'success' ? now : before;
}
