import type { BalancerSnapshot, Clock, Timer } from '../../index.js';

/** The HTTP client that sends the requests of one Service. */
export interface ServiceClient {
  readonly balancer: { snapshot(): BalancerSnapshot };
  /** Accepts no new requests; running ones may finish. */
  close(): Promise<void>;
  /** Accepts no new requests and cuts running ones. */
  destroy(error?: Error | null): unknown;
}

/** One Service of an app that is being balanced. */
export interface BalancedService<C extends ServiceClient> {
  /** The key of this Service in `BalancedServices`. */
  readonly key: string;
  /** The origin of the first request to this Service, which is its client's target. */
  readonly origin: URL;
  readonly client: C;
  /** How many requests this Service has had. If the number stays the same between two checks, the Service was not used. */
  uses: number;
  /** Whether the Service is being closed, and takes no new request. */
  leaving: boolean;
}

export interface BalancedServicesOwner<C extends ServiceClient> {
  readonly clock: Clock;
  readonly idleTimeoutMs: number;
  readonly maxServices: number;
  /** Called when a Service that was unused for long is being closed. */
  left(service: BalancedService<C>): void;
}

/** How long a Service must be without a request, in ms, before a new Service may replace it. */
const MAKES_WAY_MS = 10_000;

/**
 * The clients of all Services in use. A client is created when its Service is first used, and closed when it was idle for long; their
 * number is bounded.
 */
export class BalancedServices<C extends ServiceClient> {
  readonly #owner: BalancedServicesOwner<C>;
  readonly #services = new Map<string, BalancedService<C>>();
  readonly #timers = new Map<BalancedService<C>, Timer>();
  /** Resolve when Services that are being closed, because they were idle, are closed. */
  readonly #closing = new Set<Promise<void>>();
  /** How many requests each Service had had at the last check for idle Services, and when that check was. */
  #usesAtCheck = new Map<BalancedService<C>, number>();
  #checkedMs = Number.NEGATIVE_INFINITY;
  /** The Services without a request between the last two checks, the most used first. */
  #idle: BalancedService<C>[] = [];
  /** How many requests were not balanced because the maximum number of Services was reached. */
  overflow = 0;

  constructor(owner: BalancedServicesOwner<C>) {
    this.#owner = owner;
  }

  /** The balanced Services in the order of their first use. */
  get all(): Iterable<BalancedService<C>> {
    return this.#services.values();
  }

  /**
   * Returns the Service of `key`, with a client for `origin` if the Service is new. Undefined if the maximum number of Services is reached
   * and all are in use. Throws what `open` throws.
   */
  get(key: string, origin: URL, open: () => C): BalancedService<C> | undefined {
    const existing = this.#services.get(key);
    if (existing !== undefined) return existing;
    if (this.#services.size >= this.#owner.maxServices && !this.#makeRoom()) {
      this.overflow++;
      return undefined;
    }
    const service: BalancedService<C> = { key, origin, client: open(), uses: 0, leaving: false };
    this.#services.set(key, service);
    this.#watch(service);
    return service;
  }

  /** Closes all Services, after their running requests have finished. */
  async close(): Promise<void> {
    await this.#end((client) => client.close());
  }

  /** Closes all Services and cuts their running requests. */
  async destroy(error: Error | null): Promise<void> {
    await this.#end((client) => client.destroy(error));
  }

  async #end(how: (client: C) => unknown): Promise<void> {
    for (const timer of this.#timers.values()) timer.cancel();
    this.#timers.clear();
    for (const service of this.#services.values()) service.leaving = true;
    const ending = [...this.#services.values()].map(({ client }) => how(client));
    await Promise.all([...ending, ...this.#closing]);
  }

  /** Checks whether a Service is idle once per idle timeout, so that requests need not read the clock. */
  #watch(service: BalancedService<C>): void {
    const { clock, idleTimeoutMs } = this.#owner;
    const { uses } = service;
    const timer = clock.timer(() => {
      if (service.uses === uses && !isBusy(service)) this.#leave(service);
      else this.#watch(service);
    }, idleTimeoutMs);
    this.#timers.set(service, timer);
  }

  /**
   * Closes an idle Service, the least used one first, because invented names must not displace Services that are needed. Idle Services are
   * looked for only once in a while, however many requests there are. Returns whether a Service was closed.
   */
  #makeRoom(): boolean {
    const nowMs = this.#owner.clock.now();
    if (nowMs - this.#checkedMs >= MAKES_WAY_MS) {
      const usesBefore = this.#usesAtCheck;
      this.#idle = [...this.#services.values()].filter((service) => usesBefore.get(service) === service.uses);
      this.#idle.sort((a, b) => b.uses - a.uses);
      this.#usesAtCheck = new Map([...this.#services.values()].map((service) => [service, service.uses]));
      this.#checkedMs = nowMs;
    }
    for (let service = this.#idle.pop(); service !== undefined; service = this.#idle.pop()) {
      if (service.leaving || this.#usesAtCheck.get(service) !== service.uses || isBusy(service)) continue;
      this.#timers.get(service)?.cancel();
      this.#leave(service);
      return true;
    }
    return false;
  }

  #leave(service: BalancedService<C>): void {
    service.leaving = true;
    this.#usesAtCheck.delete(service);
    this.#services.delete(service.key);
    this.#timers.delete(service);
    this.#owner.left(service);
    const closing = service.client.close().finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
  }
}

/**
 * Whether a Service's client has running requests. An upgraded connection or an unread body counts as running, for as long as it is open.
 */
function isBusy({ client }: BalancedService<ServiceClient>): boolean {
  const { waiting, endpoints } = client.balancer.snapshot();
  return waiting > 0 || endpoints.some(({ inFlight }) => inFlight > 0);
}
