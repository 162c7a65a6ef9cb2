import type { ConnectionOptions } from 'node:tls';
import pg from 'pg';
import { type Balancer, type BalancingOptions, EvenkeelError, type Resolver } from '../../index.js';
import {
  anyOption,
  asError,
  balancerDefaults,
  balancingTable,
  booleanOption,
  type Complete,
  checkedOption,
  checkFunction,
  checkKeys,
  checkTlsOptions,
  choiceOption,
  closestOf,
  type Filled,
  functionOption,
  markLasting,
  numberOption,
  type Option,
  type OptionTable,
  optionalString,
  optionError,
  optionTable,
  ownProperties,
  poolDefaults,
  type ServerRole,
  serviceName,
  unknownOption,
} from '../kit/index.js';
import type { PoolLimits } from '../sql/session-pool.js';
import { hostOf, sourceOf, targetOf } from '../sql/where.js';

/** Which PostgreSQL servers get statements: those that take writes, those that replicate, or both. */
export type Role = ServerRole;

/** Options of `pg.Pool` whose meaning changes where a pool has several servers. */
export interface ServerPoolOptions {
  /** Connections per server. @defaultValue 10 */
  readonly max?: number | undefined;
  /** Connections kept per server, at least one. @defaultValue 1 */
  readonly min?: number | undefined;
  /**
   * pg's name for `waitTimeoutMs`, how long a call may wait for a connection; 0 means the default, 5 s. A handshake may take
   * `pool.connectTimeoutMs`, 2 s. @defaultValue 0
   */
  readonly connectionTimeoutMillis?: number | undefined;
  /** Idle connections beyond `min` are closed after this time, in ms; 0 = never. @defaultValue 10000 */
  readonly idleTimeoutMillis?: number | null | undefined;
  /** Mean age of a connection, in seconds, ± 50 %; 0 means `pool.maxConnectionAgeMs`. @defaultValue 0 */
  readonly maxLifetimeSeconds?: number | undefined;
  /** Always on: an idle pool does not keep the process alive. @defaultValue true */
  readonly allowExitOnIdle?: boolean | undefined;
  /** pg's log function; accepted, but never called. @defaultValue none */
  readonly log?: pg.PoolConfig['log'];
}

/** Options of `createPool`: the options of `pg.Pool`, those of every balancer, and its own. */
export interface PgPoolOptions
  extends Omit<pg.PoolConfig, 'stream' | keyof ServerPoolOptions>,
    ServerPoolOptions,
    BalancingOptions {
  /**
   * Where the servers are: a target string such as `postgres.shop:5432`. @defaultValue `host` and `port`, as pg finds them
   * @see docs/reference/targets.md
   */
  readonly target?: string | undefined;
  /**
   * Which servers get statements. `primary`: the server that takes writes. `replica`: standbys only. `prefer-replica`: standbys, or the
   * primary while no standby is usable. `any`: all servers, whose roles are not queried. @defaultValue 'any'
   */
  readonly role?: Role | undefined;
  /** A server further behind than this gets no statement while another is usable, in ms. @defaultValue Infinity: not checked */
  readonly maxLagMs?: number | undefined;
  /**
   * How often each server's role and log position are queried, in ms, ± 20 %; with `role: 'any'` only if `maxLagMs` is set. @defaultValue
   * 1000
   */
  readonly probeIntervalMs?: number | undefined;
  /** Whether a statement may run twice, unless it is sent on a checked-out client: for pools that only read. @defaultValue false */
  readonly idempotent?: boolean | undefined;
}

/** Options of a statement in addition to pg's `QueryConfig`. */
export interface StatementOptions {
  /**
   * Whether the statement may run twice without harm: if its connection dies before the answer, it is sent to another server. @defaultValue
   * the pool's `idempotent`
   */
  readonly idempotent?: boolean | undefined;
  /** The key for hash pickers: statements with one key go to one server. @defaultValue none */
  readonly key?: string | undefined;
}

/** A pool with the interface of `pg.Pool` that spreads statements over the servers of a Service. */
export interface PgPool extends pg.Pool, AsyncDisposable {
  /** The balancer behind the pool: `ready()` waits for a server, `snapshot()` returns the current state. */
  readonly balancer: Balancer<unknown>;
  /** Runs a statement, as `query` of pg's Pool does. A config object may also carry `StatementOptions`. */
  readonly query: pg.Pool['query'] & Query;
}

/** The signature of the pool's `query`: the forms of pg, except that a config object may carry `StatementOptions`. */
// biome-ignore lint/suspicious/noExplicitAny: as pg types rows and values.
type Query = <Row extends pg.QueryResultRow = any, Values = any[]>(
  config: pg.QueryConfig<Values> & StatementOptions,
  values?: pg.QueryConfigValues<Values>,
) => Promise<pg.QueryResult<Row>>;

