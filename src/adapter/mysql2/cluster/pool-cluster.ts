import { escapeId, escape as escapeValue, format, type Pool } from 'mysql2';
import { type Balancer, EvenkeelError, endpointAddress, type ObserverEvents } from '../../../index.js';
import { checkFunction, checkKeys, checkNumber, checkString, optionError } from '../../kit/index.js';
import { type Events, tell } from '../own-functions.js';
import { type CheckedOutConnection, type CheckoutOptions, type ConnectionCallback, Namespace } from './namespace.js';
import { noService, routeOver, routeTo, type ServiceSelector } from './route.js';
import { matches } from './servers.js';
import { createService, openConnections, type Service, type ServiceOptions } from './service.js';

/** Options of `createPoolCluster`: of one Service, or shared by several. */
export interface PoolClusterOptions extends ServiceOptions {
  /**
   * Several services in one cluster, by name: `of(name)` is one of them. Each is a target string, or options that override the
   * shared ones.
   * @defaultValue one, of the options `target` and `resolver`
   */
  readonly services?: Readonly<Record<string, string | ServiceOptions>> | undefined;
}

/** What `ready` takes. */
export interface ReadyOptions {
  /** Stops waiting; the promise then rejects with the signal's reason. @defaultValue none */
  readonly signal?: AbortSignal | undefined;
  /** How many connections are to be open in each service. @defaultValue 0: its servers are known, connecting goes on */
  readonly connections?: number | undefined;
}

/** The largest number of patterns for which it is remembered which service is next in turn. */
const MAX_NAMESPACES = 100;

/** Events of a cluster: those of mysql2's pools and clusters. Servers are named `address:port`. */
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

  /** The balancer of the only service, or of the first: `ready()`, `snapshot()`. */
  get balancer(): Balancer<Pool> {
    return (this.#services[0] as Service).balancer;
  }

  /** The balancer of each service, by name; without `services` there is one, called `''`. */
  get balancers(): ReadonlyMap<string, Balancer<Pool>> {
    return new Map(this.#services.map(({ name, balancer }) => [name, balancer]));
  }

  /**
   * The services whose names match a pattern, in which `*` stands for anything. Throws EVENKEEL_OPTION if none does.
   * @param selector In which order they are asked: in turn, at random, or always from the first on. @defaultValue 'RR'
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
  /** Checks out a connection of the services that match the pattern, as mysql2's PoolCluster does. */
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

  /** A value as SQL text, by the options `timezone` and `stringifyObjects`, as mysql2's pools do it. */
  escape(value: unknown): string {
    const { stringifyObjects, timezone } = this.#formats;
    return escapeValue(value as never, stringifyObjects, timezone as never);
  }

  /** A name as SQL text, in backticks; a list joined by commas. A dot divides a table from its column. */
  escapeId(value: string | readonly string[]): string {
    return escapeId(value as never, false);
  }

  /** The statement with its values filled in. */
  format(sql: string, values?: unknown): string {
    const { stringifyObjects, timezone } = this.#formats;
    return format(sql, values as never, stringifyObjects, timezone as never);
  }

  /**
   * Resolves once the servers of every service are known; rejects as `balancer.ready` does. With `connections`, resolves once that
   * many are open in every service, spread over its servers by its picker; rejects as `getConnection` does.
   */
  async ready(options: ReadyOptions = {}): Promise<void> {
    checkKeys('ready', options, ['signal', 'connections']);
    const { connections, signal } = options;
    const count = checkNumber('connections', connections, 0, { min: 0, max: 100_000, integer: true });
    await Promise.all(
      this.#services.map(async (service) => {
        await service.balancer.ready(signal === undefined ? {} : { signal });
        if (count === 0) return;
        const namespace = new Namespace(routeTo(service));
        await openConnections(service, () => namespace.getConnection(), count, signal);
      }),
    );
  }

  /**
   * Takes no new statements. Running ones finish, and checked-out connections can be used until they are released, for at most
   * `pool.drainTimeoutMs` (here 30 s by default); then they are cut.
   */
  end(): Promise<void>;
  end(callback: (error?: Error | null) => void): void;
  end(callback?: (error?: Error | null) => void): Promise<void> | void {
    this.#ending ??= this.#end();
    if (callback === undefined) return this.#ending;
    checkFunction('callback', callback);
    void this.#ending.then(() => callback(null));
  }

  /** As `end`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.end();
  }

  /** Ends the cluster as `end` does, but does not wait. */
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

/** Starts to follow the services of a cluster. `events` gets the events of all of them. */
function follow(options: PoolClusterOptions, events: Events): readonly Service[] {
  const services: Service[] = [];
  try {
    for (const [name, own] of Object.entries(servicesOf(options))) {
      services.push(createService(name, own, events, { subchannelChanged: (event) => tellChange(event, events) }));
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

/** The options of each service, by name; the only one is called ''. */
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
    const options = typeof own === 'string' ? { target: own } : own;
    result[name] = { ...shared, ...options, ...(pool && { pool: { ...pool, ...(options as ServiceOptions).pool } }) };
  }
  return result;
}

/**
 * Makes a PoolCluster that finds its servers by itself: it follows a Service, keeps connections to every server behind it
 * and picks one for each statement. A connection that is checked out stays with its caller until it is released. Must be
 * ended.
 *
 * @throws EVENKEEL_OPTION for invalid options. No secret is in any message.
 * @example
 * const replicas = createPoolCluster({ target: 'mysql-read.shop:3306', user: 'app', password, database: 'shop' });
 * const [rows] = await replicas.query('SELECT * FROM orders WHERE id = ?', [42]);
 * await replicas.end();
 */
export function createPoolCluster(options: PoolClusterOptions): PoolCluster {
  return new PoolCluster(options);
}
