import type { Dispatcher, Pool } from 'undici';
import { type Balancer, EvenkeelError } from '../../../index.js';
import { appTable, type ResolvedAppOptions } from '../../http/app-options.js';
import type { AppSnapshot } from '../../http/app-services.js';
import { ownProperties, pickNames, poolDefaults } from '../../kit/index.js';
import { checkRuntime } from '../check-version.js';
import { bindMethods, EndingDispatcher } from '../ending-dispatcher.js';
import { Fallback } from '../fallback.js';
import { failAtOnce } from '../handler.js';
import { type WebSocketLimits, webSocketLimits } from '../options.js';
import {
  type AppAgentOptions,
  type AppInterceptorOptions,
  appAgentTable,
  resolveServiceOptions,
  type ServiceOptions,
} from './app-options.js';
import { ServiceRouter } from './service-router.js';

/** An undici Dispatcher for a whole app: requests to Services are balanced, all others are left alone. */
export interface AppAgent extends Dispatcher, AsyncDisposable {
  /** The balancers of the Services in use, by the origin with which each Service was first called. */
  readonly balancers: ReadonlyMap<string, Balancer<Pool>>;
  /** Which Services are balanced, which hosts are not, and why. */
  snapshot(): AppSnapshot;
  /** Whether `close` was called. */
  readonly closed: boolean;
  /** Whether `destroy` was called, or everything that ran at `close` has ended. */
  readonly destroyed: boolean;
  /** Connections and requests by origin, counted when this is read; those of `fallbackDispatcher` are not included. */
  readonly stats: Readonly<Record<string, unknown>>;
}

/**
 * Creates a dispatcher for a whole app. A host that is a Kubernetes Service gets a balanced dispatcher when it is first used; requests for
 * every other host go to a plain Agent. DNS decides which hosts are Services, once per host, or the option `services` does. Redirects are
 * routed like any request. The dispatcher should be closed; while idle, it lets the process exit.
 *
 * @throws EVENKEEL_OPTION for an invalid option.
 * @example setGlobalDispatcher(createAppAgent()); await fetch('http://orders.shop:8080/v1/orders/42'); // one of the pods
 * await fetch('https://example.com/'); // unchanged
 */
export function createAppAgent(options: AppAgentOptions = {}): AppAgent {
  checkRuntime('createAppAgent');
  const own = ownProperties(options);
  const { fallbackDispatcher, webSocket } = appAgentTable.resolve(own);
  const serviceOptions = resolveServiceOptions(pickNames(own, appTable.names));
  const limits = webSocketLimits(webSocket);
  const optionsOf: typeof serviceOptions.optionsOf = (origin) => ({
    ...(webSocket && { webSocket }),
    ...serviceOptions.optionsOf(origin),
  });
  return new RoutingAgent({ ...serviceOptions, optionsOf }, fallbackDispatcher, limits);
}

/** An interceptor for `compose` that can be inspected and closed. */
export interface AppInterceptor extends AsyncDisposable {
  (dispatch: Dispatcher.Dispatch): Dispatcher.Dispatch;
  /** The balancers of the Services in use, by the origin with which each Service was first called. */
  readonly balancers: ReadonlyMap<string, Balancer<Pool>>;
  /** Which Services are balanced, which hosts are not, and why. */
  snapshot(): AppSnapshot;
  /** Lets running requests to Services finish, then closes their connections. Later requests pass to the wrapped dispatcher. */
  close(): Promise<void>;
  /** Cuts running requests to Services. Later requests pass to the wrapped dispatcher. */
  destroy(error?: Error | null): Promise<void>;
}

/**
 * Does what `createAppAgent` does, as an interceptor for an existing Agent: requests to Services go to their pods, everything else passes
 * to the wrapped dispatcher. Compose it first, so that other interceptors see the requests to both. One interceptor may be composed with
 * several dispatchers, which then share its Services.
 *
 * @throws EVENKEEL_OPTION for an invalid option.
 * @example
 * const services = appInterceptor();
 * const agent = new Agent({ keepAliveTimeout: 10_000 }).compose(services, interceptors.retry());
 * await services.close();
 */
