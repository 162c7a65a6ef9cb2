/** The options of a service, and the settings that the rest of the adapter reads. */
import { isIP } from 'node:net';
import type { PoolOptions as MysqlPoolOptions } from 'mysql2';
import { type BalancingOptions, type Endpoint, EvenkeelError, type Resolver } from '../../index.js';
import {
  anyOption,
  balancerDefaults,
  balancingTable,
  booleanOption,
  checkBalancingOptions,
  checkBoolean,
  checkedOption,
  checkKeys,
  checkNumber,
  checkPort,
  checkString,
  choiceOption,
  type Filled,
  numberOption,
  type OptionTable,
  optionalNumber,
  optionError,
  optionTable,
  ownProperties,
  type PerEndpoint,
  pickNames,
  poolDefaults,
} from '../kit/index.js';
import type { PoolLimits } from '../sql/session-pool.js';
import { hostOf, sourceOf, targetOf } from '../sql/where.js';
import { type Credentials, type ReadCredentials, readerOfCredentials, resolveTls } from './credentials.js';
import { canReset, knowsGracefulEnd } from './internals.js';
import { withApplicationFunctions } from './own-functions.js';
import { lagTable, type ReplicaLagOptions } from './roles.js';

const MYSQL_PORT = 3_306;

/** Options of mysql2 that evenkeel sets itself, or that have another type in evenkeel. */
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

/** Options for the connections to each MySQL server: how they are opened and used. */
export interface Mysql2ConnectionOptions
  extends Omit<
    MysqlOptions,
    'connectionLimit' | 'maxIdle' | 'idleTimeout' | 'enableKeepAlive' | 'keepAliveInitialDelay' | 'localAddress'
  > {
  /** The user to log in as: a name, or a function called for each new connection. @defaultValue none */
  readonly user?: PerEndpoint<string> | undefined;
  /**
   * The password, or a function called for each new connection, for tokens that expire (IAM, Vault). If the function throws, the error is
   * EVENKEEL_OPTION. It may take as long as a connection attempt may. @defaultValue none
   */
  readonly password?: PerEndpoint<string> | undefined;
  /**
   * The Service's host name, which TLS sends and checks. Without `target` and `resolver` this name is also resolved. @defaultValue the host
   * of the target
   */
  readonly host?: string | undefined;
  /** The Service's port; used with `host`. @defaultValue 3306 */
  readonly port?: number | undefined;
  /**
   * TLS settings, or the name of a mysql2 profile. The server must have a certificate for `host`, from an authority in `ca`, unless
   * `rejectUnauthorized` or `verifyIdentity` is set to false. A function is called for each new connection, for certificates that are
   * renewed. @defaultValue none: plain TCP
   */
  readonly ssl?: PerEndpoint<MysqlPoolOptions['ssl']> | undefined;
  /**
   * How often the functions given as `user`, `password` and `ssl` are also called while connections are open, in ms, ± 20 %. If they return
   * other credentials than a connection logged in with (for `ssl`: certificates and keys), and the server accepts those, the connection is
   * replaced once it is idle. Not for tokens that are created at each call: every connection would be replaced that often.
   * @defaultValue Infinity: connections keep the credentials they logged in with
   * @see docs/guide/mysql.md#passwords-and-certificates-that-change
   */
  readonly credentialsRefreshMs?: number | undefined;
  /** The most connections per server; one is always kept. @defaultValue 10 */
  readonly connectionLimit?: number | undefined;
  /** The most idle connections per server; further connections are closed on release. @defaultValue connectionLimit */
  readonly maxIdle?: number | undefined;
  /** How long a connection may be idle before it is closed, in ms; a server's last connection is kept. @defaultValue 60000 */
  readonly idleTimeout?: number | undefined;
  /** A connection that was idle for this long, in ms, is pinged before it is used. @defaultValue 5000 */
  readonly validateAfterMs?: number | undefined;
  /** How long a server may take to answer a ping, in ms. @defaultValue 1000 */
  readonly validateTimeoutMs?: number | undefined;
  /**
   * How long a statement without a `timeout` may take, in ms, from call to response; for a statement that is read through events or as a
   * stream, how long nothing may arrive. Infinity = no limit. @defaultValue Infinity
   */
  readonly queryTimeoutMs?: number | undefined;
  /** Whether TCP probes if an idle server is still alive. @defaultValue true */
  readonly enableKeepAlive?: boolean | undefined;
  /** Idle time of a connection before TCP's first probe, in ms. @defaultValue 15000 */
  readonly keepAliveInitialDelay?: number | undefined;
  /** The local address to connect from. @defaultValue none */
  readonly localAddress?: string | undefined;
}

/** The options that mysql2 reads and evenkeel passes on unchanged. */
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

