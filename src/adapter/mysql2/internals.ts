/**
 * Every undocumented part of mysql2 that evenkeel uses. Each was seen in mysql2 3.9 and 3.24; the tests run against the oldest and the
 * newest supported mysql2.
 */
import type { Socket } from 'node:net';
import type { Pool, PoolConnection } from 'mysql2';
import * as mysql2 from 'mysql2';
import type { Endpoint } from '../../index.js';

/**
 * Sets on a connection to which server it leads. Traces (mysql2's channels, OpenTelemetry) read this from the connection's `config`; until
 * the handshake the `config` contains the Service's name, for TLS.
 */
export function nameServer(connection: PoolConnection, endpoint: Endpoint): void {
  const { config } = connection as unknown as { readonly config: object };
  // Older versions of mysql2 have one config for all connections of a pool, so the config is copied.
  const configCopy: object = Object.create(Object.getPrototypeOf(config), Object.getOwnPropertyDescriptors(config));
  Object.assign(configCopy, { host: endpoint.address, port: endpoint.port });
  Object.assign(connection, { config: configCopy, endpoint });
}

/**
 * Puts evenkeel's methods in the place of a connection's own, and returns the connection's own. Without this, nobody would know what a
 * caller does with a connection it checked out: whether a statement timed out, or still runs when the connection is given back.
 */
export function replaceMethods<Methods>(connection: PoolConnection, ours: object): Methods {
  const { release, destroy, query, execute, end } = connection as unknown as Record<string, unknown>;
  // Older versions of mysql2 have no `Symbol.dispose`.
  Object.assign(connection, ours, { [Symbol.dispose]: () => connection.release() });
  return { release, destroy, query, execute, end } as Methods;
}

/**
 * Notifies the server that the client leaves, and closes the connection. The `end` of a pool's connection only gives it back; without
 * this, servers log an aborted client.
 */
export function sayGoodbye(connection: PoolConnection): void {
  (mysql2.Connection.prototype.end as (this: PoolConnection) => void).call(connection);
}

/** The socket of a connection, or the TLS layer above it. Without this, a reader that pauses its rows would look like a silent server. */
export function streamOf(connection: PoolConnection): Socket {
  return (connection as unknown as { readonly stream: Socket }).stream;
}

/** The flag of `serverStatus` that says that a transaction is open: SERVER_STATUS_IN_TRANS of the MySQL protocol. */
const IN_TRANSACTION = 1;

/**
 * Calls `listener`, before the statement's caller is notified, with whether a transaction is open. Only answers without rows say that, such
 * as those of BEGIN, COMMIT and INSERT. Without this, a transaction left open would be continued by the next caller.
 */
export function onTransactionState(
  command: { on(event: string, listener: (value: never) => void): unknown },
  listener: (isOpen: boolean) => void,
): void {
  let hasRows = true;
  command.on('fields', (fields: unknown) => {
    hasRows = fields !== undefined;
  });
  command.on('result', (header: { readonly serverStatus: number }) => {
    if (!hasRows) listener((header.serverStatus & IN_TRANSACTION) !== 0);
  });
}

/** Whether the installed mysql2 can reset connections, as from 3.22 on. An older mysql2 would ignore `resetOnRelease`. */
export function canReset(): boolean {
  return 'reset' in mysql2.Connection.prototype;
}

/** Makes the server forget what a connection's user has set. `done` is called once, later. */
export function reset(connection: PoolConnection, done: (error: Error | null) => void): void {
  (connection as unknown as { reset(done: (error: Error | null) => void): void }).reset(done);
}

/** The credentials of a pool's connections, which may change. */
interface LogIn {
  readonly user?: string;
  readonly password?: string;
  readonly ssl?: object | undefined;
}

/**
 * Sets the credentials with which the next connection of a pool logs in: mysql2 copies the pool's `config.connectionConfig` for each
 * connection. Without this, passwords that expire would need a new pool.
 */
export function setCredentials(pool: Pool, credentials: LogIn): void {
  const { user, password } = credentials;
  const { connectionConfig } = pool.config as unknown as { readonly connectionConfig: Record<string, unknown> };
  if (user !== undefined) connectionConfig.user = user;
  if (password !== undefined) hide(connectionConfig, 'password', password);
  // TLS settings may contain a private key, so they are hidden too.
  if ('ssl' in credentials) hide(connectionConfig, 'ssl', credentials.ssl ?? false);
}

const SECRETS = ['password', 'password1', 'password2', 'password3', 'passwordSha1'] as const;

/** Keeps the passwords of a pool out of logs of the pool and its connections. mysql2 still reads them for every handshake. */
export function hideSecrets(pool: Pool): void {
  const { connectionConfig } = pool.config as unknown as { readonly connectionConfig?: Record<string, unknown> };
  if (connectionConfig === undefined) return;
  for (const name of SECRETS) {
    const value = connectionConfig[name];
    if (value !== undefined) hide(connectionConfig, name, value);
  }
}

function hide(config: Record<string, unknown>, name: string, value: unknown): void {
  Object.defineProperty(config, name, { value, enumerable: false, writable: true, configurable: true });
}

/** The TLS settings of one of mysql2's profiles, such as 'Amazon RDS'. Throws if there is no profile of that name. */
export function tlsProfile(name: string): Record<string, unknown> {
  const { ConnectionConfig } = mysql2 as unknown as {
    readonly ConnectionConfig: { getSSLProfile(name: string): Record<string, unknown> };
  };
  return ConnectionConfig.getSSLProfile(name);
}

/** Whether the installed mysql2 supports the option `gracefulEnd`. An older mysql2 would ignore it. */
export function knowsGracefulEnd(): boolean {
  const { ConnectionConfig } = mysql2 as unknown as {
    readonly ConnectionConfig: new (options: object) => { readonly gracefulEnd?: unknown };
  };
  return new ConnectionConfig({}).gracefulEnd !== undefined;
}

/**
 * Whether a connection waits for its statements when its user ends it. Without this, a connection that still runs a statement would go back
 * to its pool.
 */
export function endsGracefully(connection: PoolConnection): boolean {
  return (connection as { readonly config: { readonly gracefulEnd?: boolean } }).config.gracefulEnd === true;
}

/**
 * Whether an error without a code says that the server requested a file for which the caller gave no stream: mysql2 sent an empty file, and
 * the server answered. Without this, the server would be blamed.
 */
export function isMissingFile({ message }: { readonly message?: unknown }): boolean {
  return /^As a result of LOCAL INFILE command/.test(String(message));
}

/**
 * Whether an error without a code says that the connection was closed before the statement was sent. Without this, the statement would not
 * be sent again.
 */
export function isClosedBefore({ message }: { readonly message?: unknown }): boolean {
  return /in closed state|pool is closed/i.test(String(message));
}