export function appInterceptor(options: AppInterceptorOptions = {}): AppInterceptor {
  checkRuntime('appInterceptor');
  return interceptorWith(resolveServiceOptions(options));
}

/** Creates the interceptor of `appInterceptor` for options that are checked. */
export function interceptorWith(options: ResolvedAppOptions<ServiceOptions>): AppInterceptor {
  const router = new ServiceRouter(options, {
    opened: () => {},
    drained: () => {},
    upgrading: (handler) => handler,
  });
  const intercept = (dispatch: Dispatcher.Dispatch): Dispatcher.Dispatch => {
    // undici insists that an interceptor returns a function of two arguments.
    return (own, handler) => router.dispatch(own, handler, dispatch);
  };
  return Object.defineProperties(intercept, {
    balancers: { get: () => router.services.balancers },
    snapshot: { value: () => router.services.snapshot() },
    close: { value: () => router.services.close() },
    destroy: { value: (error?: Error | null) => router.destroy(error ?? null) },
    [Symbol.asyncDispose]: { value: () => router.services.close() },
  }) as AppInterceptor;
}

const forwardedEvents = ['connect', 'disconnect', 'connectionError', 'drain'] as const;

class RoutingAgent extends EndingDispatcher implements AppAgent {
  readonly #router: ServiceRouter;
  protected readonly fallback: Fallback;
  readonly #onward: Fallback['dispatch'];

  constructor(
    options: ResolvedAppOptions<ServiceOptions>,
    fallbackDispatcher: Dispatcher | undefined,
    webSocket: WebSocketLimits,
  ) {
    super();
    bindMethods(this, ['snapshot']);
    this.fallback = new Fallback({
      fallbackDispatcher,
      webSocket,
      clock: options.clock,
      drainTimeoutMs: poolDefaults.drainTimeoutMs,
      opened: (agent) => this.forward(agent, forwardedEvents),
    });
    this.#onward = (own, handler) => this.fallback.dispatch(own, handler);
    this.#router = new ServiceRouter(options, {
      opened: (dispatcher) => this.forward(dispatcher, forwardedEvents),
      drained: (origin) => this.emitDrain(origin),
      upgrading: (handler, dispatcher) => this.fallback.watched(handler, dispatcher) as Dispatcher.DispatchHandler,
    });
  }

  get balancers(): ReadonlyMap<string, Balancer<Pool>> {
    return this.#router.services.balancers;
  }

  get stats(): Readonly<Record<string, unknown>> {
    return { ...this.fallback.stats, ...this.#router.stats };
  }

  snapshot(): AppSnapshot {
    return this.#router.services.snapshot();
  }

  /**
   * Dispatches a request. Returns false when the request has to wait for a pod, or for DNS to say whether its host is a Service; `drain`
   * follows.
   */
  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    if (this.ending === undefined) return this.#router.dispatch(options, handler, this.#onward);
    return failAtOnce(handler, new EvenkeelError('EVENKEEL_CLOSED', 'the agent is closed'));
  }

  protected override async finish(): Promise<void> {
    const released = this.#router.services.end();
    // Waiting requests are routed before anything closes, because they may go to a Service or to the fallback.
    if (released !== undefined) await released;
    await Promise.all([this.#router.services.close(), this.fallback.close()]);
  }

  protected override async cut(error: Error | null): Promise<void> {
    // Requests that still wait to learn whether their host is a Service are passed on to the fallback dispatcher when the router is
    // destroyed. The fallback is destroyed first, so that it refuses them instead of sending them.
    this.fallback.destroy(error);
    await Promise.all([this.#router.destroy(error), this.fallback.close()]);
  }
}
