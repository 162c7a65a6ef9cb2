import type { Dispatcher, Pool } from 'undici';
import { type Balancer, type Clock, createBalancer, EvenkeelError, systemClock, systemRng } from '../../index.js';
import { bareHost } from '../http/dial.js';
import type { Hedging } from '../http/hedging.js';
import { socketsAreMocked } from '../http/internals.js';
import { type OriginMatcher, originMatcher, resolverOf, serviceOrigin } from '../http/origin.js';
import { RequestDeadline } from '../http/request-deadline.js';
import { type TermRules, termsOf } from '../http/request-terms.js';
import { closeWhenServed, WaitingRequests } from '../http/waiting.js';
import {
  type AskForReports,
  asError,
  balancingTable,
  checkKeys,
  ownProperties,
  Placements,
  type Propagation,
  pickerOf,
  pickNames,
  poolDefaults,
  resolvePlacingOptions,
  SharedTimers,
  serviceTls,
} from '../kit/index.js';
import { type CallOwner, UndiciCall } from './call.js';
import { checkRuntime } from './check-version.js';
import { EndingDispatcher } from './ending-dispatcher.js';
import { Fallback, mockedConnector } from './fallback.js';
import { asHandlerV2, failAtOnce } from './handler.js';
import { HedgedCall } from './hedged-call.js';
import { coreTakesHandlerV1 } from './internals.js';
import {
  type DispatcherOptions,
  dispatcherOptionNames,
  dispatcherTable,
  undiciConnectionTable,
  type WebSocketOptions,
  webSocketLimits,
} from './options.js';
import { withWatchedBody } from './request-body.js';
import { sayPriority } from './request-headers.js';
import {
  argumentError,
  completedWith,
  isRepeatable,
  type OwnOptions,
  requestOf,
  withoutDispatcher,
  withServername,
} from './request-options.js';
import { type DispatcherStats, PodTransport, statsOf } from './transport.js';

/** An undici Dispatcher that spreads the requests of one Service over its pods. */
export interface ServiceDispatcher extends Dispatcher, AsyncDisposable {
  /** The dispatcher's balancer: `ready()` waits for a pod, `snapshot()` returns the current state. */
  readonly balancer: Balancer<Pool>;
  /** Whether `close` was called. */
  readonly closed: boolean;
  /** Whether `destroy` was called, or everything that ran at `close` has ended. */
  readonly destroyed: boolean;
  /** Connections and requests to the pods, counted when this is read. */
  readonly stats: DispatcherStats;
}

/**
 * Creates a dispatcher for one Service: pass it to `fetch`, `undici.request` or anything else that takes one. It finds the pods, keeps
 * connections to them and picks one for every request. Host header and TLS name stay the Service's. Requests for another origin never reach
 * a pod. Must be closed.
 *
 * @param target `http://name:port` or `https://name:port`. An IP address or `localhost` is one fixed endpoint.
 * @throws EVENKEEL_OPTION for an invalid target or option.
 * @example const orders = createDispatcher('http://orders.shop:8080'); const { body } = await orders.request({ path:
 * '/v1/orders/42', method: 'GET' }); console.log(await body.json()); await orders.close();
 */
export function createDispatcher(target: string | URL, options: DispatcherOptions = {}): ServiceDispatcher {
  checkRuntime('createDispatcher');
  return openDispatcher(target, options);
}

/** Does what `createDispatcher` does, with the type that `createFetch` needs, and without checking the runtime. */
export function openDispatcher(target: string | URL, options: DispatcherOptions): BalancedDispatcher {
  const origin = serviceOrigin('target', target);
  checkKeys('options', options, dispatcherOptionNames);
  return new BalancedDispatcher(origin, options);
}

const forwardedEvents = ['connect', 'disconnect', 'connectionError'] as const;

export class BalancedDispatcher extends EndingDispatcher implements ServiceDispatcher, CallOwner {
  readonly balancer: Balancer<Pool>;
  readonly clock: Clock;
  readonly timers: SharedTimers;
  readonly hedging: Hedging | undefined;
  readonly propagation: Propagation;
  readonly askForReports: AskForReports;
  readonly transport: PodTransport;
  readonly placements: Placements;
  readonly webSocket: WebSocketOptions;
  /** Decides whether an origin is the Service's. */
  readonly matcher: OriginMatcher;
  /** The TLS name that is set on every request over TLS: undici would close the connection for a request with a Host header of its own. */
  readonly #servername: string | undefined;
  readonly #rules: TermRules<Dispatcher.DispatchOptions>;
  readonly #drainTimeoutMs: number;
  readonly #waiting = new WaitingRequests();
  protected readonly fallback: Fallback;
  /** Where requests go while a library mocks sockets, because mocks know the Service and not its pods. */
  readonly #mocked: Fallback;
  #destroyedBy: Error | undefined;

