/** The methods of mysql2's connections that evenkeel replaces, and the statements that it watches on them. */
import type { Socket } from 'node:net';
import type { PoolConnection } from 'mysql2';
import type { Clock, Endpoint, Timer } from '../../index.js';
import { onTransactionState, streamOf } from './internals.js';
import { queryTimeout } from './outcome.js';
import { applicationErrors, withApplicationFunctions } from './own-functions.js';

/** A checked-out connection of a cluster, with the server to which it leads. */
export interface ServerOfConnection {
  /** The server's endpoint: its address and port, its pod's name, its zone. */
  readonly endpoint: Endpoint;
}

/** Called when a statement has ended, with its error or its answer. */
export type MysqlCallback = (error: Error | null, rows?: unknown, fields?: unknown) => void;

/** mysql2's two methods that run a statement. */
export type Method = 'query' | 'execute';

/** The object that mysql2 returns for a statement. It emits `fields`, `result` for each row, `error` and `end`. */
export interface Command {
  on(event: string, listener: (...args: never[]) => void): unknown;
  once(event: string, listener: (...args: never[]) => void): unknown;
  emit(event: string, ...args: unknown[]): boolean;
}

/** A connection's own `query` or `execute`, as mysql2 has it. */
export type Send = (this: PoolConnection, sql: unknown, values: unknown, answer?: MysqlCallback) => Command;

/** The methods of a pool's connection that evenkeel replaces. */
export interface ConnectionMethods {
  readonly release: (this: PoolConnection) => void;
  readonly destroy: (this: PoolConnection) => void;
  readonly query: Send;
  readonly execute: Send;
  readonly end: (this: PoolConnection, ended?: (error?: Error) => void) => void;
}

/** What `ConnectionStatements` needs to run and watch statements. */
export interface ConnectionStatementsParts {
  readonly connection: PoolConnection;
  readonly socket: Socket;
  /** mysql2's own methods to run a statement on the connection. */
  readonly methods: Pick<ConnectionMethods, Method>;
  readonly server: {
    readonly clock: Clock;
    readonly address: string;
    /** The time limit of statements without a `timeout`, in ms; Infinity = no limit. */
    readonly queryTimeoutMs: number;
  };
  /** A statement was answered. @param isOpen Whether a transaction is open. */
  readonly transaction: (isOpen: boolean) => void;
  /** A statement of the connection's user failed. Called before that user is notified. */
  readonly failed: (error: Error) => void;
  /** An answer that is read by events has stopped arriving. */
  readonly stalled: (error: Error) => void;
  /** No statement of the connection's user runs any longer. */
  readonly ended: () => void;
}

/**
 * The statements on one connection that mysql2 alone would not see through to their end: the statements of a user who has it checked out,
 * and statements whose answers are read by events. mysql2's time limit does not cover preparing a statement, and readers of events learn
 * neither of a time limit nor of the connection's end.
 */
export class ConnectionStatements {
  readonly #parts: ConnectionStatementsParts;
  #running = 0;
  /** Functions that pass an error to the readers of answers that have not ended yet. */
  readonly #readers = new Set<(error: Error) => void>();

  constructor(parts: ConnectionStatementsParts) {
    this.#parts = parts;
  }

  /** Whether statements of the user who has the connection checked out are running. */
  get areRunning(): boolean {
    return this.#running > 0;
  }

