import { isIP } from 'node:net';
import * as mysql2 from 'mysql2';
import { Connection, type PoolOptions as MysqlPoolOptions } from 'mysql2';
import { type BalancingOptions, balancerDefaults, type Endpoint, EvenkeelError, poolDefaults } from '../../index.js';
import { type Asked, checkBoolean, checkKeys, checkNumber, checkPort, optionError } from '../kit/index.js';
import { withOwnFunctions } from './own-functions.js';
import { CredentialFunctions, type Credentials } from './server/credentials.js';
import type { DialOptions } from './server/dial.js';
import { resolveTls } from './server/tls.js';

/** Options of mysql2 that are ours to decide, or that have another name here. */
type Decided =
  | 'stream'
  | 'socketPath'
  | 'pool'
  | 'isServer'
  | 'uri'
  | 'Promise'
  | 'user'
  | 'password'
  | 'ssl'
  | 'host'
  | 'port';

/** Options of mysql2's own pool and its connections: `database`, `charset`, `timezone`, `typeCast` … */
export type MysqlOptions = Omit<MysqlPoolOptions, Decided>;

/** How the connections to each server are opened and used. */
export interface Mysql2ConnectionOptions extends Omit<MysqlOptions, 'connectionLimit' | 'maxIdle' | 'idleTimeout'> {
  /** The user: a name, or a function called for each new connection. @defaultValue none */
  readonly user?: Asked<string> | undefined;
  /**
   * The password, or a function called for each new connection, for tokens that expire (IAM, Vault). If it throws, the error is
   * EVENKEEL_OPTION. It may take as long as a connection may. @defaultValue none
   */
  readonly password?: Asked<string> | undefined;
  /**
   * The Service's name. Without `target` and `resolver` this is also what is resolved. Over TLS it is sent and checked.
   * @defaultValue the host of the target
   */
  readonly host?: string | undefined;
  /** The Service's port, with `host`. @defaultValue 3306 */
  readonly port?: number | undefined;
  /**
   * TLS settings, or the name of a profile of mysql2. The server must have a certificate for `host` of an authority in
   * `ca`, unless `rejectUnauthorized` or `verifyIdentity` is set to false. A function is asked for them at each new
   * connection, for certificates that are renewed. @defaultValue none: plain TCP
   */
  readonly ssl?: Asked<MysqlPoolOptions['ssl']> | undefined;
  /**
   * How often the functions given as `user`, `password` and `ssl` are also called while connections are open, in ms, ± 20 %. If they
   * return something else than a connection logged in with (for `ssl`: certificates and keys), and the server accepts it, the
   * connection is replaced once it is idle. Not for tokens that are created at each call: every connection would be replaced that
   * often. @defaultValue Infinity: connections keep what they logged in with
   */
  readonly credentialsRefreshMs?: number | undefined;
  /** Maximum connections per server; one is always kept. @defaultValue 10 */
  readonly connectionLimit?: number | undefined;
  /** Maximum idle connections per server; further ones are closed on release. @defaultValue connectionLimit */
  readonly maxIdle?: number | undefined;
  /** How long a connection may be idle before it is closed, in ms; a server's last one is kept. @defaultValue 60000 */
  readonly idleTimeout?: number | undefined;
  /** A connection idle for this long is pinged before it is used, in ms. @defaultValue 5000 */
  readonly validateAfterMs?: number | undefined;
  /** How long it may take to respond, in ms. @defaultValue 1000 */
  readonly validateTimeoutMs?: number | undefined;
  /** How long a statement without a `timeout` of its own may take, in ms; Infinity = no limit. @defaultValue Infinity */
  readonly queryTimeoutMs?: number | undefined;
}

/** The same, complete: what a `ServerConnection` goes by. */
export interface ServerSettings {
  /** For mysql2. Has a `host` if there is one for all servers. */
  readonly mysql: MysqlPoolOptions;
  /** What is asked for at each new connection, if anything is. */
  readonly asked: CredentialFunctions | undefined;
  readonly credentialsRefreshMs: number;
  readonly connectionLimit: number;
  readonly maxIdle: number;
  readonly idleTimeoutMs: number;
  readonly validateAfterMs: number;
  readonly validateTimeoutMs: number;
  readonly queryTimeoutMs: number;
  readonly connectTimeoutMs: number;
  readonly maxConnectionAgeMs: number;
  readonly dial: DialOptions;
}

/** Defaults of the options above; see `docs/reference/options-mysql.md`. */
export const mysql2Defaults: {
  readonly credentialsRefreshMs: number;
  readonly connectionLimit: number;
  readonly idleTimeout: number;
  readonly validateAfterMs: number;
  readonly validateTimeoutMs: number;
  readonly queryTimeoutMs: number;
} = Object.freeze({
  credentialsRefreshMs: Number.POSITIVE_INFINITY,
  connectionLimit: 10,
  idleTimeout: 60_000,
  validateAfterMs: 5_000,
  validateTimeoutMs: 1_000,
  queryTimeoutMs: Number.POSITIVE_INFINITY,
});

const PORT = 3_306;

