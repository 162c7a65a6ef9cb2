/**
 * Every undocumented part of pg that evenkeel uses. Each was seen in pg 8.11 and 8.23; the tests run against the oldest and the newest
 * supported pg.
 */
import { Socket } from 'node:net';
import type { PoolClient } from 'pg';
import type { Endpoint } from '../../index.js';

/** What a pg client has beyond its published types. */
interface ClientInternals {
  readonly connection: {
    readonly stream: Socket;
    on(event: string, listener: (message: never) => void): void;
    emit(event: string, message: unknown): void;
    prependListener(event: string, listener: (message: never) => void): void;
  };
  readonly readyForQuery?: boolean;
  readonly _ending?: boolean;
  readonly _queryable?: boolean;
  readonly _sentQueryQueue?: readonly unknown[];
  host: string;
  port: number;
  readonly connectionParameters: { host: string; port: number };
  ref(): void;
  unref(): void;
}

const internalsOf = (client: PoolClient): ClientInternals => client as unknown as ClientInternals;

/**
 * Creates a socket for pg's option `stream` that connects to the pod's address. pg calls `connect(port, host)` of that socket with the
 * address of the Service, which is ignored. The socket does not keep the process alive.
 */
export function dialTo({ address: host, port }: Endpoint): Socket {
  const socket = new Socket();
  const connect = socket.connect.bind(socket);
  socket.connect = (() => {
    connect({ host, port });
    return socket.unref();
  }) as unknown as Socket['connect'];
  return socket;
}

/**
 * Gives an unconnected pg client the Service's host name and port, which pg uses for TLS and passes to password functions. Without this, pg
 * would check the certificate against the host of the connection string.
 */
export function nameServer(client: PoolClient, host: string, port: number): void {
  Object.assign(client, { host, port });
  Object.assign(internalsOf(client).connectionParameters, { host, port });
}

/**
 * Sets whether a client's socket keeps the process alive. Without this, a process with an idle pool would never end; pg's types have
 * neither `ref` nor `unref`.
 */
export function setReferenced(client: PoolClient, isReferenced: boolean): void {
  if (isReferenced) internalsOf(client).ref();
  else internalsOf(client).unref();
}

/** Closes a client's socket at once. pg's `end` would wait for a running statement, or for a server that does not respond. */
export function destroySocket(client: PoolClient, error?: Error): void {
  internalsOf(client).connection.stream.destroy(error);
}

/**
 * Calls `listener` with the transaction state (I = none) whenever the server is ready for a statement, before pg's own listener notifies
 * the caller. Without this, a transaction left open would be discovered by the next caller.
 */
export function onReady(client: PoolClient, listener: (transaction: string) => void): void {
  internalsOf(client).connection.prependListener('readyForQuery', ({ status }: { readonly status: string }) =>
    listener(status),
  );
}

/**
 * Ends a query object whose connection has ended. Without this, the reader of a stream would wait forever, because pg-query-stream closes
 * only once the server is ready again.
 */
export function endWithConnection(client: PoolClient, query: object): void {
  const { destroyed, destroy } = query as { readonly destroyed?: boolean; readonly destroy?: (error: Error) => void };
  if (destroyed === false) destroy?.call(query, new Error('Connection terminated unexpectedly'));
  internalsOf(client).connection.emit('readyForQuery', { status: 'I' });
}

/**
 * Calls `listener` with every error that the server sends, even while the client is checked out. Without this, a server that lost its role
 * is noticed late, and one that fails its callers does not count as failing.
 */
export function onServerError(client: PoolClient, listener: (error: unknown) => void): void {
  internalsOf(client).connection.on('errorMessage', listener);
}

/**
 * Calls `listener` with the name of every parameter that the server reports. Without this, a promotion is only noticed when the server's
 * role is next queried.
 */
export function onParameter(client: PoolClient, listener: (name: string) => void): void {
  internalsOf(client).connection.on('parameterStatus', ({ parameterName }: { readonly parameterName: string }) =>
    listener(parameterName),
  );
}

/**
 * Whether a client is ready and runs no statement. With pg's option `pipeline`, statements already sent are in a queue of their own.
 * Without this, a client could be lent while a statement of its last user still runs.
 */
export function hasNothingRunning(client: PoolClient): boolean {
  const { readyForQuery, _sentQueryQueue: sent } = internalsOf(client);
  return readyForQuery === true && (sent === undefined || sent.length === 0);
}

/** Whether the client was ended by `end()` or by an error. Without this, the next caller would get a client that refuses statements. */
export function isEnded(client: PoolClient): boolean {
  const { _ending: isEnding, _queryable: isQueryable } = internalsOf(client);
  return isEnding === true || isQueryable === false;
}

/**
 * Whether an error message of pg says that a statement took too long. pg's own errors have no codes; without this, the server would not be
 * blamed.
 */
export function isReadTimeout(message: unknown): boolean {
  return message === 'Query read timeout';
}

/**
 * Whether an error message of pg says that the connection was lost. Without this, a statement that was running then would count as
 * answered.
 */
export function isConnectionLoss(message: unknown): boolean {
  return typeof message === 'string' && message.startsWith('Connection terminated');
}

/**
 * Whether an error message of pg says that the server closed the connection. Without this, a server that closes idle connections would
 * count as failed.
 */
export function isClosedByServer(message: unknown): boolean {
  return message === 'Connection terminated unexpectedly';
}
