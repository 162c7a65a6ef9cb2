import { isIP } from 'node:net';
import pg from 'pg';
import { type Balancer, type BalancingOptions, EvenkeelError, type Resolver, staticEndpoints } from '../../index.js';
import {
  asError,
  balancerDefaults,
  balancingOptionNames,
  checkBoolean,
  checkFunction,
  checkKeys,
  checkNumber,
  checkString,
  closestOf,
  markLasting,
  optionError,
  poolDefaults,
  type ServerRole,
  serviceName,
  unknownOption,
} from '../kit/index.js';
import type { PoolLimits } from '../sql/session-pool.js';

/** Which servers get statements: those that take writes, those that replicate, or both. */
export type Role = ServerRole;

/** Options of `createPool`: those of `pg.Pool`, of balancing, and its own. */
export interface PgPoolOptions extends Omit<pg.PoolConfig, 'stream'>, BalancingOptions {
  /** Where the servers are, such as `postgres.shop:5432`. @defaultValue `host` and `port`, as pg finds them */
  readonly target?: string | undefined;
  /**
   * Which servers get statements. `primary`: one that takes writes. `replica`: standbys alone. `prefer-replica`: standbys, or the
   * primary while no standby is usable. `any`: all, and nobody asks what they are. @defaultValue 'any'
   */
  readonly role?: Role | undefined;
  /** A server further behind than this gets no statement while another is usable, in ms. @defaultValue not checked */
  readonly maxLagMs?: number | undefined;
  /** How often servers are asked for their role and position, in ms, ± 20 %. @defaultValue 1000 */
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
  /** As that of pg's Pool. A config object may also carry `StatementOptions`. */
  readonly query: pg.Pool['query'] & Query;
}

/** In addition to the forms of pg: a config object may carry `StatementOptions`. */
// biome-ignore lint/suspicious/noExplicitAny: as pg types rows and values.
type Query = <Row extends pg.QueryResultRow = any, Values = any[]>(
  config: pg.QueryConfig<Values> & StatementOptions,
  values?: pg.QueryConfigValues<Values>,
) => Promise<pg.QueryResult<Row>>;

/** Defaults of the options that pg has with another meaning, or not at all. */
export const pgDefaults: {
  readonly max: number;
  readonly min: number;
  readonly idleTimeoutMillis: number;
  readonly probeIntervalMs: number;
} = Object.freeze({ max: 10, min: 1, idleTimeoutMillis: 10_000, probeIntervalMs: 1_000 });

const ownNames = ['target', 'role', 'maxLagMs', 'probeIntervalMs', 'idempotent'] as const;

const roles: readonly unknown[] = ['any', 'primary', 'replica', 'prefer-replica'] satisfies Role[];

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

/** pg's options for its pool. */
const poolNames: readonly string[] = [
  'max',
  'poolSize',
  'min',
  'idleTimeoutMillis',
  'connectionTimeoutMillis',
  'maxUses',
  'maxLifetimeSeconds',
  'allowExitOnIdle',
  'log',
  'Client',
  'verify',
  'onConnect',
];

/** Names of `PgPoolOptions` that are not options of every balancer. */
export const pgOptionNames: readonly string[] = Object.freeze([...ownNames, ...clientNames, ...poolNames]);

type ClientClass = new (config: object) => pg.PoolClient;

/** The options of the connections to one server, complete and checked. */
export interface ServerSettings extends PoolLimits {
  /** For each client, without where the server is. */
  readonly config: object;
  readonly Client: ClientClass;
  /** The Service, as clients know it: for TLS, and for functions that provide the password. */
  readonly host: string;
  readonly port: number;
  readonly onConnect: ((client: pg.PoolClient) => unknown) | undefined;
  readonly verify: pg.PoolConfig['verify'];
}

/** `PgPoolOptions`, complete and checked. */
export interface PoolSettings extends ServerSettings {
  readonly resolver: Resolver | string;
  readonly role: Role;
  readonly maxLagMs: number;
  readonly probeIntervalMs: number;
  readonly idempotent: boolean;
  readonly waitTimeoutMs: number;
  /** How long `end` waits for what runs, in ms. */
  readonly endTimeoutMs: number;
}

