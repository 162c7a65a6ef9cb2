/** An SQL statement of a caller: its arguments, and the promise and events that the caller gets. */
import { AsyncResource } from 'node:async_hooks';
import { EventEmitter } from 'node:events';
import { Readable, type ReadableOptions } from 'node:stream';
import type { FieldPacket, QueryOptions } from 'mysql2';
import { EvenkeelError, type Priority } from '../../index.js';
import { checkBoolean, checkNumber, checkPriority, ownProperties } from '../kit/index.js';
import type { Method, MysqlCallback } from './connection-methods.js';
import { applicationErrors, withApplicationFunctions } from './own-functions.js';

/** Options of `query` and `execute` in addition to mysql2's. */
export interface StatementOptions extends Omit<QueryOptions, 'timeout'> {
  /**
   * Whether the statement may run twice without harm, because it only reads, say: if its connection dies before the answer, it is sent to
   * another server. @defaultValue the service's `idempotent`
   */
  readonly idempotent?: boolean | undefined;
  /** The key for hash pickers: statements with one key go to one server. @defaultValue none */
  readonly key?: string | undefined;
  /**
   * The priority of the statement: which statements get a connection first, and with a `limit` which are rejected first. @defaultValue
   * 'default'
   * @see docs/guide/overload.md#priorities
   */
  readonly priority?: Priority | undefined;
  /**
   * How long the statement may take in ms, from call to response, including the wait for a connection; after that its connection is
   * destroyed. 0 = no limit. @defaultValue the service's `queryTimeoutMs`
   */
  readonly timeout?: number | undefined;
}

/** A statement as its caller passed it, after it was checked. */
export interface Statement {
  readonly method: Method;
  /** The SQL text, or mysql2's options object without evenkeel's own options. */
  readonly sql: unknown;
  readonly values: unknown;
  readonly key: string | undefined;
  readonly priority: Priority | undefined;
  /** Whether the statement may run twice; undefined means what the service's `idempotent` says. */
  readonly idempotent: boolean | undefined;
  readonly timeoutMs: number | undefined;
  /** The promise that the caller gets, whose rows may be read by events; undefined if the caller passed a callback. */
  readonly running: RunningStatement<unknown> | undefined;
}

