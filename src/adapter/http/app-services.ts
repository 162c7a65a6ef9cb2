import type { Balancer, BalancerSnapshot } from '../../index.js';
import { asError, ownProperties, type ServiceHostSnapshot, ServiceHosts } from '../kit/index.js';
import type { ResolvedAppOptions } from './app-options.js';
import { type BalancedService, BalancedServices, type ServiceClient } from './balanced-services.js';
import { socketsAreMocked } from './internals.js';

/** The state of a dispatcher or of agents that serve a whole app: plain JSON, created on demand. */
export interface AppSnapshot {
  /** The Services that are balanced now. */
  readonly services: readonly BalancedServiceSnapshot[];
  /** The hosts that DNS was queried for, including those that are not Services. */
  readonly hosts: readonly ServiceHostSnapshot[];
  /** How many requests wait until it is known whether their host is a Service. */
  readonly pending: number;
  /** How many requests to Services were not balanced because `maxServices` was reached. */
  readonly overflow: number;
}

/** One Service of an app that is balanced. */
export interface BalancedServiceSnapshot {
  /** The origin of the first request to this Service. */
  readonly origin: string;
  /** The Service's absolute DNS name. */
  readonly name: string;
  /** The state of the Service's balancer: endpoints and counts. */
  readonly balancer: BalancerSnapshot;
}

/** How many spellings of origins are remembered with their Services; the oldest is forgotten first. */
const MAX_ROUTES = 2_000;
/** How many requests may wait until it is known whether their host is a Service; further requests are not balanced. */
const MAX_PENDING = 20_000;

/** The Services that an app calls: decides which hosts are Services, and keeps one client for each Service. */
export class AppServices<C extends ServiceClient & { readonly balancer: Balancer<never> | Balancer<object> }> {
  /** Whether DNS alone decides which hosts are Services. */
  readonly #queriesDns: boolean;
  readonly #hosts: ServiceHosts;
  readonly #services: BalancedServices<C>;
  /** The Services by the text of an origin, as requests spell it. */
  readonly #routes = new Map<string, BalancedService<C>>();
  /** How many requests wait until it is known whether their host is a Service. */
  #pending = 0;
  /** Functions to call once no request waits any longer to learn whether its host is a Service. */
  readonly #waitsForRelease = new Set<() => void>();
  #closed = false;
  readonly #optionsFailed: ((error: Error) => void) | undefined;

  constructor(options: Omit<ResolvedAppOptions<unknown>, 'optionsOf'>) {
    this.#queriesDns = options.services === undefined;
    this.#optionsFailed = ownProperties(options).optionsFailed;
    this.#hosts = new ServiceHosts({ ...options, dns: options.discovery?.dns });
    this.#services = new BalancedServices({ ...options, left: (service) => this.#forget(service) });
  }

  get isClosed(): boolean {
    return this.#closed;
  }

  get balancers(): ReadonlyMap<string, C['balancer']> {
    return new Map([...this.#services.all].map(({ origin, client }) => [origin.origin, client.balancer]));
  }

  /** The balanced Services in the order of their first use. */
  get all(): Iterable<BalancedService<C>> {
    return this.#services.all;
  }

  /** Returns the Service of an origin's text, if `get` was called with that text. */
  known(text: string): BalancedService<C> | undefined {
    return this.#routes.get(text);
  }

  /**
   * Whether the host of `url` is a Service. A promise while DNS is being queried: the request should wait for it (`waits`, `released`). False
   * also for a request that cannot wait.
   */
  isService(url: URL): boolean | Promise<boolean> {
    if (this.#closed) return false;
    const verdict = this.#hosts.isService(url);
    if (typeof verdict === 'boolean') return verdict;
    // DNS is queried in any case, for later requests. While a mock answers, a request does not wait for DNS, which need not know the mocked
    // host.
    const mayWait = this.#pending < MAX_PENDING && !(this.#queriesDns && socketsAreMocked());
    return mayWait && verdict;
  }

  /**
   * Returns the Service that `url` names, whose client `open` creates for its first request; undefined if there are too many Services.
   * Without TLS, all spellings of a name are one Service, for each scheme and port. Over TLS each spelling is a Service of its own, because
   * the name that is sent and checked in the certificate is the one that the request spells; `identity` separates requests that need
   * different certificates. Throws what `open` throws, unless `optionsFailed` gets that error; then the result is undefined.
   *
   * @param text The text by which `known` finds the Service from now on.
   */
  get(text: string, url: URL, open: () => C, identity = ''): BalancedService<C> | undefined {
    const { protocol, hostname, port } = url;
    const written = protocol === 'https:' ? hostname.replace(/\.$/, '') : '';
    try {
      const key = `${protocol}${written}/${this.#hosts.nameOf(url)}:${port}${identity}`;
      const service = this.#services.get(key, url, open);
      if (service !== undefined) this.#remember(text, service);
      return service;
    } catch (error) {
      if (this.#optionsFailed === undefined) throw error;
      this.#optionsFailed(asError(error));
      return undefined;
    }
  }

  /** Counts a request that begins to wait until it is known whether its host is a Service. */
  waits(): void {
    this.#pending++;
  }

  /** Counts a request that no longer waits to learn whether its host is a Service. Returns true if it was the last one. */
  released(): boolean {
    this.#pending--;
    if (this.#pending > 0) return false;
    for (const resolve of this.#waitsForRelease) resolve();
    this.#waitsForRelease.clear();
    return true;
  }

  snapshot(): AppSnapshot {
    return {
      services: [...this.#services.all].map(({ origin, client }) => ({
        origin: origin.origin,
        name: this.#hosts.nameOf(origin),
        balancer: client.balancer.snapshot(),
      })),
      hosts: this.#hosts.snapshot(),
      pending: this.#pending,
      overflow: this.#services.overflow,
    };
  }

  /** Stops balancing new requests. Resolves when the waiting requests have been routed; undefined if there are none. */
  end(): Promise<void> | undefined {
    this.#closed = true;
    this.#routes.clear();
    if (this.#pending === 0) return undefined;
    return new Promise((resolve) => {
      this.#waitsForRelease.add(resolve);
    });
  }

  /** Stops balancing new requests, lets running requests finish, and then closes all Services. */
  async close(): Promise<void> {
    const released = this.end();
    if (released !== undefined) await released;
    this.#hosts.close();
    await this.#services.close();
  }

  /** Cuts running requests, and lets waiting requests go on as if their hosts were not Services. */
  async destroy(error: Error | null): Promise<void> {
    const released = this.end();
    this.#hosts.close();
    await Promise.all([released, this.#services.destroy(error)]);
  }

  #remember(text: string, service: BalancedService<C>): void {
    // The Service may be closed already, because the request waited for DNS.
    if (this.#closed || service.leaving) return;
    if (this.#routes.size >= MAX_ROUTES) {
      const [oldest] = this.#routes.keys();
      if (oldest !== undefined) this.#routes.delete(oldest);
    }
    this.#routes.set(text, service);
  }

  #forget(service: BalancedService<C>): void {
    this.#hosts.forget(this.#hosts.nameOf(service.origin));
    for (const [text, routed] of this.#routes) if (routed === service) this.#routes.delete(text);
  }
}
