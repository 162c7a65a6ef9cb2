import { escapeId, escape as escapeValue, format, type Pool } from 'mysql2';
import {
  type Balancer,
  combineObservers,
  EvenkeelError,
  endpointAddress,
  type ObserverEvents,
} from '../../../index.js';
import { checkFunction, checkKeys, checkNumber, checkString, optionError } from '../../kit/index.js';
import { ownErrors } from '../own-functions.js';
import { Namespace } from './namespace.js';
import { openConnections } from './open-connections.js';
import { matches } from './pattern.js';
import { type CheckedOutConnection, type CheckoutOptions, type ConnectionCallback, Queryable } from './queryable.js';
import type { Route } from './route.js';
import { JoinedRoute, noService, type ServiceSelector, SingleRoute } from './route.js';
import { createService, type Service, type ServiceOptions } from './service.js';

/** Options of `createPoolCluster`: of one Service, or shared by several. */
export interface PoolClusterOptions extends ServiceOptions {
  /**
   * Several services under one cluster, by name: `of(name)` is one of them. Each is a target string, or options that are
   * laid over the shared ones.
   */
  readonly services?: Readonly<Record<string, string | ServiceOptions>> | undefined;
}

/** What `ready` takes. */
export interface ReadyOptions {
  readonly signal?: AbortSignal | undefined;
  /** How many connections are to be open in each service. @defaultValue 0: its servers are known, connecting goes on */
  readonly connections?: number | undefined;
}

/** How many patterns are remembered with whose turn it is. */
const MAX_NAMESPACES = 100;

/** What a cluster tells of: mysql2's events of pools and of clusters. Servers are named `address:port`. */
export type PoolClusterEvent =
  | 'acquire'
  | 'connection'
  | 'release'
  | 'enqueue'
  | 'online'
  | 'offline'
  | 'remove'
  | 'warn';

/**
 * A mysql2 PoolCluster that follows Services: one mysql2 Pool per server, the server picked for every statement and every
 * connection that is checked out. Made by `createPoolCluster`.
 */
export class PoolCluster extends Queryable implements AsyncDisposable, Disposable {
  readonly #services: readonly Service[];
  readonly #route: Route;
  readonly #namespaces = new Map<string, Namespace>();
  #ending: Promise<void> | undefined;

  /** @internal */
  constructor(options: PoolClusterOptions) {
    super();
    const named = Object.entries(servicesOf(options));
    const services: Service[] = [];
    try {
      for (const [name, own] of named) services.push(this.#follow(name, own));
    } catch (error) {
      for (const { balancer } of services) void balancer.close();
      throw error;
    }
    this.#services = services;
    this.#route = this.#routeOver(services, 'RR');
  }

  /** State and control of the only service, or of the first: `ready()`, `snapshot()`. */
  get balancer(): Balancer<Pool> {
    return (this.#services[0] as Service).balancer;
  }

  /** The balancer of each service, by name; that of a cluster without `services` is called `''`. */
  get balancers(): ReadonlyMap<string, Balancer<Pool>> {
    return new Map(this.#services.map(({ name, balancer }) => [name, balancer]));
  }

  /**
   * The services whose names fit a pattern, in which `*` stands for anything. Throws EVENKEEL_OPTION where none does.
   * @param selector In which order several are asked: in turn, at random, or always from the first on. @defaultValue 'RR'
   */
  of(pattern = '*', selector: ServiceSelector = 'RR'): Namespace {
    const order = String(selector).toUpperCase() as ServiceSelector;
    if (!['RR', 'RANDOM', 'ORDER'].includes(order))
      throw optionError('selector', "'RR', 'RANDOM' or 'ORDER'", selector);
    checkString('pattern', pattern);
    const id = `${order} ${pattern}`;
    let namespace = this.#namespaces.get(id);
    if (namespace === undefined) {
      const fitting = this.#services.filter(({ name }) => matches(pattern, name));
      if (fitting.length === 0)
        throw noService(
          pattern,
          this.#services.map(({ name }) => name),
        );
      namespace = new Namespace(this.#routeOver(fitting, order));
      if (this.#namespaces.size < MAX_NAMESPACES) this.#namespaces.set(id, namespace);
    }
    return namespace;
  }

  override getConnection(options?: CheckoutOptions): Promise<CheckedOutConnection>;
  override getConnection(callback: ConnectionCallback): void;
  override getConnection(options: CheckoutOptions, callback: ConnectionCallback): void;
  /** As mysql2's PoolCluster has it. */
  override getConnection(pattern: string, selector?: ServiceSelector): Promise<CheckedOutConnection>;
  override getConnection(pattern: string, callback: ConnectionCallback): void;
  override getConnection(pattern: string, selector: ServiceSelector, callback: ConnectionCallback): void;
  override getConnection(...args: readonly unknown[]): unknown {
    const [pattern, selector] = args;
    const get = Queryable.prototype.getConnection as (this: Queryable, ...rest: unknown[]) => unknown;
    if (typeof pattern !== 'string') return get.apply(this, [...args]);
    const callback = args.find((arg) => typeof arg === 'function');
    const namespace = typeof selector === 'string' ? this.of(pattern, selector as ServiceSelector) : this.of(pattern);
    return get.apply(namespace, callback === undefined ? [] : [callback]);
  }

  /** Itself: without a callback every method returns a promise. For what asks a pool of mysql2 for its promise form. */
  promise(): this {
    return this;
  }

  escape(value: unknown): string {
    const { stringifyObjects, timezone } = this.#formats;
    return escapeValue(value as never, stringifyObjects, timezone as never);
  }

  escapeId(value: string | readonly string[]): string {
    return escapeId(value as never, false);
  }

  /** The statement with its values filled in. */
  format(sql: string, values?: unknown): string {
    const { stringifyObjects, timezone } = this.#formats;
    return format(sql, values as never, stringifyObjects, timezone as never);
  }

  /**
   * Resolves once the servers of every service are known; rejects as `balancer.ready` does. With `connections`, once so many
   * are open in every service, over its servers as its picker spreads them; rejects as `getConnection` does.
   */
  async ready(options: ReadyOptions = {}): Promise<void> {
    checkKeys('ready', options, ['signal', 'connections']);
    const { connections, signal } = options;
    const count = checkNumber('connections', connections, 0, { min: 0, max: 100_000, integer: true });
    await Promise.all(
      this.#services.map(async (service) => {
        await service.balancer.ready(signal === undefined ? {} : { signal });
        if (count > 0) await openConnections(service, new Namespace(new SingleRoute(service)), count, signal);
      }),
    );
  }

  /**
   * No new statements; running ones finish, and connections that are checked out may be used until they are released, for
   * `pool.drainTimeoutMs`, or 30 s where that is not set. Then they are cut.
   */
  end(): Promise<void>;
  end(callback: (error?: Error | null) => void): void;
  end(callback?: (error?: Error | null) => void): Promise<void> | void {
    this.#ending ??= this.#end();
    if (callback === undefined) return this.#ending;
    checkFunction('callback', callback);
    void this.#ending.then(() => callback(null));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.end();
  }

  /** As `end`, which goes on behind it. */
  [Symbol.dispose](): void {
    void this.end();
  }

  /** @internal */
  protected route(): Route {
    return this.#route;
  }

  get #formats(): { readonly stringifyObjects: boolean | undefined; readonly timezone: unknown } {
    const { stringifyObjects, timezone } = (this.#services[0] as Service).settings.mysql;
    return { stringifyObjects, timezone: timezone ?? 'local' };
  }

  async #end(): Promise<void> {
    await Promise.all(
      this.#services.map(async ({ balancer, clock, endTimeoutMs }) => {
        const cut = new AbortController();
        const timer = Number.isFinite(endTimeoutMs) ? clock.timer(() => cut.abort(), endTimeoutMs) : undefined;
        timer?.ref();
        await balancer.close({ signal: cut.signal });
        timer?.cancel();
      }),
    );
  }

