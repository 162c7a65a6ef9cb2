/** The objects of mysql2: what evenkeel sets on them (options, credentials, methods), and what it needs of their types. */
import type { Duplex } from 'node:stream';
import type { Pool, PoolConnection, PoolOptions } from 'mysql2';
import type { Endpoint } from '../../../index.js';
import type { Credentials } from './credentials.js';
import type { ServerSettings } from './settings.js';

/**
 * Options of mysql2's pool for one server, whose sockets come from `open`. mysql2's own limits are out of the way: leases are what
 * is counted, and a connection just lost must not block one.
 */
export function poolOptions(settings: ServerSettings, endpoint: Endpoint, open: () => Duplex): Record<string, unknown> {
  const { mysql, connectionLimit } = settings;
  const limit = 2 * connectionLimit + 2;
  return {
    // For traces. With a name, that of the Service, for TLS.
    host: endpoint.address,
    port: endpoint.port,
    ...mysql,
    // A cache of TLS sessions hangs on this object: a new pod behind an old address must never see them (U7).
    ...(typeof mysql.ssl === 'object' && { ssl: { ...mysql.ssl } }),
    stream: open,
    connectTimeout: 0,
    waitForConnections: true,
    connectionLimit: limit,
    maxIdle: limit,
    queueLimit: 0,
  };
}

/** Options for one log-in with these credentials. */
export function withCredentials(options: Record<string, unknown>, { user, password, ssl }: Credentials): PoolOptions {
  return {
    ...options,
    ...(user !== undefined && { user }),
    ...(password !== undefined && { password }),
    ...(ssl !== undefined && { ssl: { ...ssl } }),
  } as PoolOptions;
}

/** Sets what the next connection of a pool logs in with. */
export function setCredentials(pool: Pool, credentials: Credentials): void {
  const { user, password } = credentials;
  const { connectionConfig } = pool.config as unknown as { readonly connectionConfig: Record<string, unknown> };
  if (user !== undefined) connectionConfig.user = user;
  if (password !== undefined) hide(connectionConfig, 'password', password);
  // It may contain a private key.
  if ('ssl' in credentials) hide(connectionConfig, 'ssl', credentials.ssl ?? false);
}

const SECRETS = ['password', 'password1', 'password2', 'password3', 'passwordSha1'] as const;

/** Keeps the passwords of a pool out of logs of it and its connections. mysql2 still reads them for every handshake. */
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

/** A connection of a cluster: it tells which server it leads to. */
export interface ServerOfConnection {
  /** The server's endpoint: its address and port, its pod's name, its zone. */
  readonly endpoint: Endpoint;
}

/**
 * Sets on a connection which server it leads to. Traces (mysql2's channels, OpenTelemetry) read it from the connection's
 * `config`; until the handshake that contains the Service's name, for TLS.
 */
export function nameServer(connection: PoolConnection, endpoint: Endpoint): void {
  const { config } = connection as unknown as { readonly config: object };
  // Older versions of mysql2 have one config for all connections of a pool.
  const own: object = Object.create(Object.getPrototypeOf(config), Object.getOwnPropertyDescriptors(config));
  Object.assign(own, { host: endpoint.address, port: endpoint.port });
  Object.assign(connection, { config: own, endpoint });
}

/** How a statement ended. */
export type Answer = (error: Error | null, rows?: unknown, fields?: unknown) => void;

/** The two ways to run a statement. */
export type Method = 'query' | 'execute';

/** What mysql2 returns for a statement: an emitter of `fields`, `result` for each row, `error` and `end`. */
export interface Command {
  on(event: string, listener: (...given: never[]) => void): unknown;
  once(event: string, listener: (...given: never[]) => void): unknown;
  emit(event: string, ...given: unknown[]): boolean;
}

/** A connection's `query` or `execute`, as mysql2 has it. */
export type Send = (this: PoolConnection, sql: unknown, values: unknown, answer?: Answer) => Command;

/** Methods of a pool's connection that we replace. */
export interface ConnectionMethods {
  readonly release: (this: PoolConnection) => void;
  readonly destroy: (this: PoolConnection) => void;
  readonly query: Send;
  readonly execute: Send;
  readonly end: (this: PoolConnection, ended?: (error?: Error) => void) => void;
}

/** Puts ours in the place of a connection's methods. Returns mysql2's. */
export function replaceMethods(connection: PoolConnection, ours: object): ConnectionMethods {
  const { release, destroy, query, execute, end } = connection as unknown as ConnectionMethods;
  // Older versions of mysql2 have no `Symbol.dispose`.
  Object.assign(connection, ours, { [Symbol.dispose]: () => connection.release() });
  return { release, destroy, query, execute, end };
}
