import type { Dispatcher } from 'undici';
import type { ResolvedAppOptions } from '../../http/app-options.js';
import { AppServices } from '../../http/app-services.js';
import type { BalancedService } from '../../http/balanced-services.js';
import { asError, ownProperties } from '../../kit/index.js';
import { createDispatcher, type ServiceDispatcher } from '../dispatcher.js';
import { asHandlerV2, failAtOnce } from '../handler.js';
import { withHost } from '../request-headers.js';
import { argumentError, type OwnOptions, ownOptions, resolvePath, withOneLength } from '../request-options.js';
import type { DispatcherStats } from '../transport.js';
import { validationError } from '../unsent-request.js';
import type { ServiceOptions } from './app-options.js';
import { type Onward, PendingRequest } from './pending-request.js';

export interface ServiceRouterOwner {
  /** Called when the dispatcher of a Service was created. */
  opened(dispatcher: ServiceDispatcher): void;
  /** Wraps the handler of a request that may become a WebSocket to the Service of `dispatcher`. */
  upgrading(handler: Dispatcher.DispatchHandler, dispatcher: ServiceDispatcher): Dispatcher.DispatchHandler;
  /** Called when no request waits any longer to be routed; the last one was for `origin`. */
  drained(origin: URL): void;
}

const SLASH = 47;

/** Routes requests for Services to the Services' dispatchers, and passes all others on. After `close` all requests are passed on. */
export class ServiceRouter {
  readonly #owner: ServiceRouterOwner;
  readonly #optionsOf: (origin: URL) => ServiceOptions;
  readonly services: AppServices<ServiceDispatcher>;
  #destroyed = false;

  constructor(options: ResolvedAppOptions<ServiceOptions>, owner: ServiceRouterOwner) {
    this.#owner = owner;
    this.#optionsOf = options.optionsOf;
    this.services = new AppServices(options);
  }

  /** Routes a request. Returns false when the request has to wait for a pod, or for DNS to say whether its host is a Service. */
  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler, onward: Onward): boolean {
    const fault = argumentError(options, handler);
    if (fault !== undefined) return failAtOnce(handler, fault);
    const { origin, path } = options;
    // This is the common case: a request with a plain path to a known Service.
    if (typeof origin === 'string' && typeof path === 'string' && path.charCodeAt(0) === SLASH) {
      const service = this.services.known(origin);
      if (service !== undefined) return this.#send(service, options, handler);
    }
    const repaired =
      options.body == null || typeof handler.onRequestStart === 'function' ? options : withOneLength(options);
    const resolved = attempt(() => resolvePath(repaired));
    if (resolved instanceof Error) return failAtOnce(handler, resolved);
    const url = httpOrigin(resolved.origin);
    if (url === undefined) return onward(resolved, handler);
    const verdict = attempt(() => this.services.isService(url));
    if (verdict instanceof Error) return failAtOnce(handler, verdict);
    if (verdict === false) return onward(resolved, handler);
    if (verdict === true) return this.#balance(url, resolved, handler, onward);
    const copy = attempt(() => ownOptions(resolved));
    const refusal = copy instanceof Error ? copy : validationError(copy);
    if (refusal !== undefined) return failAtOnce(handler, refusal);
    this.#await(url, verdict, copy as OwnOptions, handler, onward);
    return false;
  }

  /** The connections and requests of each Service, by the origin with which the Service was first called. */
  get stats(): Readonly<Record<string, DispatcherStats>> {
    return Object.fromEntries([...this.services.all].map(({ origin, client }) => [origin.origin, client.stats]));
  }

  /** Cuts running requests to Services, and passes waiting ones on to the fallback. */
  destroy(error: Error | null): Promise<void> {
    this.#destroyed = true;
    return this.services.destroy(error);
  }

  #balance(
    url: URL,
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
    onward: Onward,
  ): boolean {
    const service = attempt(() => this.services.get(String(options.origin), url, () => this.#open(url)));
    if (service instanceof Error) return failAtOnce(handler, service);
    if (service === undefined) return onward(options, handler);
    return this.#send(service, options, handler);
  }

  #open(origin: URL): ServiceDispatcher {
    const options = ownProperties(this.#optionsOf(origin));
    // HTTP/2 in the clear is off unless an option asks for it: an unchanged app keeps the protocol it has always used.
    const dispatcher = createDispatcher(origin.origin, { ...options, useH2c: options.useH2c ?? false });
    this.#owner.opened(dispatcher);
    return dispatcher;
  }

  #send(
    service: BalancedService<ServiceDispatcher>,
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
  ): boolean {
    const { client } = service;
    return send(service, options, options.upgrade ? this.#owner.upgrading(handler, client) : handler);
  }

  #await(
    url: URL,
    verdict: Promise<boolean>,
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
    onward: Onward,
  ): void {
    const request = new PendingRequest(url.origin, options, asHandlerV2(handler), () => {
      if (this.services.released()) this.#owner.drained(url);
    });
    this.services.waits();
    void verdict.then((isService) => {
      const balanced = isService && !this.#destroyed;
      request.release(balanced ? (own, relay) => this.#balance(url, own, relay, onward) : onward);
    });
    request.begin();
  }
}

/**
 * Sends a request under the origin of the Service's dispatcher, which may be spelled differently; the Host header stays the request's own.
 */
function send(
  service: BalancedService<ServiceDispatcher>,
  options: Dispatcher.DispatchOptions,
  handler: Dispatcher.DispatchHandler,
): boolean {
  const { origin, client } = service;
  service.uses++;
  const text = String(options.origin);
  if (text === origin.origin) return client.dispatch(options, handler);
  const serviceRequest = { ...options, origin: origin.origin };
  const { host } = new URL(text);
  return client.dispatch(host === origin.host ? serviceRequest : withHost(serviceRequest, host), handler);
}

/** Calls a function of the application, and returns its error, which becomes the error of the request. */
function attempt<T>(work: () => T): T | Error {
  try {
    return work();
  } catch (error) {
    return asError(error);
  }
}

/** The URL of an origin; undefined unless the origin is http or https. */
function httpOrigin(origin: string | URL | undefined): URL | undefined {
  if (origin === undefined) return undefined;
  const text = String(origin);
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  return url.protocol === 'http:' || url.protocol === 'https:' ? url : undefined;
}
