import { isIP } from 'node:net';
import pg from 'pg';
import { type Balancer, type BalancingOptions, EvenkeelError, type Resolver, staticEndpoints } from '../../index.js';
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
  poolDefaults,
  type ServerRole,
  serviceName,
  unknownOption,
} from '../kit/index.js';
import type { PoolLimits } from '../sql/session-pool.js';

/** Which servers get statements: those that take writes, those that replicate, or both. */
export type Role = ServerRole;

/** Options of `pg.Pool` that mean something else where there are several servers. */
export interface ServerPoolOptions {
  /** Connections per server. @defaultValue 10 */
  readonly max?: number | undefined;
  /** Connections kept per server, at least one. @defaultValue 1 */
  readonly min?: number | undefined;
  /**
   * Another name for `waitTimeoutMs`; 0 means its default, 5 s. A handshake may take `pool.connectTimeoutMs`, 2 s. @defaultValue 0
   */
  readonly connectionTimeoutMillis?: number | undefined;
  /** Idle connections beyond `min` are closed after this time, in ms; 0 = never. @defaultValue 10000 */
  readonly idleTimeoutMillis?: number | null | undefined;
  /** Mean age of a connection, in seconds, ± 50 %; 0 means `pool.maxConnectionAgeMs`. @defaultValue 0 */
  readonly maxLifetimeSeconds?: number | undefined;
  /** Always on: an idle pool does not keep the process alive. @defaultValue true */
  readonly allowExitOnIdle?: boolean | undefined;
  /** Never called. @defaultValue none */
  readonly log?: pg.PoolConfig['log'];
}

/** Options of `createPool`: those of `pg.Pool`, of balancing, and its own. */
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
   * Which servers get statements. `primary`: one that takes writes. `replica`: standbys alone. `prefer-replica`: standbys, or the
   * primary while no standby is usable. `any`: all, and nobody asks what they are. @defaultValue 'any'
   */
  readonly role?: Role | undefined;
  /** A server further behind than this gets no statement while another is usable, in ms. @defaultValue Infinity: not checked */
  readonly maxLagMs?: number | undefined;
  /**
   * How often servers are asked for their role and position, in ms, ± 20 %; with `role: 'any'` only if `maxLagMs` is set.
   * @defaultValue 1000
   */
  readonly probeIntervalMs?: number | undefined;
  /**
   * Whether every statement that is not sent on a checked-out client may run twice: for read-only pools. @defaultValue false
   */
  readonly idempotent?: boolean | undefined;
}

/** Options of a statement in addition to pg's `QueryConfig`. */
export interface StatementOptions {
  /**
   * Whether it may run twice without harm: if its connection dies before the answer, it is sent to another server.
   * @defaultValue the pool's `idempotent`
   */
  readonly idempotent?: boolean | undefined;
  /** For hash pickers: statements with one key go to one server. @defaultValue none */
  readonly key?: string | undefined;
}

/** A `pg.Pool` over the servers of a Service. */
export interface PgPool extends pg.Pool, AsyncDisposable {
  /** State and control: `ready()`, `snapshot()`. */
  readonly balancer: Balancer<unknown>;
  /** Runs a statement, as `query` of pg's Pool does. A config object may also carry `StatementOptions`. */
  readonly query: pg.Pool['query'] & Query;
}

/** In addition to the forms of pg: a config object may carry `StatementOptions`. */
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

/** pg's options for each client. */
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

/** pg takes values for its default that are no value otherwise. */
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

/** pg's options for its pool. */
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

/** Names of `PgPoolOptions` that are not options of every balancer. */
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
  /** The Service's host name, as clients know it: for TLS, and for functions that provide the password. */
  readonly host: string;
  readonly port: number;
  readonly onConnect: ((client: pg.PoolClient) => unknown) | undefined;
  readonly verify: pg.PoolConfig['verify'];
}

/** `PgPoolOptions`, complete and checked. */
export interface PoolSettings extends ServerSettings, Omit<OwnSettings, 'target'> {
  readonly resolver: Resolver | string;
  readonly waitTimeoutMs: number;
  /** How long `end` waits for what runs, in ms. */
  readonly endTimeoutMs: number;
}

