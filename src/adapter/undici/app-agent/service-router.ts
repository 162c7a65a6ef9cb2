import type { Dispatcher, Pool } from 'undici';
import type { Balancer, BalancerSnapshot } from '../../../index.js';
import { socketsAreMocked } from '../../http/mocked-sockets.js';
import { asError, type ServiceHostSnapshot, ServiceHosts } from '../../kit/index.js';
import type { ServiceDispatcher } from '../dispatcher.js';
import { asHandlerV2, refuse } from '../handler.js';
import { withHost } from '../request-headers.js';
import { faultOf, type OwnOptions, ownOptions, resolvePath, withOneLength } from '../request-options.js';
import type { DispatcherStats } from '../transport.js';
import { refusalOf } from '../unsent-request.js';
import type { ResolvedServiceOptions } from './app-options.js';
import { type BalancedService, BalancedServices } from './balanced-services.js';
import { type Onward, PendingRequest } from './pending-request.js';

/** The state of an agent: plain JSON, created on demand. */
export interface AppAgentSnapshot {
  /** Services being balanced. */
  readonly services: readonly BalancedServiceSnapshot[];
  /** Hosts that DNS was asked about, including those that are not Services. */
  readonly hosts: readonly ServiceHostSnapshot[];
  /** Requests that wait until it is known whether their host is a Service. */
  readonly pending: number;
  /** Requests to Services that were not balanced because `maxServices` was reached. */
  readonly overflow: number;
}

export interface BalancedServiceSnapshot {
  /** The origin of the first request to it. */
  readonly origin: string;
  /** Its absolute name. */
  readonly name: string;
  readonly balancer: BalancerSnapshot;
}

export interface ServiceRouterOwner {
  /** A Service's dispatcher was created. */
  opened(dispatcher: ServiceDispatcher): void;
  /** A request that may become a WebSocket goes to the Service of `dispatcher`. */
  upgrading(handler: Dispatcher.DispatchHandler, dispatcher: ServiceDispatcher): Dispatcher.DispatchHandler;
  /** No request is waiting any longer; the last one was for `origin`. */
  drained(origin: URL): void;
}

/** Where requests for an origin go, determined once per spelling. */
interface Route {
  readonly service: BalancedService;
  /** The origin of the dispatcher, if it is spelled differently. */
  readonly origin: string | undefined;
  /** The Host header, if the dispatcher would send another. */
  readonly host: string | undefined;
}

/** How many spellings of origins are remembered; the oldest is forgotten first. */
const MAX_ROUTES = 2_000;
/** How many requests may wait until it is known where they go; further ones are not balanced. */
const MAX_PENDING = 20_000;
const SLASH = 47;

/** Routes requests for Services to their dispatchers, and passes all others on. After `close` everything is passed on. */
export class ServiceRouter {
  readonly #owner: ServiceRouterOwner;
  readonly #hosts: ServiceHosts;
  readonly #services: BalancedServices;
  readonly #routes = new Map<string, Route>();
  /** Whether only DNS decides which hosts are Services. */
  readonly #asksDns: boolean;
  #pending = 0;
  /** Called when no request is waiting any longer. */
  readonly #waitsForRelease = new Set<() => void>();
  #closed = false;
  #destroyed = false;

