import type { Pool } from 'mysql2';
import type { Clock, Endpoint, Rng, Transport } from '../../../index.js';
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
  readonly opened?: (server: ServerConnection, signal: AbortSignal) => Promise<void>;
}

/** The transport behind `mysql2Transport`. The cluster uses this class directly, because it needs more of a server than its Pool. */
export class ServerTransport implements Transport<Pool> {
  readonly #parts: ServerTransportParts;
  readonly #servers = new WeakMap<Pool, ServerConnection>();

  constructor(parts: ServerTransportParts) {
    this.#parts = parts;
  }

  async connect(endpoint: Endpoint, signal: AbortSignal): Promise<ServerConnection> {
    const { settings, clock, rng, events, opened } = this.#parts;
    const server = await openServer({ endpoint, settings, clock, rng, events }, signal).catch((error: Error) => {
      throw isRefusedLogIn(error) ? markLasting(error) : error;
    });
    this.#servers.set(server.handle, server);
    try {
      await opened?.(server, signal);
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