type OwnSettings = Filled<
  Pick<PgPoolOptions, 'target' | 'role' | 'maxLagMs' | 'probeIntervalMs' | 'idempotent'>,
  'target'
>;

const ms = { min: 0, max: 86_400_000, infinite: true };
const count = { min: 1, max: 100_000, integer: true };

export const pgTable: OptionTable<OwnSettings> = optionTable('options', {
  target: optionalString,
  role: choiceOption('any', ['any', 'primary', 'replica', 'prefer-replica']),
  maxLagMs: numberOption(Number.POSITIVE_INFINITY, ms),
  probeIntervalMs: numberOption(1_000, { min: 10, max: 3_600_000 }),
  idempotent: booleanOption(false),
});

/** The options of pg that each client gets, rather than the pool. */
const clientNames: readonly string[] = [
  'user',
  'database',
  'password',
  'host',
  'port',
  'connectionString',
  'ssl',
  'sslnegotiation',
  'enableChannelBinding',
  'scramMaxIterations',
  'application_name',
  'fallback_application_name',
  'client_encoding',
  'encoding',
  'options',
  'replication',
  'statement_timeout',
  'lock_timeout',
  'query_timeout',
  'idle_in_transaction_session_timeout',
  'keepAlive',
  'keepAliveInitialDelayMillis',
  'types',
  'binary',
  'parseInputDatesAsUTC',
  'pipeline',
  'Promise',
];

type ClientClass = new (config: object) => pg.PoolClient;

/** Makes an option accept the values that pg takes for "use the default" (0 or null, say), which would otherwise be invalid. */
const orDefault = (option: Option<number>, isDefault: (value: unknown) => boolean): Option<number> => ({
  ...option,
  check: (name, value) => (isDefault(value) ? option.default : option.check(name, value)),
});

type PoolOptionSettings = Complete<Omit<ServerPoolOptions, 'allowExitOnIdle' | 'log' | 'idleTimeoutMillis'>> & {
  readonly idleTimeoutMillis: number;
  readonly allowExitOnIdle: unknown;
  readonly log: unknown;
  readonly poolSize: number | undefined;
  readonly maxUses: number;
  readonly Client: ClientClass;
  readonly verify: pg.PoolConfig['verify'];
  readonly onConnect: ((client: pg.PoolClient) => unknown) | undefined;
};

/** The options that pg has for a pool, with defaults and bounds. */
export const serverPoolTable: OptionTable<PoolOptionSettings> = optionTable('options', {
  max: orDefault(numberOption(10, count), (value) => !value),
  poolSize: anyOption<number>(),
  min: numberOption(1, { ...count, min: 0 }),
  idleTimeoutMillis: orDefault(numberOption(10_000, ms), (value) => value === null),
  connectionTimeoutMillis: numberOption(0, ms),
  maxUses: orDefault(numberOption(Number.POSITIVE_INFINITY, { min: 1, infinite: true }), (value) => !value),
  maxLifetimeSeconds: numberOption(0, ms),
  allowExitOnIdle: anyOption<unknown>(),
  log: anyOption<unknown>(),
  Client: checkedOption(pg.Client as unknown as ClientClass, (name, value) => {
    checkFunction(name, value);
    return value as ClientClass;
  }),
  verify: functionOption<NonNullable<pg.PoolConfig['verify']>>(),
  onConnect: functionOption<(client: pg.PoolClient) => unknown>(),
});

/** The names of the options of `PgPoolOptions` that only PostgreSQL pools have. */
export const pgOptionNames: readonly string[] = Object.freeze([
  ...pgTable.names,
  ...clientNames,
  ...serverPoolTable.names,
]);

/** The options of the connections to one PostgreSQL server, complete and checked. */
export interface ServerSettings extends PoolLimits {
  /** The configuration of each pg client, without the address of the server. */
  readonly config: object;
  readonly Client: ClientClass;
  /** The Service's host name, for TLS and for functions that provide the password. */
  readonly host: string;
  readonly port: number;
  readonly onConnect: ((client: pg.PoolClient) => unknown) | undefined;
  readonly verify: pg.PoolConfig['verify'];
}

/** The options of a PostgreSQL pool, after defaults were filled in and everything was checked. */
export interface PoolSettings extends ServerSettings, Omit<OwnSettings, 'target'> {
  readonly resolver: Resolver | string;
  readonly waitTimeoutMs: number;
  /** How long `end` waits for running statements and checked-out clients, in ms. */
  readonly endTimeoutMs: number;
}

