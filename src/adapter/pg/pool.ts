import pg from 'pg';
import {
  type Balancer,
  type BalancingOptions,
  type Clock,
  createBalancer,
  type Observer,
  systemClock,
  systemRng,
} from '../../index.js';
import {
  balancingTable,
  checkBalancingOptions,
  checkBoolean,
  checkString,
  ownProperties,
  pickNames,
  Warnings,
} from '../kit/index.js';
import { type CallOwner, PgCall } from './call.js';
import type { PgServer } from './connection.js';
import {
  checkOptionNames,
  type PgPool,
  type PgPoolOptions,
  type PoolSettings,
  pgOptionNames,
  poolSettings,
} from './options.js';
import { ServerRoles } from './roles.js';
import type { PgCallback } from './session.js';
import { PgTransport } from './transport.js';

type Callback = (error?: Error | null, ...more: unknown[]) => void;

/** The part of `pg.Pool` that the pool of a Service inherits: events and options. The lists of clients in the base class stay empty. */
type Base = new (options: object) => InstanceType<typeof pg.Pool>;

class BalancedPgPool extends (pg.Pool as unknown as Base) implements CallOwner {
  readonly balancer: Balancer<PgServer>;
  readonly settings: PoolSettings;
  readonly clock: Clock;
  readonly roles: ServerRoles | undefined;
  waiting = 0;
  declare readonly ending: boolean;
  declare readonly ended: boolean;
  readonly #transport: PgTransport;
  /** Resolves the wait of `end` once no call waits for a server. */
  #noneWaits: () => void = () => {};

