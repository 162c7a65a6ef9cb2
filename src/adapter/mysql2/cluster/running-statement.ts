import { AsyncResource } from 'node:async_hooks';
import { EventEmitter } from 'node:events';
import { Readable, type ReadableOptions } from 'node:stream';
import type { FieldPacket } from 'mysql2';
import { EvenkeelError } from '../../../index.js';

/** What a call tells of an answer that is read row by row, and what it can be asked. */
export interface RowReader {
  /** Whether rows are read by events or a stream. Once asked, that is settled. */
  settle(): boolean;
  /** From now on `flow` stops and continues what the server sends. */
  began(flow: Flow): void;
  fields(fields: unknown): void;
  row(row: unknown, index: unknown): void;
}

/** Stops and continues an answer. */
export interface Flow {
  pause(): void;
  resume(): void;
}

/** Events of a statement, as of a Query of mysql2. */
export type StatementEvent = 'fields' | 'result' | 'error' | 'end';

/** A listener of one of these events. */
// biome-ignore lint/suspicious/noExplicitAny: each event has values of its own.
export type StatementListener = (...values: any[]) => void;

/**
 * A statement of a cluster: a promise of its answer. As of a pool of mysql2, its rows can also be read one by one, by
 * events or as a stream: that has to be asked for at once, before the statement is sent, and the promise then resolves
 * without rows when the answer has come to its end.
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
      // Later, so that the caller can first subscribe to its events.
      queueMicrotask(() => statement.answered(error as Error, undefined, undefined));
    }
    return statement;
  }

  /**
   * `fields`: the columns came. `result`: a row came. `error`: it failed. `end`: the last, whatever came before.
   * Throws EVENKEEL_OPTION when the statement was sent already.
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

  /** Its rows as a stream of objects, no faster than they are read. Throws EVENKEEL_OPTION when it was sent already. */
  stream(options: ReadableOptions = {}): Readable {
    const stream = new Readable({ ...options, objectMode: true, read: () => this.#flow?.resume() });
    // Rows that nobody wants are read all the same: the connection is good for the next statement only after them.
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
      const what = 'the statement was sent, and its rows are being gathered: take its events or its stream at once';
      throw new EvenkeelError('EVENKEEL_OPTION', what);
    }
    const events = new EventEmitter();
    this.#events = events;
    // In the async context of its caller, and what a listener throws is its own: mysql2 would close the connection for it.
    this.#emit = AsyncResource.bind((event: StatementEvent, ...values: unknown[]) => {
      try {
        events.emit(event, ...values);
      } catch (error) {
        process.nextTick(() => {
          throw error;
        });
      }
    });
    return events;
  }

  /** Who hears of the error by its event need not hear of it by the promise. */
  #heard(event: StatementEvent): void {
    if (event === 'error') this.catch(() => {});
  }
}

// A plain promise to the language: `await` and `then` take no detour, and create plain promises.
Object.defineProperty(RunningStatement.prototype, 'constructor', {
  value: Promise,
  writable: true,
  configurable: true,
});