/** Matches white space and comments at the start of a statement, except comments that the server executes. */
const SPACE = /^(?:\s|--(?:[^\S\n].*)?\n|#.*\n|\/\*(?![!M])(?:[^*]|\*+[^*/])*\*+\/)*/.source;

/** Matches a statement that changes data or tables. */
const CHANGE = new RegExp(`${SPACE}(?:insert|update|delete|replace|load|truncate|create|drop|alter|rename)\\b`, 'i');

/** Matches a statement that reads. */
const READ = new RegExp(`${SPACE}(?:\\(|(?:select|with|show)\\b)`, 'i');

const textOf = ({ sql }: Statement): string => (typeof sql === 'string' ? sql : (sql as { readonly sql: string }).sql);

/**
 * Whether a statement that a read-only server refused had no effect at all. A single change has none; a statement that runs others, such as
 * CALL, may have executed the first of them.
 */
export function isWhole(statement: Statement): boolean {
  return CHANGE.test(textOf(statement));
}

/** Whether a statement runs no others, as CALL does: a server that refused it before it ran it has executed nothing. */
export function isAlone(statement: Statement): boolean {
  return isWhole(statement) || READ.test(textOf(statement));
}

/**
 * The arguments of `query` and `execute` in mysql2's forms: (sql), (sql, values), (sql, callback), (sql, values, callback); sql may be an
 * options object.
 */
export type StatementArguments = readonly [sql: unknown, values?: unknown, callback?: unknown];

/** Finds the callback among the arguments; undefined if there is none. */
export function callbackOf([, values, callback]: StatementArguments): MysqlCallback | undefined {
  const lastArgument = callback ?? values;
  return typeof lastArgument === 'function' ? (lastArgument as MysqlCallback) : undefined;
}

/** Parses the arguments of `query` or `execute`. Throws EVENKEEL_OPTION if they contain no statement. */
export function parseStatement(
  method: Method,
  [sql, values]: StatementArguments,
  running?: RunningStatement<unknown>,
): Statement {
  const parameters = typeof values === 'function' ? undefined : values;
  if (typeof sql === 'string') {
    return {
      method,
      sql,
      values: parameters,
      key: undefined,
      priority: undefined,
      idempotent: undefined,
      timeoutMs: undefined,
      running,
    };
  }
  if (typeof sql !== 'object' || sql === null || typeof (sql as { sql?: unknown }).sql !== 'string') {
    // The invalid value is not shown in the message, because it may contain secrets.
    throw new EvenkeelError('EVENKEEL_OPTION', `${method}: sql must be a string, or an object with one as its \`sql\``);
  }
  const { idempotent, key, priority, timeout, ...rest } = ownProperties(sql as StatementOptions);
  if (key !== undefined && typeof key !== 'string') {
    throw new EvenkeelError('EVENKEEL_OPTION', `${method}: key must be a string`);
  }
  return {
    method,
    // `sql` and `values` may be inherited, as in the objects that tagged templates make; mysql2 reads inherited properties too.
    sql: {
      ...withApplicationFunctions(rest),
      sql: (sql as StatementOptions).sql,
      values: (sql as StatementOptions).values,
    },
    values: parameters,
    key,
    priority: priority === undefined ? undefined : checkPriority(priority),
    idempotent: idempotent === undefined ? undefined : checkBoolean('idempotent', idempotent, false),
    // A timeout of 0 means no limit, as in mysql2.
    timeoutMs: checkNumber('timeout', timeout, 0, { min: 0, max: 2 ** 31 - 1, infinite: true }) || undefined,
    running,
  };
}

/** Pauses and resumes the arrival of a statement's rows. */
interface Flow {
  pause(): void;
  resume(): void;
}

/**
 * The events of a statement, which are those of mysql2's Query: `fields` before the rows, `result` for each row (or the header of a write),
 * then `end`; `error` if it failed.
 */
export type StatementEvent = 'fields' | 'result' | 'error' | 'end';

/** A listener of a `StatementEvent`. It gets the fields, a row and its index, or the error; at the end it gets nothing. */
// biome-ignore lint/suspicious/noExplicitAny: each event has values of its own.
export type StatementListener = (...values: any[]) => void;

/**
 * A statement of a cluster: a promise of its answer. As with a pool of mysql2, its rows can also be read one by one, by events or as a
 * stream. The caller must begin that synchronously, before the statement is sent; the promise then resolves without rows at the end of the
 * answer.
 */
export class RunningStatement<T> extends Promise<[T, FieldPacket[]]> {
  #resolve!: (answer: [T, FieldPacket[]]) => void;
  #reject!: (error: Error) => void;
  #emit: ((event: StatementEvent, ...values: unknown[]) => void) | undefined;
  #events: EventEmitter | undefined;
  #isSettled = false;
  #flow: Flow | undefined;
  #fields: unknown;

  /** @internal */
  static start<T>(begin: (statement: RunningStatement<T>) => void): RunningStatement<T> {
    let resolve!: (answer: [T, FieldPacket[]]) => void;
    let reject!: (error: Error) => void;
    const statement = new RunningStatement<T>((onAnswer, onError) => {
      resolve = onAnswer;
      reject = onError;
    });
    statement.#resolve = resolve;
    statement.#reject = reject;
    try {
      begin(statement);
    } catch (error) {
      // The error is delivered later in this turn, so that the caller can subscribe to the statement's events first.
      queueMicrotask(() => statement.answered(error as Error, undefined, undefined));
    }
    return statement;
  }

  /**
   * Adds a listener. `fields`: the columns. `result`: a row. `error`: the statement failed. `end`: always the last event. Throws
   * EVENKEEL_OPTION if the statement has already been sent.
   */
  on(event: StatementEvent, listener: StatementListener): this {
    this.#emitter().on(event, listener);
    this.#listenerAdded(event);
    return this;
  }

  /** Adds a listener like `on`, for the next event of that name only. */
  once(event: StatementEvent, listener: StatementListener): this {
    this.#emitter().once(event, listener);
    this.#listenerAdded(event);
    return this;
  }

  /** Removes a listener that `on` or `once` added. */
  off(event: StatementEvent, listener: StatementListener): this {
    this.#events?.off(event, listener);
    return this;
  }

  /**
   * Returns the rows as a stream of objects, which arrive no faster than they are read; the stream also emits `fields` and `result`. Throws
   * EVENKEEL_OPTION if the statement has already been sent.
   */
  stream(options: ReadableOptions = {}): Readable {
    const stream = new Readable({ ...options, objectMode: true, read: () => this.#flow?.resume() });
    stream.once('close', () => {
      // The remaining rows are still read, because only then can the connection take its next statement.
      this.#flow?.resume();
      // As in mysql2, `end` is emitted even after an error, because code may wait for this event alone.
      if (!stream.readableEnded) stream.emit('end');
    });
    this.on('fields', (fields) => stream.emit('fields', fields));
    this.on('result', (row, index) => {
      if (stream.destroyed) return;
      if (!stream.push(row)) this.#flow?.pause();
      stream.emit('result', row, index);
    });
    this.on('error', (error: Error) => stream.destroy(error));
    this.on('end', () => {
      if (!stream.destroyed) stream.push(null);
    });
    return stream;
  }

  /** Whether the rows are read by events or a stream. After this call, that can no longer change. @internal */
  settle(): boolean {
    this.#isSettled = true;
    return this.#events !== undefined;
  }

  /** The statement was sent; `flow` pauses and resumes its answer. @internal */
  began(flow: Flow): void {
    this.#flow = flow;
  }

  /** @internal */
  fields(fields: unknown): void {
    this.#fields = fields;
    this.#emit?.('fields', fields);
  }

  /** @internal */
  row(row: unknown, index: unknown): void {
    this.#emit?.('result', row, index);
  }

  /** @internal */
  answered(error: Error | null, rows: unknown, fields: unknown): void {
    this.#isSettled = true;
    // The connection may have its next user already, whose rows a late reader of this stream must not resume.
    this.#flow = undefined;
    if (error) this.#reject(error);
    else this.#resolve([(this.#emit === undefined ? rows : []) as T, (fields ?? this.#fields) as FieldPacket[]]);
    if (this.#emit === undefined) return;
    if (error && (this.#events?.listenerCount('error') ?? 0) > 0) this.#emit('error', error);
    this.#emit('end');
  }

  #emitter(): EventEmitter {
    if (this.#events !== undefined) return this.#events;
    if (this.#isSettled) {
      const what =
        'the statement was sent, and its rows are being buffered: take its events or its stream synchronously';
      throw new EvenkeelError('EVENKEEL_OPTION', what);
    }
    const events = new EventEmitter();
    this.#events = events;
    // Listeners run in the caller's async context, and what they throw does not reach mysql2, which would close the connection.
    const emit = (event: StatementEvent, ...values: unknown[]): void => void events.emit(event, ...values);
    this.#emit = AsyncResource.bind(applicationErrors(emit));
    return events;
  }

  /** A caller that listens for `error` need not handle the promise's rejection. */
  #listenerAdded(event: StatementEvent): void {
    if (event === 'error') this.catch(() => {});
  }
}

// To JavaScript a statement is a plain promise: `await` takes no detour, and `then` creates plain promises.
Object.defineProperty(RunningStatement.prototype, 'constructor', {
  value: Promise,
  writable: true,
  configurable: true,
});
