import { isIP } from 'node:net';
import type { PoolOptions as MysqlPoolOptions } from 'mysql2';
import { type BalancingOptions, EvenkeelError } from '../../index.js';
import {
  anyOption,
  balancerDefaults,
  booleanOption,
  checkBoolean,
  checkedOption,
  checkKeys,
  checkNumber,
  type Filled,
  numberOption,
  type OptionTable,
  optionalNumber,
  optionError,
  optionTable,
  type PerEndpoint,
} from '../kit/index.js';

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
export const passedOn = [
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

/** The names of the options in `Mysql2ConnectionOptions`. */
const mysql2ConnectionOptionNames: readonly string[] = Object.freeze([...passedOn, ...mysql2ConnectionTable.names]);

/** mysql2's names for options that evenkeel has under balancing options of another name. */
export const renamedOptionNames: readonly string[] = ['connectTimeout', 'queueLimit', 'waitForConnections'];

/** Options of mysql2 that evenkeel does not take, and why. */
const refused: Readonly<Record<string, string>> = {
  stream: 'the sockets are opened to the servers that are found',
  socketPath: 'a Service has no socket file',
  uri: 'give host, port, user, password and database',
};

/** Converts the options in `renamedOptionNames` to evenkeel's names. Throws EVENKEEL_OPTION if both names are given. */
export function withOwnNames<T extends object>(options: T): T & BalancingOptions {
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

/** Throws EVENKEEL_OPTION for options of `retry` that are only for HTTP and would have no effect. */
function refuseHttpRetries(name: string, retry: BalancingOptions['retry']): void {
  for (const key of ['statuses', 'methods'] as const) {
    if (retry?.[key] === undefined) continue;
    const instead = 'that is for HTTP. What may be done twice is said by `idempotent`';
    throw new EvenkeelError('EVENKEEL_OPTION', `${name} has no option "retry.${key}": ${instead}`);
  }
}
