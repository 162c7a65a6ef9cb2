import type { Duplex } from 'node:stream';
import type { PoolOptions as MysqlPoolOptions } from 'mysql2';
import { type BalancingOptions, type Endpoint, EvenkeelError } from '../../../index.js';
import { ownProperties, poolDefaults } from '../../kit/index.js';
import type { PoolLimits } from '../../sql/session-pool.js';
import { canReset, knowsGracefulEnd } from '../internals.js';
import { type Mysql2ConnectionOptions, mysql2ConnectionTable, passedOn } from '../options.js';
import { withOwnFunctions } from '../own-functions.js';
import { type Credentials, type ReadCredentials, readerOfCredentials, resolveTls } from './credentials.js';

/** How sockets to the servers of one Service are opened. */
export interface DialOptions {
  /** Whether TCP probes a server that is idle. */
  readonly keepAlive: boolean;
  /** Idle time of a connection before TCP's first probe, in ms. */
  readonly keepAliveDelayMs: number;
  /** The local address from which servers are dialed. */
  readonly localAddress: string | undefined;
}

/** The options of the connections to each server, after defaults were filled in and everything was checked. */
export interface ServerSettings extends PoolLimits {
  /** The options that are passed to mysql2. They include `host` if all servers share one. */
  readonly mysql: MysqlPoolOptions;
  /** Provides the credentials of each new connection; undefined if no credential is a function. */
  readonly readCredentials: ReadCredentials | undefined;
  readonly credentialsRefreshMs: number;
  readonly queryTimeoutMs: number;
  readonly dial: DialOptions;
}

/** Fills in defaults and checks every option. Throws EVENKEEL_OPTION; no message contains a secret. */
export function resolveServerSettings(
  callersOptions: Mysql2ConnectionOptions & Pick<BalancingOptions, 'pool'>,
  host: string | undefined,
): ServerSettings {
  const options = ownProperties(callersOptions);
  const pool = ownProperties(options.pool ?? {});
  const mysql = mysqlOptions(options, host);
  const {
    connectionLimit,
    maxIdle = connectionLimit,
    idleTimeout,
    enableKeepAlive,
    keepAliveInitialDelay,
    ...own
  } = mysql2ConnectionTable.resolveOwn(options);
  const { credentialsRefreshMs, validateAfterMs, validateTimeoutMs, queryTimeoutMs, localAddress } = own;
  return {
    mysql,
    readCredentials: readerOfCredentials(credentialFunctions(options), host),
    credentialsRefreshMs,
    max: connectionLimit,
    min: 1,
    maxUses: Number.POSITIVE_INFINITY,
    maxIdle,
    idleTimeoutMs: idleTimeout,
    validateAfterMs,
    validateTimeoutMs,
    queryTimeoutMs,
    connectTimeoutMs: pool.connectTimeoutMs ?? poolDefaults.connectTimeoutMs,
    maxAgeMs: pool.maxConnectionAgeMs ?? poolDefaults.maxConnectionAgeMs,
    dial: { keepAlive: enableKeepAlive, keepAliveDelayMs: keepAliveInitialDelay, localAddress },
  };
}

/** The options that are passed to mysql2. */
function mysqlOptions(options: Mysql2ConnectionOptions, host: string | undefined): MysqlPoolOptions {
  for (const name of ['user', 'password', 'password1', 'password2', 'password3', 'database'] as const) {
    const value: unknown = options[name];
    if (value === undefined || typeof value === 'string' || (mayBeFunction(name) && typeof value === 'function'))
      continue;
    const got = value === null ? 'null' : typeof value;
    const wanted = mayBeFunction(name) ? 'a string, or a function that returns one' : 'a string';
    throw new EvenkeelError('EVENKEEL_OPTION', `${name} must be ${wanted}, got ${got}`);
  }
  const mysql: Record<string, unknown> = ownProperties({});
  for (const name of passedOn) {
    const value = (options as Record<string, unknown>)[name];
    if (value !== undefined && !(mayBeFunction(name) && typeof value === 'function')) mysql[name] = value;
  }
  // An older mysql2 would ignore `resetOnRelease`, and the next user of a connection would find what the previous one left.
  if (mysql.resetOnRelease === true && !canReset()) {
    throw new EvenkeelError('EVENKEEL_OPTION', 'resetOnRelease needs mysql2 3.22 or newer');
  }
  if (mysql.gracefulEnd === true && !knowsGracefulEnd()) {
    throw new EvenkeelError('EVENKEEL_OPTION', 'gracefulEnd needs a newer mysql2: this one would ignore it');
  }
  const ssl = typeof options.ssl === 'function' ? undefined : resolveTls(options.ssl, host);
  if (ssl !== undefined) mysql.ssl = ssl;
  if (host !== undefined) mysql.host = host;
  return withOwnFunctions(mysql) as MysqlPoolOptions;
}

/**
 * The options of mysql2's pool for one server, whose sockets come from `open`. The pool only makes connections: its limits, its timeouts
 * and its reset do not apply.
 */
export function poolOptions(settings: ServerSettings, endpoint: Endpoint, open: () => Duplex): Record<string, unknown> {
  const { mysql } = settings;
  const limit = Number.MAX_SAFE_INTEGER;
  return {
    // The address is for traces; it is replaced by the Service's name, which TLS needs, if there is one.
    host: endpoint.address,
    port: endpoint.port,
    ...mysql,
    // mysql2 caches TLS sessions on this object, which is copied because a new pod behind an old address must never see them (U7).
    ...(typeof mysql.ssl === 'object' && { ssl: { ...mysql.ssl } }),
    stream: open,
    connectTimeout: 0,
    connectionLimit: limit,
    maxIdle: limit,
  };
}

const mayBeFunction = (name: string): boolean => name === 'user' || name === 'password';

function credentialFunctions(options: Mysql2ConnectionOptions) {
  const functions: { -readonly [Name in keyof Credentials]?: (endpoint: Endpoint) => unknown } = {};
  for (const name of ['user', 'password', 'ssl'] as const) {
    const value = options[name];
    if (typeof value === 'function') functions[name] = value;
  }
  return functions;
}