type OwnName =
  | 'host'
  | 'port'
  | 'ssl'
  | 'connectionLimit'
  | 'maxIdle'
  | 'idleTimeout'
  | 'validateAfterMs'
  | 'validateTimeoutMs'
  | 'queryTimeoutMs'
  | 'credentialsRefreshMs'
  | 'enableKeepAlive'
  | 'keepAliveInitialDelay'
  | 'localAddress';

const ms = { min: 1, max: 86_400_000 };
const count = { min: 1, max: 100_000, integer: true };

export const mysql2ConnectionTable: OptionTable<
  Filled<Pick<Mysql2ConnectionOptions, OwnName>, 'host' | 'port' | 'ssl' | 'maxIdle' | 'localAddress'>
> = optionTable('options', {
  // Where the servers are is checked elsewhere as a whole, and TLS settings are checked elsewhere without showing them.
  host: anyOption<string>(),
  port: { ...anyOption<number>(), bounds: { min: 1, max: 65_535, integer: true } },
  ssl: anyOption<NonNullable<Mysql2ConnectionOptions['ssl']>>(),
  connectionLimit: numberOption(10, count),
  maxIdle: optionalNumber({ ...count, min: 0 }),
  idleTimeout: numberOption(60_000, { ...ms, infinite: true }),
  validateAfterMs: numberOption(5_000, { ...ms, min: 0, infinite: true }),
  validateTimeoutMs: numberOption(1_000, ms),
  queryTimeoutMs: numberOption(Number.POSITIVE_INFINITY, { ...ms, infinite: true }),
  credentialsRefreshMs: numberOption(Number.POSITIVE_INFINITY, { ...ms, min: 1_000, infinite: true }),
  enableKeepAlive: booleanOption(true),
  keepAliveInitialDelay: numberOption(15_000, { ...ms, min: 0 }),
  localAddress: checkedOption<string | undefined>(undefined, (name, value) => {
    if (typeof value === 'string' && isIP(value) !== 0) return value;
    throw optionError(name, 'an IP address', value);
  }),
});

/** Options of one Service of a cluster: where its servers are, with which credentials to log in, and how a server is chosen. */
export interface ServiceOptions extends BalancingOptions, Mysql2ConnectionOptions, ReplicaLagOptions {
  /**
   * Where the servers are, as a target string; excludes `resolver`, and `host` with `port`. @defaultValue none
   * @see docs/reference/targets.md
   */
  readonly target?: string | undefined;
  /** Whether a statement may run twice, unless it is sent on a checked-out connection: for services that only read. @defaultValue false */
  readonly idempotent?: boolean | undefined;
  /**
   * Which servers get statements. `primary`: only a server whose latest answer was that it accepts writes. A server that reports to be
   * read-only is on standby until it accepts them; it is the primary then, and the sessions of a former primary that does not answer, or
   * still accepts writes, are cut. `any`: all servers, whose roles are not queried. @defaultValue 'any'
   * @see docs/guide/mysql.md#roles-one-primary-several-replicas
   */
  readonly role?: 'any' | 'primary' | undefined;
}

type OwnOptions = Pick<ServiceOptions, 'target' | 'idempotent' | 'role'>;

export const serviceTable: OptionTable<Filled<OwnOptions, 'target'>> = optionTable('options', {
  // The value is checked where servers are looked for.
  target: anyOption<string>(),
  idempotent: booleanOption(false),
  role: choiceOption('any', ['any', 'primary']),
});

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

/** The options of one service, after defaults were filled in and everything was checked. */
export interface ServiceSettings {
  /** Where the servers are. */
  readonly resolver: Resolver | string;
  /** The options that `createBalancer` takes and checks itself, without the resolver. */
  readonly balancing: BalancingOptions;
  readonly server: ServerSettings;
  readonly lag: ReplicaLagOptions;
  readonly idempotent: boolean;
  readonly role: 'any' | 'primary';
  readonly waitTimeoutMs: number;
  /** How long `end` waits for running statements and checked-out connections, in ms. */
  readonly endTimeoutMs: number;
}

/**
 * Fills in defaults and checks every option of a service; `name` is the service's. Throws EVENKEEL_OPTION; no message contains a secret.
 */
export function serviceSettings(name: string, callersOptions: ServiceOptions): ServiceSettings {
  checkNames(name === '' ? 'options' : `services.${name}`, callersOptions);
  const options = ownProperties(withOwnNames(ownProperties(callersOptions)));
  const { resolver, host } = whereabouts(options);
  const server = serverSettings(options, host);
  const { idempotent, role } = serviceTable.resolveOwn(options);
  const { resolver: _, ...others } = ownProperties(pickNames(options as BalancingOptions, balancingTable.names));
  const balancing = ownProperties(others);
  checkBalancingOptions(balancing);
  return {
    resolver,
    balancing,
    server,
    lag: options,
    idempotent,
    role,
    waitTimeoutMs: options.waitTimeoutMs ?? balancerDefaults.waitTimeoutMs,
    // The wait of `end` is limited: a caller that never gives a connection back must not keep a process from ending.
    endTimeoutMs: ownProperties(options.pool)?.drainTimeoutMs ?? poolDefaults.drainTimeoutMs,
  };
}

