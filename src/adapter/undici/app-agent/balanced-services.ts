import { resolverFrom, type Timer } from '../../../index.js';
import { resolverOf } from '../../http/origin.js';
import { createDispatcher, type ServiceDispatcher } from '../dispatcher.js';
import type { DispatcherOptions } from '../options.js';
import type { ResolvedServiceOptions } from './app-options.js';

/** One Service that is being balanced. */
export interface BalancedService {
  /** Its key in `BalancedServices`. */
  readonly key: string;
  /** The origin of the first request to it; its dispatcher's target. */
  readonly origin: URL;
  readonly dispatcher: ServiceDispatcher;
  /** Requests so far. If the number has not changed since a check, the Service was not used. */
  uses: number;
  /** It is being closed and takes no new request. */
  leaving: boolean;
}

export interface BalancedServicesOwner {
  readonly options: ResolvedServiceOptions;
  /** A dispatcher was created. */
  opened(dispatcher: ServiceDispatcher): void;
  /** A Service that was unused for long is being closed. */
  left(service: BalancedService): void;
}

/** At the maximum, a Service without a request for this long is replaced, in ms. */
const MAKES_WAY_MS = 10_000;

/** The dispatchers of all Services in use: made at first use, closed when idle for long, a bounded number of them. */
export class BalancedServices {
  readonly #owner: BalancedServicesOwner;
  readonly #services = new Map<string, BalancedService>();
  readonly #timers = new Map<BalancedService, Timer>();
  /** Idle ones that are closing. */
  readonly #closing = new Set<Promise<void>>();
  /** How many requests each had at the last check, and when that was. */
  #usesThen = new Map<BalancedService, number>();
  #lookedMs = Number.NEGATIVE_INFINITY;
  /** Services without a request between the last two checks, the most used first. */
  #idle: BalancedService[] = [];
  /** Requests that were not balanced because the maximum was reached. */
  overflow = 0;

  constructor(owner: BalancedServicesOwner) {
    this.#owner = owner;
  }

  /** In the order of their first use. */
  get all(): Iterable<BalancedService> {
    return this.#services.values();
  }

  /**
   * The Service of `key`, with a dispatcher for `origin` if it is new. Undefined if the maximum is reached and all are in use. Throws
   * what the user's options throw, and EVENKEEL_OPTION for invalid ones.
   */
  get(key: string, origin: URL): BalancedService | undefined {
    const existing = this.#services.get(key);
    if (existing !== undefined) return existing;
    if (this.#services.size >= this.#owner.options.maxServices && !this.#makeRoom()) {
      this.overflow++;
      return undefined;
    }
    const dispatcher = createDispatcher(origin.origin, this.#optionsOf(origin));
    const service: BalancedService = { key, origin, dispatcher, uses: 0, leaving: false };
    this.#services.set(key, service);
    this.#watch(service);
    this.#owner.opened(dispatcher);
    return service;
  }

  /** Like a dispatcher's: running requests may finish. */
  async close(): Promise<void> {
    await this.#end((dispatcher) => dispatcher.close());
  }

  /** Like a dispatcher's: running requests are cut. */
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

  /** Checks once per idle timeout, so that requests need not read the clock. */
  #watch(service: BalancedService): void {
    const { clock, idleTimeoutMs } = this.#owner.options;
    const { uses } = service;
    const timer = clock.timer(() => {
      if (service.uses === uses && !isBusy(service)) this.#leave(service);
      else this.#watch(service);
    }, idleTimeoutMs);
    this.#timers.set(service, timer);
  }

  /**
   * Closes an idle Service, the least used first: invented names must not displace Services that are needed. It checks all of them only
   * once in a while, regardless of the number of requests.
   */
  #makeRoom(): boolean {
    const nowMs = this.#owner.options.clock.now();
    if (nowMs - this.#lookedMs >= MAKES_WAY_MS) {
      const then = this.#usesThen;
      this.#idle = [...this.#services.values()].filter((service) => then.get(service) === service.uses);
      this.#idle.sort((a, b) => b.uses - a.uses);
      this.#usesThen = new Map([...this.#services.values()].map((service) => [service, service.uses]));
      this.#lookedMs = nowMs;
    }
    for (let service = this.#idle.pop(); service !== undefined; service = this.#idle.pop()) {
      if (service.leaving || this.#usesThen.get(service) !== service.uses || isBusy(service)) continue;
      this.#timers.get(service)?.cancel();
      this.#leave(service);
      return true;
    }
    return false;
  }

  #leave(service: BalancedService): void {
    service.leaving = true;
    this.#usesThen.delete(service);
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
