import type { Pool } from 'mysql2';
import { type Clock, type Endpoint, EvenkeelError, endpointAddress, type Rng, type Transport } from '../../../index.js';
import {
  type Complete,
  checkString,
  clockOption,
  markLasting,
  optionTable,
  poolTable,
  rngOption,
} from '../../kit/index.js';
import { checkNames, type Mysql2ConnectionOptions } from '../options.js';
import { isRefusedLogIn } from '../outcome.js';
import type { Events } from '../own-functions.js';
import type { ServerParts } from './opening.js';
import { type ServerConnection, serverConnection } from './server-connection.js';
import { resolveServerSettings, type ServerSettings } from './settings.js';

/** Options of `mysql2Transport`. */
export interface Mysql2TransportOptions extends Mysql2ConnectionOptions {
  /** The Service's host name, which TLS sends and checks. Needed with `ssl`. @defaultValue none */
  readonly host?: string | undefined;
  /** The longest time to open one connection, including the handshake, in ms. @defaultValue 2000 */
  readonly connectTimeoutMs?: number | undefined;
  /** Mean age at which a connection is replaced, once it is idle, in ms, ± 50 %; Infinity = never. @defaultValue 1800000 (30 min) */
  readonly maxConnectionAgeMs?: number | undefined;
  /** The clock that is used for all times, for tests. @defaultValue the system's clock */
  readonly clock?: Clock | undefined;
  /** The source of all randomness, for tests. @defaultValue the system's randomness */
  readonly rng?: Rng | undefined;
}

const { connectTimeoutMs, maxConnectionAgeMs } = poolTable.options;
const transportTable = optionTable<
  Complete<Pick<Mysql2TransportOptions, 'connectTimeoutMs' | 'maxConnectionAgeMs' | 'clock' | 'rng'>>
>('options', { connectTimeoutMs, maxConnectionAgeMs, clock: clockOption, rng: rngOption });

/**
 * Creates a transport for `createBalancer` that opens one mysql2 Pool per server: the Pool's host is the Service, its sockets go to the
 * pod's address. The first connection is opened before the first query. `createPoolCluster` uses this transport.
 *
 * A balancer with this transport should have `pool: { maxConnectionAgeMs: Infinity }`, because the Pool replaces its connections by age one
 * by one.
 *
 * @param options Checked; throws EVENKEEL_OPTION for invalid values.
 * @example
 * const transport = mysql2Transport({ user: 'app', password, database: 'shop' });
 * const balancer = createBalancer({ resolver, transport, pool: { maxConnectionAgeMs: Infinity } });
 * const [rows] = await balancer.run((pool) => pool.promise().query('SELECT 1'));
 */
export function mysql2Transport(options: Mysql2TransportOptions): Transport<Pool> {
  checkNames('options', options, transportTable.names);
  const { host } = options;
  if (host !== undefined) checkString('host', host);
  const { clock, rng, ...pool } = transportTable.resolveOwn(options);
  const settings = resolveServerSettings({ ...options, pool }, host);
  return new ServerTransport({ settings, clock, rng });
}

/** What a `ServerTransport` needs to connect to servers. */
export interface ServerTransportParts {
  readonly settings: ServerSettings;
  readonly clock: Clock;
  readonly rng: Rng;
  /** Emits the events of the pools, and `warn` for a problem that was dealt with. */
  readonly events?: Events;
  /** Called when the first connection to a server is open, before the server counts as connected. If it rejects, the server does not. */
  readonly opened?: (endpoint: Endpoint, signal: AbortSignal) => Promise<void>;
}

/** The transport behind `mysql2Transport`. The cluster uses this class directly, because it needs more of a server than its Pool. */
export class ServerTransport implements Transport<Pool> {
  readonly protocol: Transport<unknown>['protocol'];
  readonly #parts: ServerTransportParts;
  readonly #servers = new WeakMap<Pool, ServerConnection>();
  /** The latest open server of each endpoint, by the endpoint's key. */
  readonly #byKey = new Map<string, ServerConnection>();

  constructor(parts: ServerTransportParts) {
    this.#parts = parts;
    const { host, port } = parts.settings.mysql;
    const address = {
      ...(host !== undefined && { 'server.address': host }),
      ...(port !== undefined && { 'server.port': port }),
    };
    this.protocol = Object.freeze({
      conventions: 'db',
      attributes: Object.freeze({ 'db.system.name': 'mysql', ...address }),
    });
  }

  async connect(endpoint: Endpoint, signal: AbortSignal): Promise<ServerConnection> {
    const { settings, clock, rng, events, opened } = this.#parts;
    const server = await openServer({ endpoint, settings, clock, rng, events }, signal).catch((error: Error) => {
      throw isRefusedLogIn(error) ? markLasting(error) : error;
    });
    this.#servers.set(server.handle, server);
    this.#byKey.set(endpoint.key, server);
    void server.closed.then(() => {
      if (this.#byKey.get(endpoint.key) === server) this.#byKey.delete(endpoint.key);
    });
    try {
      await opened?.(endpoint, signal);
    } catch (error) {
      void server.close(AbortSignal.abort());
      throw error;
    }
    return server;
  }

  /** Returns the server to which a pool of this transport belongs. */
  serverOf(pool: Pool): ServerConnection | undefined {
    return this.#servers.get(pool);
  }

  /** Cuts the sessions of a former primary, because another server is the primary now. */
  supersede({ key }: Endpoint, by: Endpoint): void {
    const server = this.#byKey.get(key);
    server?.supersede(`it is superseded by ${endpointAddress(by)}`);
    // From here on the server's own answers to probes keep it on standby, so its sessions need no longer be refused.
    server?.reinstate();
  }

  /** Sends calls that wait for a session of a server, which must get no more of them, to other servers. */
  handBack({ key }: Endpoint): void {
    this.#byKey.get(key)?.handBack();
  }

  /**
   * Runs a query of evenkeel's own on a server, in addition to the calls.
   * @param mayWait Whether the query opens no session beyond the limit, but waits until one is given back.
   */
  async query(
    endpoint: Endpoint,
    sql: string,
    signal: AbortSignal,
    mayWait = false,
  ): Promise<readonly Record<string, unknown>[]> {
    const server = this.#byKey.get(endpoint.key);
    if (server === undefined) throw new EvenkeelError('EVENKEEL_CONNECT', `${endpoint.key} is not connected to`);
    return (await server.runOwn(sql, signal, mayWait)) as readonly Record<string, unknown>[];
  }
}

/** Opens the first connection to a server. Rejects with the reason; after an abort no connection stays open. */
async function openServer(parts: ServerParts, signal: AbortSignal): Promise<ServerConnection> {
  signal.throwIfAborted();
  const server = serverConnection(parts);
  let aborted = (): void => {};
  try {
    await new Promise<void>((resolve, reject) => {
      aborted = () => reject(signal.reason);
      signal.addEventListener('abort', aborted, { once: true });
      server.open((error) => (error === undefined ? resolve() : reject(error)));
    });
  } catch (error) {
    void server.close(AbortSignal.abort());
    throw error;
  } finally {
    signal.removeEventListener('abort', aborted);
  }
  return server;
}
