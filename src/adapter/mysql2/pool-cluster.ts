import { escapeId, escape as escapeValue, format } from 'mysql2';
import { type Balancer, EvenkeelError, endpointAddress, type ObserverEvents } from '../../index.js';
import { checkFunction, checkKeys, checkString, optionError, ownProperties } from '../kit/index.js';
import { type CheckedOutConnection, type CheckoutOptions, type ConnectionCallback, Namespace } from './namespace.js';
import type { ServiceOptions } from './options.js';
import { type Events, tell } from './own-functions.js';
import { matches, noService, routeOver, type ServiceSelector } from './route.js';
import { createService, type Service } from './service.js';

/** Options of `createPoolCluster`: the options of one Service, or of several with shared ones. */
export interface PoolClusterOptions extends ServiceOptions {
  /**
   * Several services in one cluster, by name; `of(name)` returns one of them. Each is a target string, or options that override the shared
   * ones.
   * @defaultValue one service, with the options `target` and `resolver`
   */
  readonly services?: Readonly<Record<string, string | ServiceOptions>> | undefined;
}

/** The largest number of patterns for which the cluster remembers which service is next in turn. */
const MAX_NAMESPACES = 100;

/** The events of a cluster, which are those of mysql2's pools and clusters. Servers are named `address:port`. */
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
 * A mysql2 PoolCluster that follows Services: it has a pool of connections per server, and picks a server for every statement and every connection
 * that is checked out. Created by `createPoolCluster`.
 */
export class PoolCluster extends Namespace implements AsyncDisposable, Disposable {
  readonly #services: readonly Service[];
  readonly #namespaces = new Map<string, Namespace>();
  #ending: Promise<void> | undefined;

  /** @internal */
  constructor(options: PoolClusterOptions) {
    const events: Events = {};
    const services = follow(options, events);
    super(routeOver(services, 'RR'));
    this.#services = services;
    events.emitter = this;
  }

