import { AsyncResource } from 'node:async_hooks';
import { EventEmitter } from 'node:events';
import type { FieldPacket, PoolConnection as MysqlPoolConnection, QueryError, QueryResult } from 'mysql2';
import type { PoolConnection as PromisePoolConnection } from 'mysql2/promise';
import { EvenkeelError } from '../../index.js';
import { ownProperties } from '../kit/index.js';
import { MysqlCall } from './call.js';
import type { Method, MysqlCallback, ServerOfConnection } from './connection-methods.js';
import { applicationErrors } from './own-functions.js';
import type { ServiceRoute } from './route.js';
import {
  callbackOf,
  parseStatement,
  RunningStatement,
  type StatementArguments,
  type StatementOptions,
} from './statement.js';

/** A callback of `query` and `execute`. */
export type QueryCallback<T extends QueryResult> = (error: QueryError | null, result: T, fields: FieldPacket[]) => void;

/** A callback of `getConnection`. */
export type ConnectionCallback = (
  error: NodeJS.ErrnoException | null,
  connection: MysqlPoolConnection & ServerOfConnection,
) => void;

/** A checked-out connection in its promise form. */
export type CheckedOutConnection = PromisePoolConnection & ServerOfConnection;

/** Options of `getConnection`: from which server a connection is checked out. */
export interface CheckoutOptions {
  /** The key for hash pickers: callers with one key get connections to one server. @defaultValue none */
  readonly key?: string | undefined;
}

/**
 * One or several services of a cluster, as `cluster.of(pattern)` returns them. Every method has both forms of mysql2: with a callback it
 * calls the callback, without one it returns a promise, as `mysql2/promise` does.
 */
export class Namespace extends EventEmitter {
  readonly #route: ServiceRoute;

  /** @internal */
  constructor(route: ServiceRoute) {
    super();
    this.#route = route;
  }

  /** Runs a statement on the server that is picked for it, like mysql2's `query`. */
  query<T extends QueryResult>(sql: string | StatementOptions, callback: QueryCallback<T>): void;
  query<T extends QueryResult>(sql: string | StatementOptions, values: unknown, callback: QueryCallback<T>): void;
  query<T extends QueryResult>(sql: string | StatementOptions, values?: unknown): RunningStatement<T>;
  query(...args: StatementArguments): unknown {
    return this.#run('query', args);
  }

  /** Runs a prepared statement, like mysql2's `execute`. The statement is prepared once per connection. */
  execute<T extends QueryResult>(sql: string | StatementOptions, callback: QueryCallback<T>): void;
  execute<T extends QueryResult>(sql: string | StatementOptions, values: unknown, callback: QueryCallback<T>): void;
  execute<T extends QueryResult>(sql: string | StatementOptions, values?: unknown): RunningStatement<T>;
  execute(...args: StatementArguments): unknown {
    return this.#run('execute', args);
  }

  /**
   * Checks out a connection until its `release()` is called: for transactions and anything else that needs one session. Without a callback
   * the connection is one of `mysql2/promise`, with a callback one of `mysql2`.
   */
  getConnection(options?: CheckoutOptions): Promise<CheckedOutConnection>;
  getConnection(callback: ConnectionCallback): void;
  getConnection(options: CheckoutOptions, callback: ConnectionCallback): void;
  getConnection(first?: CheckoutOptions | ConnectionCallback, second?: ConnectionCallback): unknown {
    const callback = typeof first === 'function' ? first : second;
    const key: unknown = typeof first === 'function' ? undefined : ownProperties(first)?.key;
    if (key !== undefined && typeof key !== 'string') {
      const error = new EvenkeelError('EVENKEEL_OPTION', 'getConnection: key must be a string');
      if (callback === undefined) return Promise.reject(error);
      throw error;
    }
    if (callback === undefined) return this.#checkOut(key);
    const done = AsyncResource.bind(applicationErrors(callback));
    new MysqlCall(this.#route, undefined, key, done as MysqlCallback).begin();
  }

  /**
   * Returns this namespace itself, because without a callback every method returns a promise. For code that requests the promise form of a
   * mysql2 pool.
   */
  promise(): this {
    return this;
  }

  /** Gives back a checked-out connection, as its `release()` does. */
  releaseConnection(connection: { release(): void }): void {
    connection.release();
  }

  #run(method: Method, args: StatementArguments): unknown {
    const callback = callbackOf(args);
    if (callback === undefined) {
      const callSite: CallSite = {};
      // The stack is captured here, because each further frame up to the caller would cost half a microsecond.
      if (this.#route.first.settings.mysql.trace !== false) Error.captureStackTrace(callSite, this[method]);
      return this.#promised(method, args, callSite);
    }
    const statement = parseStatement(method, args);
    // The callback runs in the caller's async context rather than the connection's.
    new MysqlCall(
      this.#route,
      statement,
      statement.key,
      AsyncResource.bind(applicationErrors(callback)) as MysqlCallback,
    ).begin();
  }

  #promised(method: Method, args: StatementArguments, callSite: CallSite): RunningStatement<unknown> {
    return RunningStatement.start<unknown>((running) => {
      const statement = parseStatement(method, args, running);
      const done: MysqlCallback = (error, rows, fields) =>
        running.answered(error && comingFrom(error, callSite), rows, fields);
      new MysqlCall(this.#route, statement, statement.key, done).begin();
    });
  }

  #checkOut(key: string | undefined): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const done: MysqlCallback = (error, connection) =>
        error ? reject(error) : resolve(releasedOnce(connection as MysqlPoolConnection));
      new MysqlCall(this.#route, undefined, key, done).begin();
    });
  }
}

/**
 * The promise form of a checked-out connection, for one caller. Releasing it a second time does nothing, because the connection may have
 * its next user by then.
 */
function releasedOnce(connection: MysqlPoolConnection): CheckedOutConnection {
  const promised = connection.promise();
  let isReleased = false;
  promised.release = () => {
    if (!isReleased) connection.release();
    isReleased = true;
  };
  // In older versions of mysql2, such as 3.16, the `destroy` of the promise form bypasses the `destroy` of the connection.
  promised.destroy = () => connection.destroy();
  const disposable = promised as PromisePoolConnection & { [Symbol.asyncDispose]?: () => Promise<void> };
  // Older versions of mysql2 have no `Symbol.asyncDispose`.
  disposable[Symbol.asyncDispose] ??= async () => promised.release();
  const { endpoint } = connection as MysqlPoolConnection & ServerOfConnection;
  return Object.assign(promised, { endpoint });
}

/** The stack of the code that called a method, because the stack of a socket error does not show that code. Empty with `trace: false`. */
interface CallSite {
  readonly stack?: string;
}

function comingFrom(error: Error, { stack }: CallSite): Error {
  const frames = stack?.slice(stack.indexOf('\n'));
  if (frames !== undefined) error.stack = `${error.name}: ${error.message}${frames}`;
  return error;
}