const ours: readonly string[] = [...balancingOptionNames, ...ownNames];
const known: readonly string[] = [...ours, ...clientNames, ...poolNames];

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
  const values = options as Readonly<Record<string, unknown>>;
  const { role = 'any', pool } = options;
  if (!roles.includes(role)) throw optionError('role', "'any', 'primary', 'replica' or 'prefer-replica'", role);
  const { Client = pg.Client, onConnect, verify } = options;
  checkFunction('Client', Client);
  if (onConnect !== undefined) checkFunction('onConnect', onConnect);
  if (verify !== undefined) checkFunction('verify', verify);
  const ms = { min: 0, max: 86_400_000, infinite: true };
  const count = { min: 1, max: 100_000, integer: true };
  const max = checkNumber('max', values.max || values.poolSize || undefined, pgDefaults.max, count);
  const config: Record<string, unknown> = { keepAlive: true, keepAliveInitialDelayMillis: 10_000 };
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && !ours.includes(name) && !poolNames.includes(name)) config[name] = value;
  }
  if (typeof config.password === 'function') config.password = lastingly(config.password as PasswordFunction);
  // Ours, because it also ends a dial nobody waits for.
  config.connectionTimeoutMillis = 0;
  const connectionTimeout = checkNumber('connectionTimeoutMillis', values.connectionTimeoutMillis, 0, ms);
  const lifetime = checkNumber('maxLifetimeSeconds', values.maxLifetimeSeconds, 0, ms) * 1_000;
  const idleTimeout = checkNumber(
    'idleTimeoutMillis',
    values.idleTimeoutMillis ?? undefined,
    pgDefaults.idleTimeoutMillis,
    ms,
  );
  const settings: PoolSettings = {
    config,
    Client: Client as unknown as ClientClass,
    ...whereabouts(options, Client as unknown as ClientClass, config),
    max,
    min: Math.min(max, Math.max(1, checkNumber('min', values.min, pgDefaults.min, { ...count, min: 0 }))),
    maxIdle: max,
    // 0 means never, as in pg.
    idleTimeoutMs: idleTimeout || Number.POSITIVE_INFINITY,
    maxUses: checkNumber('maxUses', values.maxUses || undefined, Number.POSITIVE_INFINITY, { min: 1, infinite: true }),
    maxAgeMs: lifetime || (pool?.maxConnectionAgeMs ?? poolDefaults.maxConnectionAgeMs),
    // TCP's keep-alive probes them.
    validateAfterMs: Number.POSITIVE_INFINITY,
    validateTimeoutMs: Number.POSITIVE_INFINITY,
    connectTimeoutMs: pool?.connectTimeoutMs ?? poolDefaults.connectTimeoutMs,
    onConnect: onConnect as ServerSettings['onConnect'],
    verify,
    role,
    maxLagMs: checkNumber('maxLagMs', options.maxLagMs, Number.POSITIVE_INFINITY, ms),
    probeIntervalMs: checkNumber('probeIntervalMs', options.probeIntervalMs, pgDefaults.probeIntervalMs, {
      min: 10,
      max: 3_600_000,
    }),
    idempotent: checkBoolean('idempotent', options.idempotent, false),
    waitTimeoutMs: options.waitTimeoutMs ?? (connectionTimeout || balancerDefaults.waitTimeoutMs),
    // A caller that never releases its client must not keep a process from ending.
    endTimeoutMs: pool?.drainTimeoutMs ?? poolDefaults.drainTimeoutMs,
  };
  // It has the password, and applications print pools.
  return Object.defineProperty(settings, 'config', { enumerable: false });
}

type PasswordFunction = (...args: unknown[]) => unknown;

/** Callers do not wait for a password that cannot be had, as they do not if the server refuses it. */
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
  Client: ClientClass,
  config: object,
): Pick<PoolSettings, 'resolver' | 'host' | 'port'> {
  const { target, resolver } = options;
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
    checkString('target', target);
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