const ourNames: readonly string[] = [...balancingTable.names, ...pgTable.names];
const knownNames: readonly string[] = [...balancingTable.names, ...pgOptionNames];

/** Throws EVENKEEL_OPTION if an option has a name that neither pg nor evenkeel knows. */
export function checkOptionNames(options: PgPoolOptions): void {
  checkKeys('options', options, knownNames);
}

/**
 * Throws EVENKEEL_OPTION for an option name that resembles one of evenkeel's: it is misspelled. Other unknown names are accepted, because
 * some libraries pass all of their own options to their pool.
 */
function checkMisspelled(options: object): void {
  for (const name of Object.keys(options)) {
    if (knownNames.includes(name)) continue;
    if (name === 'stream' || closestOf(name, ourNames) !== undefined) throw unknownOption('options', name, knownNames);
  }
}

/**
 * Fills in defaults and checks every option; options with unknown names are passed on to the clients. Throws EVENKEEL_OPTION, with a
 * message that names the option and contains no secret.
 */
export function poolSettings(callersOptions: PgPoolOptions): PoolSettings {
  if (typeof callersOptions !== 'object' || callersOptions === null) {
    throw optionError('options', 'an object', callersOptions);
  }
  const options = ownProperties(callersOptions);
  checkMisspelled(options);
  if (options.limit !== undefined)
    throw optionError('limit', 'left out: max bounds what runs at a server', options.limit);
  const pool = ownProperties(options.pool);
  const { target, ...own } = pgTable.resolveOwn(options);
  const { Client, onConnect, verify, ...theirs } = serverPoolTable.resolveOwn({
    ...options,
    max: options.max || (options as { readonly poolSize?: number }).poolSize,
  });
  const { max, maxUses, idleTimeoutMillis, connectionTimeoutMillis, maxLifetimeSeconds } = theirs;
  const config: Record<string, unknown> = ownProperties({ keepAlive: true, keepAliveInitialDelayMillis: 10_000 });
  for (const [name, value] of Object.entries(options)) {
    const isOurs = ourNames.includes(name) || (serverPoolTable.names as readonly string[]).includes(name);
    if (value !== undefined && !isOurs) config[name] = value;
  }
  if (typeof config.ssl === 'object' && config.ssl !== null) checkTlsOptions('ssl', config.ssl);
  if (typeof config.password === 'function') config.password = lastingly(config.password as PasswordFunction);
  // evenkeel has a connect timeout of its own, which also ends a connection attempt that no caller waits for.
  config.connectionTimeoutMillis = 0;
  const settings: PoolSettings = {
    ...own,
    config,
    Client,
    ...whereabouts(options, target, Client, config),
    max,
    min: Math.min(max, Math.max(1, theirs.min)),
    maxIdle: max,
    // An `idleTimeoutMillis` of 0 means that idle connections are never closed, as in pg.
    idleTimeoutMs: idleTimeoutMillis || Number.POSITIVE_INFINITY,
    maxUses,
    maxAgeMs: maxLifetimeSeconds * 1_000 || (pool?.maxConnectionAgeMs ?? poolDefaults.maxConnectionAgeMs),
    // Idle connections need no check before use: TCP's keep-alive probes them.
    validateAfterMs: Number.POSITIVE_INFINITY,
    validateTimeoutMs: Number.POSITIVE_INFINITY,
    connectTimeoutMs: pool?.connectTimeoutMs ?? poolDefaults.connectTimeoutMs,
    onConnect,
    verify,
    waitTimeoutMs: options.waitTimeoutMs ?? (connectionTimeoutMillis || balancerDefaults.waitTimeoutMs),
    // A caller that never releases its client must not keep a process from ending.
    endTimeoutMs: pool?.drainTimeoutMs ?? poolDefaults.drainTimeoutMs,
  };
  // The configuration has the password, and applications print pools.
  return Object.defineProperty(settings, 'config', { enumerable: false });
}

type PasswordFunction = (...args: unknown[]) => unknown;

/**
 * Wraps a password function so that its failure counts as lasting: callers do not wait for a password that cannot be had, as they do not
 * wait for a server that refuses the password.
 */
function lastingly(password: PasswordFunction): PasswordFunction {
  return async (...args) => {
    try {
      return await password(...args);
    } catch (error) {
      throw markLasting(asError(error));
    }
  };
}