/** What mysql2 reads and we pass on as it is. */
const passedOn = [
  'user',
  'password',
  'password1',
  'password2',
  'password3',
  'passwordSha1',
  'database',
  'charset',
  'charsetNumber',
  'timezone',
  'stringifyObjects',
  'insecureAuth',
  'infileStreamFactory',
  'typeCast',
  'queryFormat',
  'supportBigNumbers',
  'bigNumberStrings',
  'decimalNumbers',
  'dateStrings',
  'debug',
  'trace',
  'multipleStatements',
  'flags',
  'rowsAsArray',
  'nestTables',
  'namedPlaceholders',
  'compress',
  'authPlugins',
  'authSwitchHandler',
  'connectAttributes',
  'maxPreparedStatements',
  'jsonStrings',
  'disableEval',
  'enableCleartextPlugin',
  'resetOnRelease',
  'gracefulEnd',
] as const;

const ownNames = [
  'host',
  'port',
  'ssl',
  'connectionLimit',
  'maxIdle',
  'idleTimeout',
  'validateAfterMs',
  'validateTimeoutMs',
  'queryTimeoutMs',
  'credentialsRefreshMs',
  'enableKeepAlive',
  'keepAliveInitialDelay',
  'localAddress',
] as const;

/** Names of `Mysql2ConnectionOptions`. */
export const mysql2ConnectionOptionNames: readonly string[] = Object.freeze([...passedOn, ...ownNames]);

/** Names that mysql2 has for what is a balancing option here. */
export const renamedOptionNames: readonly string[] = ['connectTimeout', 'queueLimit', 'waitForConnections'];

/** What cannot be had here, and what to do instead. */
const refused: Readonly<Record<string, string>> = {
  stream: 'the sockets are opened to the servers that are found',
  socketPath: 'a Service has no socket file',
  uri: 'give host, port, user, password and database',
};

/** The options of mysql2's names for waiting, as ours. Throws EVENKEEL_OPTION where both are given. */
export function withOwnNames<T extends object>(options: T): T & BalancingOptions {
  const { connectTimeout, queueLimit, waitForConnections, ...rest } = options as T & {
    readonly connectTimeout?: unknown;
    readonly queueLimit?: unknown;
    readonly waitForConnections?: unknown;
  };
  const own = rest as BalancingOptions;
  const both = (theirs: string, ours: string): EvenkeelError =>
    new EvenkeelError('EVENKEEL_OPTION', `${theirs} and ${ours} are the same: give one of them`);
  const changed: { -readonly [Name in keyof BalancingOptions]: BalancingOptions[Name] } = {};
  if (connectTimeout !== undefined) {
    if (own.pool?.connectTimeoutMs !== undefined) throw both('connectTimeout', 'pool.connectTimeoutMs');
    const limit = { min: 1, max: 600_000 };
    changed.pool = { ...own.pool, connectTimeoutMs: checkNumber('connectTimeout', connectTimeout, 0, limit) };
  }
  const count = { min: 0, max: 1_000_000, integer: true };
  if (queueLimit !== undefined || waitForConnections !== undefined) {
    if (own.maxWaiting !== undefined) throw both('queueLimit or waitForConnections', 'maxWaiting');
    // mysql2 takes 0 for no limit; ours always has one.
    const limit = checkNumber('queueLimit', queueLimit, 0, count) || balancerDefaults.maxWaiting;
    changed.maxWaiting = checkBoolean('waitForConnections', waitForConnections, true) ? limit : 0;
  }
  return { ...(rest as unknown as T), ...changed };
}

/** Throws EVENKEEL_OPTION for a name nobody knows. No value is shown: it may be a secret under a name with a slip. */
export function checkNames(name: string, options: unknown, more: readonly string[]): void {
  if (typeof options === 'object' && options !== null) {
    for (const [key, instead] of Object.entries(refused)) {
      if (key in options) {
        throw new EvenkeelError('EVENKEEL_OPTION', `${name} has no option "${key}": ${instead}`);
      }
    }
    refuseHttpRetries(name, (options as Pick<BalancingOptions, 'retry'>).retry);
  }
  checkKeys(name, options, [...more, ...mysql2ConnectionOptionNames]);
}

/** What is for HTTP alone would have no effect. */
function refuseHttpRetries(name: string, retry: BalancingOptions['retry']): void {
  for (const key of ['statuses', 'methods'] as const) {
    if (retry?.[key] === undefined) continue;
    const instead = 'that is for HTTP. What may be done twice is said by `idempotent`';
    throw new EvenkeelError('EVENKEEL_OPTION', `${name} has no option "retry.${key}": ${instead}`);
  }
}