  /** Throws EVENKEEL_OPTION for an invalid option. */
  constructor(origin: URL, options: DispatcherOptions) {
    super();
    const own = ownProperties(options);
    const { tls, clock = systemClock, rng = systemRng } = own;
    const pool = ownProperties(own.pool);
    const settings = dispatcherTable.resolveOwn(own);
    const { fallbackDispatcher, clusterDomain, webSocket } = settings;
    this.#rules = settings;
    this.hedging = settings.hedge;
    this.askForReports = settings.askForReports;
    const drainTimeoutMs = pool?.drainTimeoutMs ?? poolDefaults.drainTimeoutMs;
    this.#drainTimeoutMs = drainTimeoutMs;
    this.clock = clock;
    this.timers = new SharedTimers(clock);
    this.matcher = originMatcher(origin, clusterDomain);
    this.#servername =
      origin.protocol === 'https:'
        ? serviceTls(bareHost(origin), typeof tls === 'object' ? tls : {}).servername
        : undefined;
    this.propagation = settings.propagate;
    this.webSocket = webSocket;
    const leaving = { clock, drainTimeoutMs, webSocket: webSocketLimits(webSocket) };
    const placing = resolvePlacingOptions(webSocket, pool?.drainTimeoutMs);
    this.fallback = new Fallback({ ...leaving, fallbackDispatcher });
    this.transport = new PodTransport(
      {
        ...pickNames(own, undiciConnectionTable.names),
        origin,
        clock,
        rng,
        ...(pool?.connectTimeoutMs !== undefined && { connectTimeoutMs: pool.connectTimeoutMs }),
      },
      (opened) => this.forward(opened, forwardedEvents),
    );
    const balancer = createBalancer({
      picker: pickerOf(own.key),
      ...pickNames(own, balancingTable.names),
      resolver: own.resolver === undefined ? resolverOf(origin) : own.resolver,
      transport: this.transport,
    });
    this.balancer = balancer;
    const connect = mockedConnector(balancer, this.transport.dial);
    this.#mocked = new Fallback({ ...leaving, fallbackDispatcher: undefined, connect });
    this.placements = new Placements({ balancer, clock, rng, options: placing });
  }

  get origin(): string {
    return this.matcher.origin;
  }

  get isClosing(): boolean {
    return this.balancer.snapshot().state === 'closed';
  }

  get destroyedBy(): Error | undefined {
    return this.#destroyedBy;
  }

  get stats(): DispatcherStats {
    return statsOf(this.transport.pools, this.#waiting.count);
  }

  /** Sends a request to a pod. Returns false when the request has to wait for a pod; `drain` is emitted when none waits any longer. */
  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const fault = argumentError(options, handler);
    if (fault !== undefined) return failAtOnce(handler, fault);
    if (this.ending !== undefined)
      return failAtOnce(handler, new EvenkeelError('EVENKEEL_CLOSED', 'the dispatcher is closed'));
    const matcher = this.matcher;
    let own: OwnOptions;
    try {
      own = requestOf(options, handler, matcher);
    } catch (error) {
      return failAtOnce(handler, asError(error));
    }
    // The first comparison suffices for a request to the Service's own origin, which is nearly every request.
    const { origin } = own;
    if (origin && origin !== matcher.origin && !matcher.matches(origin)) return this.fallback.dispatch(own, handler);
    if (this.#servername !== undefined) own = withServername(own, this.#servername);
    if (socketsAreMocked()) return this.#mocked.dispatch(own, handler);
    const { key, priority, ownMs, inheritedMs } = termsOf<Dispatcher.DispatchOptions>(
      own,
      this.#rules,
      this.propagation,
    );
    if (priority !== undefined) sayPriority(own, this.propagation, priority);
    const call = this.#call(own, handler, key);
    call.priority = priority;
    if (ownMs !== undefined || inheritedMs !== undefined) {
      call.deadline = new RequestDeadline(this, ownMs, inheritedMs, call);
    }
    return call.begin();
  }

  /** Adds the origin to requests without one, because interceptors such as caches need it. */
  override compose(...args: Interceptor[] | [Interceptor[]]): Dispatcher.ComposedDispatcher {
    const interceptors = (Array.isArray(args[0]) ? args[0] : args) as Interceptor[];
    return super.compose([...interceptors, completedWith(this.origin)]);
  }

  protected override finish(): Promise<void> {
    this.placements.close();
    const { balancer, clock } = this;
    return this.#end(
      closeWhenServed({ balancer, waiting: this.#waiting, clock, drainTimeoutMs: this.#drainTimeoutMs }),
    );
  }

  protected override cut(error: Error | null): Promise<void> {
    this.#destroyedBy ??= error ?? undefined;
    const cut = new AbortController();
    const ended = this.#end(this.balancer.close({ signal: cut.signal }));
    // The signal aborts only now, because a balancer that is already closing listens to it.
    cut.abort();
    this.fallback.destroy(error);
    this.#mocked.destroy(error);
    return ended;
  }

  waits(): void {
    this.#waiting.add();
  }

  served(): void {
    if (this.#waiting.remove()) this.emitDrain(new URL(this.origin));
  }

  #call(
    options: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
    key?: string,
  ): UndiciCall | HedgedCall {
    const own = coreTakesHandlerV1 ? options : withoutDispatcher(options);
    if (this.hedging !== undefined && isRepeatable(own, this.balancer.retries)) {
      return new HedgedCall(this, withoutDispatcher(own), key, asHandlerV2(handler));
    }
    return new UndiciCall(this, own.body == null ? own : withWatchedBody(own), key, handler);
  }

  async #end(balancer: Promise<void>): Promise<void> {
    await Promise.all([balancer, this.fallback.close(), this.#mocked.close()]);
    this.timers.close();
  }
}

type Interceptor = Dispatcher.DispatcherComposeInterceptor;