  constructor(options: ResolvedServiceOptions, owner: ServiceRouterOwner) {
    this.#owner = owner;
    this.#asksDns = options.services === undefined;
    this.#hosts = new ServiceHosts({ ...options, dns: options.discovery?.dns });
    this.#services = new BalancedServices({
      options,
      opened: (dispatcher) => owner.opened(dispatcher),
      left: (service) => this.#forget(service),
    });
  }

  get balancers(): ReadonlyMap<string, Balancer<Pool>> {
    return new Map([...this.#services.all].map(({ origin, dispatcher }) => [origin.origin, dispatcher.balancer]));
  }

  /** False when the request waits: for its pod, or until it is known where it goes. */
  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler, onward: Onward): boolean {
    const fault = faultOf(options, handler);
    if (fault !== undefined) return refuse(handler, fault);
    const { origin, path } = options;
    // The common case: a request with a plain path to a known Service.
    if (typeof origin === 'string' && typeof path === 'string' && path.charCodeAt(0) === SLASH) {
      const route = this.#routes.get(origin);
      if (route !== undefined) return this.#send(route, options, handler);
    }
    const own = options.body == null || typeof handler.onRequestStart === 'function' ? options : withOneLength(options);
    const resolved = attempt(() => resolvePath(own));
    if (resolved instanceof Error) return refuse(handler, resolved);
    const url = httpOrigin(resolved.origin);
    if (url === undefined || this.#closed) return onward(resolved, handler);
    const verdict = attempt(() => this.#hosts.judge(url));
    if (verdict instanceof Error) return refuse(handler, verdict);
    if (verdict === false) return onward(resolved, handler);
    if (verdict === true) return this.#balance(url, resolved, handler, onward);
    // DNS is queried in any case, for later requests. A mock only needs the name, which DNS need not know.
    if (this.#pending >= MAX_PENDING || (this.#asksDns && socketsAreMocked())) return onward(resolved, handler);
    const copy = attempt(() => ownOptions(resolved));
    const refusal = copy instanceof Error ? copy : refusalOf(copy);
    if (refusal !== undefined) return refuse(handler, refusal);
    this.#await(url, verdict, copy as OwnOptions, handler, onward);
    return false;
  }

  /** By the origin each Service was first called by. */
  get stats(): Readonly<Record<string, DispatcherStats>> {
    return Object.fromEntries(
      [...this.#services.all].map(({ origin, dispatcher }) => [origin.origin, dispatcher.stats]),
    );
  }

  snapshot(): AppAgentSnapshot {
    return {
      services: [...this.#services.all].map(({ origin, dispatcher }) => ({
        origin: origin.origin,
        name: this.#hosts.nameOf(origin),
        balancer: dispatcher.balancer.snapshot(),
      })),
      hosts: this.#hosts.snapshot(),
      pending: this.#pending,
      overflow: this.#services.overflow,
    };
  }

  /**
   * Passes new requests on. Resolves when waiting requests have been routed; undefined if there are none.
   */
  released(): Promise<void> | undefined {
    this.#closed = true;
    this.#routes.clear();
    if (this.#pending === 0) return undefined;
    return new Promise((resolve) => {
      this.#waitsForRelease.add(resolve);
    });
  }

  /** The same, and then lets running requests finish. */
  async close(): Promise<void> {
    const released = this.released();
    if (released !== undefined) await released;
    this.#hosts.close();
    await this.#services.close();
  }

  /** Cuts running requests, and passes waiting ones on. */
  async destroy(error: Error | null): Promise<void> {
    this.#destroyed = true;
    const released = this.released();
    // For waiting requests the host then counts as no Service.
    this.#hosts.close();
    await Promise.all([released, this.#services.destroy(error)]);
  }

  #balance(
    url: URL,
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
    onward: Onward,
  ): boolean {
    const service = attempt(() => this.#services.get(this.#keyOf(url), url));
    if (service instanceof Error) return refuse(handler, service);
    if (service === undefined) return onward(options, handler);
    const text = String(options.origin);
    const same = url.host === service.origin.host;
    const route: Route = {
      service,
      origin: text === service.origin.origin ? undefined : service.origin.origin,
      host: same ? undefined : url.host,
    };
    // A request that was waiting may arrive after the router was closed.
    if (!this.#closed) this.#remember(text, route);
    return this.#send(route, options, handler);
  }

  #send(route: Route, options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const { dispatcher } = route.service;
    return send(route, options, options.upgrade ? this.#owner.upgrading(handler, dispatcher) : handler);
  }

  #remember(text: string, route: Route): void {
    if (this.#routes.size >= MAX_ROUTES) {
      const [oldest] = this.#routes.keys();
      if (oldest !== undefined) this.#routes.delete(oldest);
    }
    this.#routes.set(text, route);
  }

  /**
   * All spellings of a Service are one, with each scheme and port. Over TLS each spelling is one of its own: the name
   * that is sent and checked in the certificate is the one that was written.
   */
  #keyOf(url: URL): string {
    const { protocol, hostname, port } = url;
    const written = protocol === 'https:' ? hostname.replace(/\.$/, '') : '';
    return `${protocol}${written}/${this.#hosts.nameOf(url)}:${port}`;
  }

  #await(
    url: URL,
    verdict: Promise<boolean>,
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
    onward: Onward,
  ): void {
    const request = new PendingRequest(url.origin, options, asHandlerV2(handler), () => {
      this.#pending--;
      if (this.#pending > 0) return;
      for (const told of this.#waitsForRelease) told();
      this.#waitsForRelease.clear();
      this.#owner.drained(url);
    });
    this.#pending++;
    void verdict.then((isService) => {
      const balanced = isService && !this.#destroyed;
      request.release(balanced ? (own, relay) => this.#balance(url, own, relay, onward) : onward);
    });
    request.begin();
  }

  #forget(service: BalancedService): void {
    this.#hosts.forget(this.#hosts.nameOf(service.origin));
    for (const [text, route] of this.#routes) if (route.service === service) this.#routes.delete(text);
  }
}

function send(route: Route, options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
  const { service, origin, host } = route;
  service.uses++;
  if (origin === undefined) return service.dispatcher.dispatch(options, handler);
  const own = { ...options, origin };
  return service.dispatcher.dispatch(host === undefined ? own : withHost(own, host), handler);
}

/** Errors of the user's functions are errors of the request. */
function attempt<T>(work: () => T): T | Error {
  try {
    return work();
  } catch (error) {
    return asError(error);
  }
}

/** Undefined unless it is an http or https origin. */
function httpOrigin(origin: string | URL | undefined): URL | undefined {
  if (origin === undefined) return undefined;
  const text = String(origin);
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  return url.protocol === 'http:' || url.protocol === 'https:' ? url : undefined;
}