  /** The balancer of the only service, or of the first service: `ready()` waits for a server, `snapshot()` returns the current state. */
  get balancer(): Balancer<unknown> {
    return (this.#services[0] as Service).balancer;
  }

  /** The balancer of each service, by the service's name; without the option `services` there is one, named `''`. */
  get balancers(): ReadonlyMap<string, Balancer<unknown>> {
    return new Map(this.#services.map(({ name, balancer }) => [name, balancer]));
  }

  /**
   * Returns the services whose names match a pattern, in which `*` matches any text. Throws EVENKEEL_OPTION if none matches.
   * @param selector The order in which the services are tried: in turn, at random, or always from the first one on. @defaultValue 'RR'
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
      namespace = new Namespace(routeOver(fitting, order));
      if (this.#namespaces.size < MAX_NAMESPACES) this.#namespaces.set(id, namespace);
    }
    return namespace;
  }

  override getConnection(options?: CheckoutOptions): Promise<CheckedOutConnection>;
  override getConnection(callback: ConnectionCallback): void;
  override getConnection(options: CheckoutOptions, callback: ConnectionCallback): void;
  /** Checks out a connection of a service that matches the pattern, as mysql2's PoolCluster does. */
  override getConnection(pattern: string, selector?: ServiceSelector): Promise<CheckedOutConnection>;
  override getConnection(pattern: string, callback: ConnectionCallback): void;
  override getConnection(pattern: string, selector: ServiceSelector, callback: ConnectionCallback): void;
  override getConnection(...args: readonly unknown[]): unknown {
    const [pattern, selector] = args;
    const get = Namespace.prototype.getConnection as (this: Namespace, ...rest: unknown[]) => unknown;
    if (typeof pattern !== 'string') return get.apply(this, [...args]);
    const callback = args.find((arg) => typeof arg === 'function');
    const namespace = typeof selector === 'string' ? this.of(pattern, selector as ServiceSelector) : this.of(pattern);
    return get.apply(namespace, callback === undefined ? [] : [callback]);
  }

  /** Converts a value to SQL text, following the options `timezone` and `stringifyObjects`, as mysql2's pools do. */
  escape(value: unknown): string {
    const { stringifyObjects, timezone } = this.#formats;
    return escapeValue(value as never, stringifyObjects, timezone as never);
  }

  /** Converts a name to SQL text, in backticks; a list of names is joined by commas. A dot separates a table from its column. */
  escapeId(value: string | readonly string[]): string {
    return escapeId(value as never, false);
  }

  /** Returns an SQL statement with its values filled in. */
  format(sql: string, values?: unknown): string {
    const { stringifyObjects, timezone } = this.#formats;
    return format(sql, values as never, stringifyObjects, timezone as never);
  }

  /** Resolves once the servers of every service are known, while connecting goes on; rejects as `balancer.ready` does. */
  async ready(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    checkKeys('ready', options, ['signal']);
    await Promise.all(this.#services.map(({ balancer }) => balancer.ready(options)));
  }

  /**
   * Ends the cluster: refuses new statements, lets running ones finish, and lets checked-out connections be used until they are released,
   * for at most `pool.drainTimeoutMs` (30 s by default); then they are cut.
   */
  end(): Promise<void>;
  end(callback: (error?: Error | null) => void): void;
  end(callback?: (error?: Error | null) => void): Promise<void> | void {
    this.#ending ??= this.#end();
    if (callback === undefined) return this.#ending;
    checkFunction('callback', callback);
    void this.#ending.then(() => callback(null));
  }

  /** Ends the cluster like `end`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.end();
  }

  /** Ends the cluster like `end`, but without waiting. */
  [Symbol.dispose](): void {
    void this.end();
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
}

/** Starts to follow the services of a cluster. The events of all services go to `events`. */
function follow(options: PoolClusterOptions, events: Events): readonly Service[] {
  const services: Service[] = [];
  try {
    for (const [name, serviceOptions] of Object.entries(servicesOf(options))) {
      services.push(
        createService(name, serviceOptions, events, { subchannelChanged: (event) => tellChange(event, events) }),
      );
    }
  } catch (error) {
    for (const { balancer } of services) void balancer.close();
    throw error;
  }
  return services;
}

function tellChange({ endpoint, from, to, error }: ObserverEvents['subchannelChanged'], events: Events): void {
  const id = endpointAddress(endpoint);
  if (to === 'ready') tell(events, 'online', id);
  else if (from === 'ready' && (to === 'backoff' || to === 'connecting')) tell(events, 'offline', id);
  else if (to === 'closed') tell(events, 'remove', id);
  if (to === 'backoff' && error !== undefined) tell(events, 'warn', error);
}

/** The options of each service, by the service's name; without the option `services` the only service is named ''. */
function servicesOf(options: PoolClusterOptions): Readonly<Record<string, ServiceOptions>> {
  if (typeof options !== 'object' || options === null) throw optionError('options', 'an object', options);
  const { services, ...rest } = ownProperties(options);
  const shared = ownProperties(rest);
  if (services === undefined) return { '': shared };
  checkKeys('services', services, Object.keys(services ?? {}));
  if (Object.keys(services).length === 0) throw optionError('services', 'at least one service', services);
  const result: Record<string, ServiceOptions> = {};
  for (const [name, serviceOptions] of Object.entries(services)) {
    if (name === '' || name.includes('*'))
      throw optionError('services', 'names that are not empty and have no *', name);
    if (typeof serviceOptions !== 'string' && (typeof serviceOptions !== 'object' || serviceOptions === null)) {
      throw new EvenkeelError('EVENKEEL_OPTION', `services.${name} must be a target string or an object of options`);
    }
    const { pool } = shared;
    const options = typeof serviceOptions === 'string' ? { target: serviceOptions } : serviceOptions;
    result[name] = {
      ...shared,
      ...options,
      ...(pool && { pool: { ...pool, ...ownProperties(options as ServiceOptions).pool } }),
    };
  }
  return result;
}

/**
 * Creates a PoolCluster that finds its servers by itself: it follows a Service, keeps connections to every server behind it and picks a
 * server for each statement. A connection that is checked out stays with its caller until it is released. Must be ended.
 *
 * @throws EVENKEEL_OPTION for invalid options. No message contains a secret.
 * @example
 * const replicas = createPoolCluster({ target: 'mysql-read.shop:3306', user: 'app', password, database: 'shop' });
 * const [rows] = await replicas.query('SELECT * FROM orders WHERE id = ?', [42]);
 * await replicas.end();
 */
export function createPoolCluster(options: PoolClusterOptions): PoolCluster {
  return new PoolCluster(options);
}