  constructor(callersOptions: PgPoolOptions = {}) {
    const settings = poolSettings(callersOptions);
    const options = withoutForeignClock(ownProperties(callersOptions));
    super(pickNames(options as Record<string, unknown>, pgOptionNames));
    const { clock = systemClock, rng = systemRng, observer = {} } = options;
    this.settings = settings;
    this.clock = clock;
    const warnings = new Warnings(observer as Observer, clock);
    const warned = (message: string, error: Error): void => warnings.warn(message, error);
    const probes = settings.role !== 'any' || Number.isFinite(settings.maxLagMs);
    this.roles = probes ? new ServerRoles({ settings, clock, warned }) : undefined;
    this.#transport = new PgTransport({
      settings,
      clock,
      rng,
      roles: this.roles,
      events: {
        connected: (client) => this.#tell('connect', client),
        removed: (client) => this.#tell('remove', client),
        failed: (error, client) => {
          Object.assign(error, { client });
          this.#tell('error', error, client);
        },
        warned,
        leftOpen: (byClient) => {
          const message = byClient ? LEFT_BY_CLIENT : LEFT_BY_STATEMENT;
          warned(message, new Error(message));
        },
      },
    });
    const balancing: BalancingOptions = pickNames(options as BalancingOptions, balancingTable.names);
    this.balancer = createBalancer<PgServer>({
      ...balancing,
      // The stage that ranks servers by their roles comes first: ejection and panic only judge the servers that remain.
      ...(this.roles && { stages: [this.roles.stage, ...(options.stages ?? [])] }),
      resolver: settings.resolver,
      transport: this.#transport,
      pool: {
        // A server is drained without a timeout, because only the server knows how long a transaction may take.
        drainTimeoutMs: Number.POSITIVE_INFINITY,
        ...options.pool,
        // No maximum age for all of a server's connections at once: `SessionPool` replaces them one by one.
        maxConnectionAgeMs: Number.POSITIVE_INFINITY,
      },
    });
  }

  // biome-ignore lint/suspicious/noExplicitAny: pg's overloads are those of the type callers see.
  override query(text: any, values?: any, callback?: any): any {
    const own: unknown = text instanceof pg.Query ? (text as { readonly callback?: unknown }).callback : undefined;
    const done: Callback | undefined =
      typeof values === 'function' ? values : ((callback ?? own) as Callback | undefined);
    if (typeof text === 'function')
      return refuse(this.clock, text, 'Passing a function as the first parameter to pool.query is not supported');
    if (done !== undefined && typeof done !== 'function') throw new TypeError('callback is not a function');
    if (this.ending) return refuse(this.clock, done, AFTER_END);
    const parameters = typeof values === 'function' ? undefined : values;
    if (typeof text?.submit === 'function' && !(text instanceof pg.Query)) return this.#submit(text);
    const { key, idempotent } = ownOptions(text);
    const start = (answer: PgCallback): void =>
      new PgCall(this, { kind: 'statement', text, values: parameters, key, idempotent, done: answer }).begin();
    if (done !== undefined) return start(apart(done));
    return promised(start);
  }

  // biome-ignore lint/suspicious/noExplicitAny: pg's overloads are those of the type callers see.
  override connect(callback?: any): any {
    if (this.ending) return refuse(this.clock, callback, AFTER_END);
    const start = (answer: PgCallback): void => new PgCall(this, { kind: 'client', done: answer }).begin();
    if (callback === undefined) return promised(start);
    const done = apart(callback);
    start((error, client) => {
      if (error) done(error, undefined, () => {});
      else done(undefined, client, (client as pg.PoolClient).release);
    });
  }

  // biome-ignore lint/suspicious/noExplicitAny: pg's overloads are those of the type callers see.
  override end(callback?: any): any {
    if (this.ending) return refuse(this.clock, callback, 'Called end on pool more than once');
    Object.assign(this, { ending: true });
    const ended = this.#end();
    if (callback === undefined) return ended;
    void ended.then(() => callback());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.ending ? this.balancer.close() : this.#dispose();
  }

  // The calls of this pool call the methods that follow.

  waited(): void {
    if (this.waiting === 0) this.#noneWaits();
  }

  acquired(client: pg.PoolClient): void {
    this.#tell('acquire', client);
  }

  released(error: unknown, client: pg.PoolClient): void {
    this.#tell('release', error, client);
  }

  /** Counts the connections to all servers, and the calls that wait. */
  counts(): { readonly total: number; readonly idle: number; readonly waiting: number } {
    let total = 0;
    let idle = 0;
    let waiting = this.waiting;
    for (const server of this.#transport.servers) {
      total += server.size;
      idle += server.idleCount;
      waiting += server.waitingCount;
    }
    return { total, idle, waiting };
  }

  async #dispose(): Promise<void> {
    Object.assign(this, { ending: true });
    await this.#end();
  }

  async #end(): Promise<void> {
    const { endTimeoutMs } = this.settings;
    const cut = new AbortController();
    const timer = Number.isFinite(endTimeoutMs) ? this.clock.timer(() => cut.abort(), endTimeoutMs) : undefined;
    timer?.ref();
    // Calls that began before `end` may still be given a server, as in pg.
    if (this.waiting > 0) {
      await new Promise<void>((resolve) => {
        this.#noneWaits = resolve;
        cut.signal.addEventListener('abort', () => resolve(), { once: true });
      });
    }
    await this.balancer.close({ signal: cut.signal });
    timer?.cancel();
    Object.assign(this, { ended: true });
  }

  /** Runs a query object that reads its answer by itself, such as a cursor or a stream. */
  #submit(query: QueryObject): QueryObject {
    const failed: PgCallback = (error) => {
      if (!error) return;
      if (typeof query.destroy === 'function') query.destroy(error);
      else query.handleError?.(error, noConnection);
    };
    new PgCall(this, { kind: 'object', text: query, done: failed }).begin();
    return query;
  }

  #tell(event: string, ...args: unknown[]): void {
    if (this.listenerCount(event) > 0) apart(() => this.emit(event, ...args))();
  }
}

interface QueryObject {
  destroy?(error: Error): void;
  handleError?(error: Error, connection: unknown): void;
}

/**
 * A stand-in for the connection, given to the error handler of a query object that was never sent, which removes its listeners from its
 * connection.
 */