  #routeOver(services: readonly Service[], selector: ServiceSelector): Route {
    const [only, ...others] = services as readonly [Service, ...Service[]];
    return others.length === 0 ? new SingleRoute(only) : new JoinedRoute(services, selector, only.draw);
  }

  #follow(name: string, options: ServiceOptions): Service {
    const told = { subchannelChanged: (event: ObserverEvents['subchannelChanged']) => this.#changed(event) };
    return createService(name, options, {
      warn: (error) => this.#tell('warn', error),
      opened: (pool) => this.#passOn(pool),
      observer: options.observer === undefined ? told : combineObservers([options.observer, told]),
    });
  }

  #passOn(pool: Pool): void {
    for (const event of ['acquire', 'connection', 'release', 'enqueue'] as const) {
      pool.on(event, (connection: unknown) => this.#tell(event, connection));
    }
  }

  #changed({ endpoint, from, to, error }: ObserverEvents['subchannelChanged']): void {
    const id = endpointAddress(endpoint);
    if (to === 'ready') this.#tell('online', id);
    else if (from === 'ready' && (to === 'backoff' || to === 'connecting')) this.#tell('offline', id);
    else if (to === 'closed') this.#tell('remove', id);
    if (to === 'backoff' && error !== undefined) this.#tell('warn', error);
  }

  /** What a listener throws is its own: it ends up as an uncaught exception, but not in the middle of our work. */
  #tell(event: PoolClusterEvent, value: unknown): void {
    if (this.listenerCount(event) > 0) ownErrors(() => this.emit(event, value))();
  }
}

/** The only one is called ''. */
function servicesOf(options: PoolClusterOptions): Readonly<Record<string, ServiceOptions>> {
  if (typeof options !== 'object' || options === null) throw optionError('options', 'an object', options);
  const { services, ...shared } = options;
  if (services === undefined) return { '': shared };
  checkKeys('services', services, Object.keys(services ?? {}));
  if (Object.keys(services).length === 0) throw optionError('services', 'at least one service', services);
  const result: Record<string, ServiceOptions> = {};
  for (const [name, own] of Object.entries(services)) {
    if (name === '' || name.includes('*'))
      throw optionError('services', 'names that are not empty and have no *', name);
    if (typeof own !== 'string' && (typeof own !== 'object' || own === null)) {
      throw new EvenkeelError('EVENKEEL_OPTION', `services.${name} must be a target string or an object of options`);
    }
    const { pool } = shared;
    const laid = typeof own === 'string' ? { target: own } : own;
    result[name] = { ...shared, ...laid, ...(pool && { pool: { ...pool, ...(laid as ServiceOptions).pool } }) };
  }
  return result;
}

/**
 * Makes a PoolCluster that finds its servers by itself: it follows a Service, keeps connections to every server behind it
 * and picks one for each statement. A connection that is checked out stays with its caller until it is released. Must be
 * ended.
 *
 * @throws EVENKEEL_OPTION for options that do not fit. No secret is in any message.
 * @example
 * const replicas = createPoolCluster({ target: 'mysql-read.shop:3306', user: 'app', password, database: 'shop' });
 * const [rows] = await replicas.query('SELECT * FROM orders WHERE id = ?', [42]);
 * await replicas.end();
 */
export function createPoolCluster(options: PoolClusterOptions): PoolCluster {
  return new PoolCluster(options);
}