  /** Runs a statement of the user who has the connection checked out, given in one of mysql2's forms. Throws as mysql2 does. */
  run(method: Method, callersArgs: readonly unknown[]): Command {
    const { failed, ended } = this.#parts;
    const { args, hasCallback, limitMs, cancel } = this.#limited(callersArgs);
    this.#running++;
    let command: Command;
    try {
      command = this.#send(method, args);
    } catch (error) {
      this.#running--;
      cancel();
      throw error;
    }
    if (!hasCallback) {
      command.on('error', failed);
      this.#watch(command, limitMs);
    }
    command.once('end', () => {
      if (this.#running === 0) return; // the user has given the connection back
      this.#running--;
      if (this.#running === 0) ended();
    });
    return command;
  }

  /**
   * Runs a statement whose answer is read by events, of which `end` is always the last. Fails after `limitMs` without any event. Throws as
   * mysql2 does; then nothing was sent.
   */
  read(method: Method, sql: unknown, values: unknown, limitMs: number): Command {
    const command = this.#send(method, [sql, values]);
    this.#watch(command, limitMs);
    return command;
  }

  /** Forgets the statements of the connection's user, who gave it back, or whose connection is gone. */
  forget(): void {
    this.#running = 0;
  }

  /**
   * Passes an error to the readers of rows by events, because the connection is gone. They are notified after mysql2 has notified all
   * others.
   */
  fail(error: Error): void {
    if (this.#readers.size === 0) return;
    const { server, socket } = this.#parts;
    const readers = [...this.#readers];
    this.#readers.clear();
    const notifyReaders = (): void =>
      server.clock.defer(() => {
        for (const reader of readers) applicationErrors(reader)(error);
      });
    if (socket.closed) notifyReaders();
    else socket.once('close', notifyReaders);
  }

  #send(method: Method, args: readonly unknown[]): Command {
    const { methods, connection, transaction } = this.#parts;
    const command = methods[method].apply(connection, args as Parameters<Send>);
    onTransactionState(command, transaction);
    return command;
  }

  /** Prepares the arguments of a statement for mysql2. The time limit of a statement with a callback is enforced here. */
  #limited(args: readonly unknown[]): Limited {
    const { server, failed } = this.#parts;
    const { clock, address, queryTimeoutMs } = server;
    const [statement] = args;
    // Commands of mysql2 and objects of tagged templates are passed on unchanged.
    const isPlain =
      typeof statement === 'object' && statement !== null && Object.getPrototypeOf(statement) === Object.prototype;
    const { timeout, ...others } = isPlain ? (statement as { readonly timeout?: unknown }) : {};
    const limitMs = typeof timeout === 'number' && timeout > 0 ? timeout : queryTimeoutMs;
    const sent = isPlain ? withApplicationFunctions(others) : statement;
    const callbackIndex = args.findLastIndex((arg) => typeof arg === 'function');
    if (callbackIndex === -1) return { args: [sent, ...args.slice(1)], hasCallback: false, limitMs, cancel: () => {} };
    const callback = applicationErrors(args[callbackIndex] as MysqlCallback);
    let isOver = false;
    const answer: MysqlCallback = (error, rows, fields) => {
      if (isOver) return;
      isOver = true;
      timer?.cancel();
      if (error) failed(error);
      callback(error, rows, fields);
    };
    const timer = Number.isFinite(limitMs)
      ? clock.timer(() => answer(queryTimeout(address, limitMs)), limitMs)
      : undefined;
    const cancel = (): void => timer?.cancel();
    return { args: [sent, ...args.slice(1, callbackIndex), answer], hasCallback: true, limitMs, cancel };
  }

  /**
   * Watches an answer that is read by events: its reader gets an error when the connection ends, and when `limitMs` pass without an event.
   */
  #watch(command: Command, limitMs: number): void {
    const { connection, server, stalled } = this.#parts;
    const { clock, address } = server;
    const stream = streamOf(connection);
    let receivedAtMs = clock.now();
    let timer: Timer | undefined;
    let isOver = false;
    const end = (): void => {
      isOver = true;
      timer?.cancel();
    };
    // The reader gets the error first, then `end`, as when the server answers with an error.
    const fail = (error: Error): void => {
      if (isOver) return;
      end();
      command.emit('error', error);
      command.emit('end');
    };
    this.#readers.add(fail);
    command.on('error', end);
    command.once('end', () => {
      end();
      this.#readers.delete(fail);
    });
    if (!Number.isFinite(limitMs)) return;
    const onData = (): void => {
      receivedAtMs = clock.now();
    };
    command.on('fields', onData);
    command.on('result', onData);
    const check = (): void => {
      // While the reader has paused the stream, nothing can arrive.
      if (stream.isPaused()) onData();
      const restMs = receivedAtMs + limitMs - clock.now();
      if (restMs > 0) timer = clock.timer(check, restMs);
      else stalled(queryTimeout(address, limitMs));
    };
    timer = clock.timer(check, limitMs);
  }
}

/** A statement of a connection's user, with its time limit. */
interface Limited {
  readonly args: readonly unknown[];
  /** Whether the statement has a callback, by which errors reach `failed`; otherwise errors are events of the command. */
  readonly hasCallback: boolean;
  /** How long the statement may take, in ms; Infinity = no limit. */
  readonly limitMs: number;
  /** Cancels the time limit; called if the statement was not sent. */
  readonly cancel: () => void;
}