const noConnection = { removeListener: () => {}, sync: () => {}, close: () => {} };

const LEFT_BY_STATEMENT =
  'a statement of pool.query() began a transaction, which was rolled back: the next statement may run on another connection. Run all of a transaction on one client of pool.connect()';
const LEFT_BY_CLIENT =
  'a client was released in the middle of a transaction, which was rolled back: COMMIT or ROLLBACK first';

const AFTER_END = 'Cannot use a pool after calling end on the pool';

/** Removes an option `clock` that is not evenkeel's: libraries such as pg-boss pass all of their own options to their pool. */
function withoutForeignClock(options: PgPoolOptions): PgPoolOptions {
  const { clock } = options;
  return typeof clock?.timer === 'function' ? options : ownProperties({ ...options, clock: undefined });
}

/** pg's types declare the counts as properties, and TypeScript lets no subclass override those with accessors. */
for (const [name, count] of [
  ['totalCount', 'total'],
  ['idleCount', 'idle'],
  ['waitingCount', 'waiting'],
] as const) {
  Object.defineProperty(BalancedPgPool.prototype, name, {
    configurable: true,
    get(this: BalancedPgPool) {
      return this.counts()[count];
    },
  });
}

function ownOptions(text: unknown): { readonly key: string | undefined; readonly idempotent: boolean | undefined } {
  if (typeof text !== 'object' || text === null) return none;
  const { key, idempotent } = ownProperties(text) as { readonly key?: unknown; readonly idempotent?: unknown };
  return {
    key: key === undefined ? undefined : checkString('key', key),
    idempotent: idempotent === undefined ? undefined : checkBoolean('idempotent', idempotent, false),
  };
}

const none = Object.freeze({ key: undefined, idempotent: undefined });

function refuse(clock: Clock, callback: Callback | undefined, message: string): Promise<never> | undefined {
  const error = new Error(message);
  if (callback === undefined) return Promise.reject(error);
  clock.defer(() => callback(error));
  return undefined;
}

/**
 * Wraps a function of the application: an error it throws becomes an uncaught exception, later, instead of interrupting evenkeel's work.
 */
function apart(called: (...args: never[]) => unknown): (...args: unknown[]) => void {
  return (...args) => {
    try {
      called(...(args as never[]));
    } catch (error) {
      process.nextTick(() => {
        throw error;
      });
    }
  };
}

function promised(start: (answer: PgCallback) => void): Promise<unknown> {
  const answer = new Promise((resolve, reject) => {
    start((error, result) => (error ? reject(error) : resolve(result)));
  });
  return answer.catch((error) => {
    // A stack that begins where the application called says more than one that begins where the socket was read; pg does this too.
    if (error instanceof Error) Error.captureStackTrace(error);
    throw error;
  });
}

/**
 * The class of the pools that `createPool` returns, for libraries that construct their pool themselves. It takes the same options, and
 * ignores unknown ones unless their names resemble an option of evenkeel. Its instances are instances of `pg.Pool`.
 */
export const ServicePool: new (options?: PgPoolOptions) => PgPool = BalancedPgPool as unknown as new (
  options?: PgPoolOptions,
) => PgPool;

/**
 * Creates a `pg.Pool` over the servers of a Service: it finds the servers, keeps connections to each, and picks one for every statement. A
 * client that is checked out stays with its server until it is released. The pool must be ended.
 *
 * @throws EVENKEEL_OPTION for invalid options. No message contains a secret.
 * @example
 * const replicas = createPool({ target: 'postgres.shop:5432', role: 'replica', user: 'app', password, database: 'shop' });
 * const { rows } = await replicas.query('SELECT * FROM orders WHERE id = $1', [42]);
 * await replicas.end();
 */
export function createPool(options: PgPoolOptions = {}): PgPool {
  const own = ownProperties(options);
  checkOptionNames(own);
  checkBalancingOptions(pickNames(own as BalancingOptions, balancingTable.names));
  return new ServicePool(own);
}