/** Fills in defaults and checks what we use ourselves. Throws EVENKEEL_OPTION; secrets are in no message. */
export function resolveServerSettings(
  options: Mysql2ConnectionOptions & Pick<BalancingOptions, 'pool'>,
  host: string | undefined,
): ServerSettings {
  for (const name of ['user', 'password', 'password1', 'password2', 'password3', 'database'] as const) {
    const value: unknown = options[name];
    const mayBeAsked = name === 'user' || name === 'password';
    if (value === undefined || typeof value === 'string' || (mayBeAsked && typeof value === 'function')) continue;
    const got = value === null ? 'null' : typeof value;
    const wanted = mayBeAsked ? 'a string, or a function that returns one' : 'a string';
    throw new EvenkeelError('EVENKEEL_OPTION', `${name} must be ${wanted}, got ${got}`);
  }
  const mysql: Record<string, unknown> = {};
  for (const name of passedOn) {
    const value = (options as Record<string, unknown>)[name];
    if (value !== undefined && !(isAsked(name) && typeof value === 'function')) mysql[name] = value;
  }
  const functions: { -readonly [Name in keyof Credentials]?: (endpoint: Endpoint) => unknown } = {};
  for (const name of ['user', 'password', 'ssl'] as const) {
    const value = options[name];
    if (typeof value === 'function') functions[name] = value;
  }
  // An older mysql2 would pass it over, and the next user of a connection find what the one before left.
  if (mysql.resetOnRelease === true && !('reset' in Connection.prototype)) {
    throw new EvenkeelError('EVENKEEL_OPTION', 'resetOnRelease needs mysql2 3.22 or newer');
  }
  if (mysql.gracefulEnd === true && !knowsGracefulEnd()) {
    throw new EvenkeelError('EVENKEEL_OPTION', 'gracefulEnd needs a newer mysql2: this one would ignore it');
  }
  const ssl = typeof options.ssl === 'function' ? undefined : resolveTls(options.ssl, host);
  if (ssl !== undefined) mysql.ssl = ssl;
  if (host !== undefined) mysql.host = host;
  const ms = { min: 1, max: 86_400_000 };
  const connectionLimit = checkNumber('connectionLimit', options.connectionLimit, mysql2Defaults.connectionLimit, {
    min: 1,
    max: 100_000,
    integer: true,
  });
  const { idleTimeout, validateAfterMs, validateTimeoutMs, queryTimeoutMs, localAddress } = options;
  if (localAddress !== undefined && isIP(localAddress) === 0) {
    throw optionError('localAddress', 'an IP address', localAddress);
  }
  return {
    mysql: withOwnFunctions(mysql) as MysqlPoolOptions,
    asked: Object.keys(functions).length === 0 ? undefined : new CredentialFunctions(functions, host),
    credentialsRefreshMs: checkNumber(
      'credentialsRefreshMs',
      options.credentialsRefreshMs,
      mysql2Defaults.credentialsRefreshMs,
      { min: 1_000, max: 86_400_000, infinite: true },
    ),
    connectionLimit,
    maxIdle: checkNumber('maxIdle', options.maxIdle, connectionLimit, { min: 0, max: 100_000, integer: true }),
    idleTimeoutMs: checkNumber('idleTimeout', idleTimeout, mysql2Defaults.idleTimeout, { ...ms, infinite: true }),
    validateAfterMs: checkNumber('validateAfterMs', validateAfterMs, mysql2Defaults.validateAfterMs, {
      min: 0,
      max: 86_400_000,
      infinite: true,
    }),
    validateTimeoutMs: checkNumber('validateTimeoutMs', validateTimeoutMs, mysql2Defaults.validateTimeoutMs, ms),
    queryTimeoutMs: checkNumber('queryTimeoutMs', queryTimeoutMs, mysql2Defaults.queryTimeoutMs, {
      ...ms,
      infinite: true,
    }),
    connectTimeoutMs: options.pool?.connectTimeoutMs ?? poolDefaults.connectTimeoutMs,
    maxConnectionAgeMs: options.pool?.maxConnectionAgeMs ?? poolDefaults.maxConnectionAgeMs,
    dial: {
      keepAlive: checkBoolean('enableKeepAlive', options.enableKeepAlive, true),
      keepAliveDelayMs: checkNumber('keepAliveInitialDelay', options.keepAliveInitialDelay, 15_000, {
        min: 0,
        max: 86_400_000,
      }),
      localAddress,
    },
  };
}

const isAsked = (name: string): boolean => name === 'user' || name === 'password';

/** Whether the mysql2 there is ends a connection of a pool when it is told to. */
function knowsGracefulEnd(): boolean {
  const { ConnectionConfig } = mysql2 as unknown as {
    readonly ConnectionConfig: new (options: object) => { readonly gracefulEnd?: unknown };
  };
  return new ConnectionConfig({}).gracefulEnd !== undefined;
}

/** A target's host, for TLS and for messages; undefined where it has none. */
export function hostOfTarget(target: string): string | undefined {
  const [, scheme, rest = target] = /^(kubernetes|dns|static):(?!\d+$)(.*)$/.exec(target.trim()) ?? [];
  if (scheme === 'static') return undefined;
  const host = rest
    .trim()
    .replace(/:[^:\]]*$/, '')
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '');
  return host === '' ? undefined : host;
}

/** `host` and `port` as a target string. */
export function targetOfHost(host: string, port: number | undefined): string {
  const checked = checkPort('port', port ?? PORT);
  return isIP(host) === 6 ? `[${host}]:${checked}` : `${host}:${checked}`;
}