/** Returns how to find the servers, and the host name and port of the Service. */
function whereabouts(
  options: PgPoolOptions,
  target: string | undefined,
  Client: ClientClass,
  config: object,
): Pick<PoolSettings, 'resolver' | 'host' | 'port'> {
  const { resolver } = options;
  // pg would throw an unclear error of its own for such a host or port.
  if (options.host !== undefined && typeof options.host !== 'string')
    throw optionError('host', 'a string', options.host);
  if (options.port !== undefined && !['number', 'string'].includes(typeof options.port)) {
    throw optionError('port', 'a port', options.port);
  }
  const isElsewhere = sourceOf(target, resolver) !== undefined;
  if (!isElsewhere) checkConnectionString((config as pg.PoolConfig).connectionString);
  // pg reads the connection string and the environment (PGHOST, PGPORT …).
  const configured = new Client({ ...config });
  if ((configured as { readonly connection?: unknown }).connection === undefined) {
    throw new EvenkeelError('EVENKEEL_OPTION', 'the native bindings of pg cannot be balanced: use its own client');
  }
  checkSsl(configured);
  const { host, port } = configured;
  if (!isElsewhere && String(host).includes(',')) throw new EvenkeelError('EVENKEEL_OPTION', `host: ${SEVERAL_HOSTS}`);
  if (target !== undefined) {
    const service = serviceName(target);
    // A list of addresses has no host name of its own, so TLS uses the option `host`.
    return { resolver: target, host: hostOf(target) ?? options.host ?? service.host, port: service.port ?? port };
  }
  if (resolver !== undefined) {
    checkTlsName(options, configured);
    return { resolver, host, port };
  }
  if (host.startsWith('/')) throw optionError('host', 'a host: there is nothing to balance behind a Unix socket', host);
  return { resolver: targetOf(host, port), host, port };
}

/**
 * Throws EVENKEEL_OPTION for an `ssl` that is neither true, false nor settings after pg has read it, such as 'require', which only a connection
 * string has: pg would throw in the middle of a handshake, which ends the process.
 */
function checkSsl(configured: pg.PoolClient): void {
  const { ssl } = configured as { readonly ssl?: unknown };
  if (!ssl || ssl === true || typeof ssl === 'object') return;
  throw optionError('ssl', 'true, false, or an object as for tls.connect', ssl);
}

const SEVERAL_HOSTS =
  'pg connects to one host, not to a list: name the Service that has the servers (target: "postgres.shop:5432"), and choose among them with role';

/** Throws EVENKEEL_OPTION for what only libpq understands of a connection string. The message has no part of it: it may have a password. */
function checkConnectionString(text: unknown): void {
  if (typeof text !== 'string') return;
  const [, authority = '', query = ''] = /^[a-z]+:\/\/([^/?#]*)[^?#]*\??([^#]*)/i.exec(text) ?? [];
  const parameters = new URLSearchParams(query);
  // A password may have a comma, or even an @.
  const hosts = authority.slice(authority.lastIndexOf('@') + 1);
  if (hosts.includes(',') || /@[^@,]*:\d+,[^@]*@/.test(authority) || parameters.get('host')?.includes(',')) {
    throw new EvenkeelError('EVENKEEL_OPTION', `connectionString: ${SEVERAL_HOSTS}`);
  }
  const attribute = parameters.get('target_session_attrs');
  if (attribute !== null) throw new EvenkeelError('EVENKEEL_OPTION', attributeHint(attribute));
}

/** The roles of evenkeel that mean what libpq calls `target_session_attrs`. */
const roleOfAttribute: Readonly<Record<string, Role>> = {
  any: 'any',
  'read-write': 'primary',
  primary: 'primary',
  'read-only': 'replica',
  standby: 'replica',
  'prefer-standby': 'prefer-replica',
};

function attributeHint(attribute: string): string {
  const role = Object.hasOwn(roleOfAttribute, attribute) ? `role: '${roleOfAttribute[attribute]}'` : 'role';
  return `pg ignores target_session_attrs in connectionString: leave it out, or give target, and say ${role}`;
}

/**
 * Throws EVENKEEL_OPTION if TLS would check the certificates of servers that a resolver finds against "localhost", pg's host where none is
 * given: any certificate for that name would do.
 */
function checkTlsName({ host, connectionString }: PgPoolOptions, configured: pg.PoolClient): void {
  const { ssl } = configured as { readonly ssl?: unknown };
  const { rejectUnauthorized, checkServerIdentity } = (ssl ?? {}) as ConnectionOptions;
  if (!ssl || rejectUnauthorized === false || checkServerIdentity !== undefined) return;
  const isGiven = [host, connectionString, process.env.PGHOST].some((text) => text?.includes('localhost'));
  if (configured.host === 'localhost' && !isGiven) {
    // In pg a connection string hides the option.
    const needed = connectionString === undefined ? '`host`' : 'a host in connectionString';
    throw new EvenkeelError('EVENKEEL_OPTION', `ssl needs ${needed}, the name in the certificates of the servers`);
  }
}