const ours: readonly string[] = [...balancingTable.names, ...pgTable.names];
const known: readonly string[] = [...balancingTable.names, ...pgOptionNames];

/** Throws EVENKEEL_OPTION if there is one that neither pg nor evenkeel knows. */
export function checkOptionNames(options: PgPoolOptions): void {
  checkKeys('options', options, known);
}

/**
 * The same for libraries that give their pool all of their own options: pg ignores those that it does not know. A name that resembles
 * one of ours is a mistake.
 */
function checkMisspelled(options: object): void {
  for (const name of Object.keys(options)) {
    if (known.includes(name)) continue;
    if (name === 'stream' || closestOf(name, ours) !== undefined) throw unknownOption('options', name, known);
  }
}

/**
 * Fills in defaults and checks everything; options with unknown names are for the clients. Throws EVENKEEL_OPTION that names the field;
 * no message contains a secret.
 */
export function poolSettings(options: PgPoolOptions): PoolSettings {
  if (typeof options !== 'object' || options === null) throw optionError('options', 'an object', options);
  checkMisspelled(options);
  if (options.limit !== undefined)
    throw optionError('limit', 'left out: max bounds what runs at a server', options.limit);
  const { pool } = options;
  const { target, ...own } = pgTable.resolveOwn(options);
  const { Client, onConnect, verify, ...theirs } = serverPoolTable.resolveOwn({
    ...options,
    max: options.max || (options as { readonly poolSize?: number }).poolSize,
  });
  const { max, maxUses, idleTimeoutMillis, connectionTimeoutMillis, maxLifetimeSeconds } = theirs;
  const config: Record<string, unknown> = { keepAlive: true, keepAliveInitialDelayMillis: 10_000 };
  for (const [name, value] of Object.entries(options)) {
    const isOurs = ours.includes(name) || (serverPoolTable.names as readonly string[]).includes(name);
    if (value !== undefined && !isOurs) config[name] = value;
  }
  if (typeof config.password === 'function') config.password = lastingly(config.password as PasswordFunction);
  // The connect timeout is evenkeel's own, because it also ends a dial nobody waits for.
  config.connectionTimeoutMillis = 0;
  const settings: PoolSettings = {
    ...own,
    config,
    Client,
    ...whereabouts(options, target, Client, config),
    max,
    min: Math.min(max, Math.max(1, theirs.min)),
    maxIdle: max,
    // 0 means never, as in pg.
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
 * A password function whose failure counts as lasting: callers do not wait for a password that cannot be had, as they do not if the server
 * refuses it.
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

/** Where the servers are, and what the Service is called. */
function whereabouts(
  options: PgPoolOptions,
  target: string | undefined,
  Client: ClientClass,
  config: object,
): Pick<PoolSettings, 'resolver' | 'host' | 'port'> {
  const { resolver } = options;
  if (target !== undefined && resolver !== undefined) {
    throw new EvenkeelError('EVENKEEL_OPTION', 'target and resolver say the same: give one of them');
  }
  // pg fails on these with an error of its own.
  if (options.host !== undefined && typeof options.host !== 'string')
    throw optionError('host', 'a string', options.host);
  if (options.port !== undefined && !['number', 'string'].includes(typeof options.port)) {
    throw optionError('port', 'a port', options.port);
  }
  // pg reads the connection string and the environment (PGHOST, PGPORT …).
  const known = new Client({ ...config });
  if ((known as { readonly connection?: unknown }).connection === undefined) {
    throw new EvenkeelError('EVENKEEL_OPTION', 'the native bindings of pg cannot be balanced: use its own client');
  }
  const { host, port } = known;
  if (target !== undefined) {
    const service = serviceName(target);
    const isList = target.trim().startsWith('static:');
    // A list of addresses has no name of its own.
    const name = isList && options.host !== undefined ? options.host : service.host;
    return { resolver: target, host: name, port: service.port ?? port };
  }
  if (resolver !== undefined) return { resolver, host, port };
  if (host.startsWith('/')) throw optionError('host', 'a host: there is nothing to balance behind a Unix socket', host);
  const isServer = isIP(host) !== 0 || /(^|\.)localhost$/.test(host);
  return { resolver: isServer ? staticEndpoints([{ address: host, port }]) : `${host}:${port}`, host, port };
}
