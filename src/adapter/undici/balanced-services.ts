import type { Timer } from '../../index.js';
import { resolverFrom } from '../../index.js';
import { resolverOf } from '../http/target.js';
import { createDispatcher, type DispatcherOptions, type ServiceDispatcher } from './dispatcher.js';
import type { ResolvedServiceOptions } from './service-options.js';

/** One Service that is being balanced. */
export interface BalancedService {
  /** What `BalancedServices` knows it by. */
  readonly key: string;
  /** The origin it was first called by; its dispatcher's target. */
  readonly origin: URL;
  readonly dispatcher: ServiceDispatcher;
  /** Set by every request; taken back each time it is looked whether the Service is still wanted. */
  used: boolean;
  /** True once it is being closed: it takes no new request. */
  leaving: boolean;
}

export interface BalancedServicesOwner {
  readonly options: ResolvedServiceOptions;
  /** A dispatcher was made. */
  opened(dispatcher: ServiceDispatcher): void;
  /** A Service was not used for long, and is being closed. */
  left(service: BalancedService): void;
}

/** The dispatchers of all Services in use: made at first use, closed when idle for long, a bounded number of them. */
export class BalancedServices {
  readonly #owner: BalancedServicesOwner;
  readonly #services = new Map<string, BalancedService>();
  readonly #timers = new Map<BalancedService, Timer>();
  /** Idle ones that are closing. */
  readonly #closing = new Set<Promise<void>>();
  /** Requests that were left alone for want of room. */
  overflow = 0;

  constructor(owner: BalancedServicesOwner) {
    this.#owner = owner;
  }

  /** In the order of their first use. */
  get all(): Iterable<BalancedService> {
    return this.#services.values();
  }

  /**
   * The dispatcher of `key`, made for `origin` if there is none. Undefined if there are as many as there may be. Throws
   * what the user's options throw, and EVENKEEL_OPTION for those that do not fit.
   */
  get(key: string, origin: URL): BalancedService | undefined {
    const existing = this.#services.get(key);
    if (existing !== undefined) return existing;
    if (this.#services.size >= this.#owner.options.maxServices) {
      this.overflow++;
      return undefined;
    }
    const dispatcher = createDispatcher(origin.origin, this.#optionsOf(origin));
    const service: BalancedService = { key, origin, dispatcher, used: false, leaving: false };
    this.#services.set(key, service);
    this.#watch(service);
    this.#owner.opened(dispatcher);
    return service;
  }

  /** As a dispatcher's: what runs may finish. */
  async close(): Promise<void> {
    await this.#end((dispatcher) => dispatcher.close());
  }

  /** As a dispatcher's: what runs is cut. */
  async destroy(error: Error | null): Promise<void> {
    await this.#end((dispatcher) => dispatcher.destroy(error));
  }

  async #end(how: (dispatcher: ServiceDispatcher) => Promise<void>): Promise<void> {
    for (const timer of this.#timers.values()) timer.cancel();
    this.#timers.clear();
    for (const service of this.#services.values()) service.leaving = true;
    const ending = [...this.#services.values()].map(({ dispatcher }) => how(dispatcher));
    await Promise.all([...ending, ...this.#closing]);
  }

  #optionsOf(origin: URL): DispatcherOptions {
    const { optionsOf, discovery } = this.#owner.options;
    const options = optionsOf(origin);
    if (discovery === undefined) return options;
    const { resolver = resolverOf(origin) } = options;
    const clusterDomain = options.clusterDomain ?? discovery.dns?.clusterDomain;
    return {
      ...options,
      resolver: typeof resolver === 'string' ? resolverFrom(resolver, discovery) : resolver,
      ...(clusterDomain !== undefined && { clusterDomain }),
    };
  }

  /** Looks once per idle time-out, so that a request need not read the clock. */
  #watch(service: BalancedService): void {
    const { clock, idleTimeoutMs } = this.#owner.options;
    const timer = clock.timer(() => {
      if (!service.used && !isBusy(service)) this.#leave(service);
      else this.#watch(service);
      service.used = false;
    }, idleTimeoutMs);
    this.#timers.set(service, timer);
  }

  #leave(service: BalancedService): void {
    service.leaving = true;
    this.#services.delete(service.key);
    this.#timers.delete(service);
    this.#owner.left(service);
    const closing = service.dispatcher.close().finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
  }
}

/** An upgraded connection or an unread body counts as running, for as long as it is open. */
function isBusy({ dispatcher }: BalancedService): boolean {
  const { waiting, endpoints } = dispatcher.balancer.snapshot();
  return waiting > 0 || endpoints.some(({ inFlight }) => inFlight > 0);
}
