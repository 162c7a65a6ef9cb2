import { AsyncResource } from 'node:async_hooks';
import { EventEmitter } from 'node:events';
import { Readable, type ReadableOptions } from 'node:stream';
import type { FieldPacket } from 'mysql2';
import { EvenkeelError } from '../../../index.js';
import { ownErrors } from '../own-functions.js';

/** Gets an answer row by row, if its rows are read by events or a stream. */
export interface RowReader {
  /** Whether rows are read that way. From then on that can no longer change. */
  settle(): boolean;
  /** The statement was sent; `flow` pauses and resumes its answer. */
  began(flow: Flow): void;
  fields(fields: unknown): void;
  row(row: unknown, index: unknown): void;
}

/** Pauses and resumes an answer. */
export interface Flow {
  pause(): void;
  resume(): void;
}

/** Events of a statement: those of mysql2's Query. */
export type StatementEvent = 'fields' | 'result' | 'error' | 'end';

/** A listener of one of these events. */
// biome-ignore lint/suspicious/noExplicitAny: each event has values of its own.
export type StatementListener = (...values: any[]) => void;

/**
 * A statement of a cluster: a promise of its answer. As with a pool of mysql2, its rows can also be read one by one, by events or as a
 * stream. That must be started at once, before the statement is sent; the promise then resolves without rows at the end of the answer.
 */
export class RunningStatement<T> extends Promise<[T, FieldPacket[]]> implements RowReader {
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
      // Later, so that the caller can subscribe to its events first.
      queueMicrotask(() => statement.answered(error as Error, undefined, undefined));
    }
    return statement;
  }

  /**
   * `fields`: the columns. `result`: a row. `error`: it failed. `end`: always the last. Throws EVENKEEL_OPTION if the statement has
   * already been sent.
   */
  on(event: StatementEvent, listener: StatementListener): this {
    this.#emitter().on(event, listener);
    this.#heard(event);
    return this;
  }

  once(event: StatementEvent, listener: StatementListener): this {
    this.#emitter().once(event, listener);
    this.#heard(event);
    return this;
  }

  off(event: StatementEvent, listener: StatementListener): this {
    this.#events?.off(event, listener);
    return this;
  }

  /** Its rows as a stream of objects, no faster than they are read. Throws EVENKEEL_OPTION if it has already been sent. */
  stream(options: ReadableOptions = {}): Readable {
    const stream = new Readable({ ...options, objectMode: true, read: () => this.#flow?.resume() });
    // The remaining rows are still read: only then can the connection take the next statement.
    stream.once('close', () => this.#flow?.resume());
    this.on('fields', (fields) => stream.emit('fields', fields));
    this.on('result', (row) => {
      if (!stream.destroyed && !stream.push(row)) this.#flow?.pause();
    });
    this.on('error', (error: Error) => stream.destroy(error));
    this.on('end', () => {
      if (!stream.destroyed) stream.push(null);
    });
    return stream;
  }

  /** @internal */
  settle(): boolean {
    this.#isSettled = true;
    return this.#events !== undefined;
  }

  /** @internal */
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
    this.#emit = AsyncResource.bind(ownErrors(emit));
    return events;
  }

  /** A caller that listens for the error need not handle the promise's rejection. */
  #heard(event: StatementEvent): void {
    if (event === 'error') this.catch(() => {});
  }
}

// To the language it is a plain promise: `await` takes no detour, and `then` creates plain promises.
Object.defineProperty(RunningStatement.prototype, 'constructor', {
  value: Promise,
  writable: true,
  configurable: true,
});
