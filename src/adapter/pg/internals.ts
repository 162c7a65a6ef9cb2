/** Everything that pg does not document and evenkeel uses. Each was seen in pg 8.11 and 8.23; the tests run against the oldest and the newest. */
import { Socket } from 'node:net';
import type { PoolClient } from 'pg';
import type { Endpoint } from '../../index.js';

/** What pg keeps of a client, beyond its types. */
interface ClientInternals {
  readonly connection: {
    readonly stream: Socket;
    on(event: string, listener: (message: never) => void): void;
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
 * A socket for the option `stream`, which connects to the pod, no matter which host pg tells it to connect to. It does not keep the process
 * alive. pg calls `connect(port, host)` of the stream it was given; without this, it would connect to the Service's address.
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
 * Gives a client that has not connected yet the Service's name, which TLS sends and checks and functions for the password get. The
 * connection string may have told pg something else: without this, the certificate would be checked against that.
 */
export function nameServer(client: PoolClient, host: string, port: number): void {
  Object.assign(client, { host, port });
  Object.assign(internalsOf(client).connectionParameters, { host, port });
}

/** Whether the client's socket keeps the process alive. The types have it for neither; without it a process never ends by itself. */
export function setReferenced(client: PoolClient, isReferenced: boolean): void {
  if (isReferenced) internalsOf(client).ref();
  else internalsOf(client).unref();
}

/** Closes the socket at once. `end` would wait for a running statement, or for a server that does not answer. */
export function destroySocket(client: PoolClient, error?: Error): void {
  internalsOf(client).connection.stream.destroy(error);
}

/**
 * `listener` gets the state of the transaction (I = none) whenever the server is ready for a statement, before pg's own listener tells the
 * caller. Without it, a transaction that somebody left open would be found by the next caller.
 */
export function onReady(client: PoolClient, listener: (transaction: string) => void): void {
  internalsOf(client).connection.prependListener('readyForQuery', ({ status }: { readonly status: string }) =>
    listener(status),
  );
}

/** `listener` gets the SQLSTATE of every error, also of those on clients that are checked out. Without it, a lost role is noticed late. */
export function onErrorState(client: PoolClient, listener: (state: unknown) => void): void {
  internalsOf(client).connection.on('errorMessage', ({ code }: { readonly code?: unknown }) => listener(code));
}

/** `listener` gets the name of every parameter that the server reports. Without it, a promotion is noticed at the next query of its role. */
export function onParameter(client: PoolClient, listener: (name: string) => void): void {
  internalsOf(client).connection.on('parameterStatus', ({ parameterName }: { readonly parameterName: string }) =>
    listener(parameterName),
  );
}

/**
 * Whether nothing runs on a client. With the option `pipeline`, statements that were sent wait in a queue of their own. Without it, a client
 * could be lent while a statement of its last user runs.
 */
export function hasNothingRunning(client: PoolClient): boolean {
  const { readyForQuery, _sentQueryQueue: sent } = internalsOf(client);
  return readyForQuery === true && (sent === undefined || sent.length === 0);
}

/** Whether its user ended the client, by `end()` or by an error. Without it, the next caller would get a client that refuses statements. */
export function isEnded(client: PoolClient): boolean {
  const { _ending: isEnding, _queryable: isQueryable } = internalsOf(client);
  return isEnding === true || isQueryable === false;
}

/** Whether a message of pg, whose own errors have no codes, says that a statement took too long. Without it, the server would not be blamed. */
export function isReadTimeout(message: unknown): boolean {
  return message === 'Query read timeout';
}

/** Whether a message of pg says that the connection was lost. Without it, a statement that went down with it would count as answered. */
export function isConnectionLoss(message: unknown): boolean {
  return typeof message === 'string' && message.startsWith('Connection terminated');
}

/** Whether a message of pg says that the server closed the connection. Without it, idle connections that are closed would count as lost. */
export function isClosedByServer(message: unknown): boolean {
  return message === 'Connection terminated unexpectedly';
}