/** How the servers are found, and the Service's host name for TLS. */
function whereabouts({ target, resolver, port, host: givenHost }: ServiceOptions): {
  readonly resolver: Resolver | string;
  readonly host: string | undefined;
} {
  const host = givenHost === undefined ? undefined : checkString('host', givenHost);
  const source = sourceOf(target, resolver);
  if (source !== undefined) {
    if (port !== undefined) {
      throw new EvenkeelError('EVENKEEL_OPTION', 'port goes with host alone: a target and a resolver have their own');
    }
    const isNamed = target !== undefined || typeof source === 'string';
    return { resolver: source, host: isNamed ? (host ?? hostOf(source)) : host };
  }
  if (host === undefined) {
    const where = 'where are the servers? Give `target` (mysql-read.shop:3306), `resolver`, or `host` and `port`';
    throw new EvenkeelError('EVENKEEL_OPTION', where);
  }
  return { resolver: targetOf(host, checkPort('port', port ?? MYSQL_PORT)), host };
}

/** Fills in defaults and checks every option. Throws EVENKEEL_OPTION; no message contains a secret. */
export function serverSettings(
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
  return withApplicationFunctions(mysql) as MysqlPoolOptions;
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

/** The names of all options of a service. */
const knownNames: readonly string[] = [
  ...serviceTable.names,
  ...lagTable.names,
  ...balancingTable.names,
  ...passedOn,
  ...mysql2ConnectionTable.names,
  // mysql2's names for options that evenkeel has under balancing options of another name.
  'connectTimeout',
  'queueLimit',
  'waitForConnections',
];

/** Options of mysql2 that evenkeel does not take, and why. */
const refused: Readonly<Record<string, string>> = {
  stream: 'the sockets are opened to the servers that are found',
  socketPath: 'a Service has no socket file',
  uri: 'give host, port, user, password and database',
};

/** Converts the options that mysql2 calls by other names to evenkeel's. Throws EVENKEEL_OPTION if both names are given. */
function withOwnNames<T extends object>(options: T): T & BalancingOptions {
  const { connectTimeout, queueLimit, waitForConnections, ...rest } = options as T & {
    readonly connectTimeout?: unknown;
    readonly queueLimit?: unknown;
    readonly waitForConnections?: unknown;
  };
  const balancingOptions = rest as BalancingOptions;
  const bothGivenError = (theirs: string, ours: string): EvenkeelError =>
    new EvenkeelError('EVENKEEL_OPTION', `${theirs} and ${ours} are the same: give one of them`);
  const changed: { -readonly [Name in keyof BalancingOptions]: BalancingOptions[Name] } = {};
  if (connectTimeout !== undefined) {
    if (balancingOptions.pool?.connectTimeoutMs !== undefined)
      throw bothGivenError('connectTimeout', 'pool.connectTimeoutMs');
    const limit = { min: 1, max: 600_000 };
    changed.pool = {
      ...balancingOptions.pool,
      connectTimeoutMs: checkNumber('connectTimeout', connectTimeout, 0, limit),
    };
  }
  const waiting = { min: 0, max: 1_000_000, integer: true };
  if (queueLimit !== undefined || waitForConnections !== undefined) {
    if (balancingOptions.maxWaiting !== undefined)
      throw bothGivenError('queueLimit or waitForConnections', 'maxWaiting');
    // In mysql2, 0 means no limit; in evenkeel there always is a limit.
    const limit = checkNumber('queueLimit', queueLimit, 0, waiting) || balancerDefaults.maxWaiting;
    changed.maxWaiting = checkBoolean('waitForConnections', waitForConnections, true) ? limit : 0;
  }
  return { ...(rest as unknown as T), ...changed };
}

/** Throws EVENKEEL_OPTION for an option with an unknown name. No value is shown, because it may be a secret under a misspelled name. */
function checkNames(name: string, options: unknown): void {
  if (typeof options === 'object' && options !== null) {
    for (const [key, instead] of Object.entries(refused)) {
      if (key in options) {
        throw new EvenkeelError('EVENKEEL_OPTION', `${name} has no option "${key}": ${instead}`);
      }
    }
    refuseHttpRetries(name, (options as Pick<BalancingOptions, 'retry'>).retry);
  }
  checkKeys(name, options, knownNames);
}

/** Throws EVENKEEL_OPTION for options of `retry` that are only for HTTP and would have no effect. */
function refuseHttpRetries(name: string, retry: BalancingOptions['retry']): void {
  for (const key of ['statuses', 'methods'] as const) {
    if (retry?.[key] === undefined) continue;
    const instead = 'that is for HTTP. What may be done twice is said by `idempotent`';
    throw new EvenkeelError('EVENKEEL_OPTION', `${name} has no option "retry.${key}": ${instead}`);
  }
}
