import { Agent, type buildConnector, type Dispatcher, Pool } from 'undici';
import { type Balancer, type Clock, EvenkeelError } from '../../index.js';
import type { DialOptions } from '../http/dial.js';
import { MockedDial } from '../http/mocked-dial.js';
import { afterPendingIo } from '../kit/index.js';
import { asHandlerV2, failAtOnce, type HandlerV2, tellFailed, withRawHeaders } from './handler.js';
import { isMockActive } from './internals.js';
import { type WebSocketLimits, webSocketLimits } from './options.js';
import { withoutDispatcher } from './request-options.js';

/** Options of `Fallback`. */
export interface FallbackOptions {
  /** The application's dispatcher for other origins, which evenkeel never closes. */
  readonly fallbackDispatcher: Dispatcher | undefined;
  readonly clock: Clock;
  /** How long running requests to other origins may take to finish at `close`, in ms. */
  readonly drainTimeoutMs: number;
  /** The limits of WebSockets to Services. */
  readonly webSocket: WebSocketLimits;
  /** How the Agent opens sockets. @defaultValue as undici does */
  readonly connect?: buildConnector.connector | undefined;
  /** Called with the Agent when it is created. */
  readonly opened?: ((agent: Agent) => void) | undefined;
}

/** Options of undici's EventSource. */
export interface EventSourceOptions {
  readonly maxEventSize?: number | undefined;
}

/** The number of pools in the Agent from which on closed pools are dropped. */
const SWEEP_AT = 64;

/**
 * Sends requests for other origins: to the application's `fallbackDispatcher`, or to an Agent that is created on first use. It also has
 * what undici's `fetch`, EventSource and WebSocket read from a dispatcher.
 */
export class Fallback {
  readonly #options: FallbackOptions;
  #agent: Agent | undefined;
  /** The pools of the Agent. A closed Agent forgets its pools, so it could not cut them. */
  readonly #pools = new Set<Pool>();
  #sweepAt = SWEEP_AT;
  /** The limits of the WebSockets that open in this turn of the event loop. */
  #opening: WebSocketLimits | undefined;
  #closed = false;
  #destroyedBy: Error | undefined;

  constructor(options: FallbackOptions) {
    this.#options = options;
  }

  /** Whether a mock answers in place of other hosts. undici's `fetch` then passes bodies on unchanged, so that the mock can match them. */
  get isMockActive(): boolean {
    return isMockActive(this.#options.fallbackDispatcher);
  }

  /** The EventSource options of the application's dispatcher; undefined means undici's defaults. */
  get eventSourceOptions(): EventSourceOptions | undefined {
    const { fallbackDispatcher } = this.#options;
    return (fallbackDispatcher as { readonly eventSourceOptions?: EventSourceOptions } | undefined)?.eventSourceOptions;
  }

  /**
   * The limits of a WebSocket. undici's WebSocket reads them when it opens, in the turn in which its upgrade was answered, and does not say
   * where it goes. So they are the limits of the connection that was upgraded in this turn; of several, the smallest.
   */
  get webSocketOptions(): WebSocketLimits {
    return this.#opening ?? this.#options.webSocket;
  }

  /** The Agent's connections and requests, by origin; empty if the application passed a dispatcher. */
  get stats(): Readonly<Record<string, unknown>> {
    return this.#agent?.stats ?? {};
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    if (this.#closed) {
      // This request was still waiting for its destination when the fallback was destroyed.
      const closed = new EvenkeelError('EVENKEEL_CLOSED', 'the dispatcher is closed');
      return failAtOnce(handler, this.#destroyedBy ?? closed);
    }
    const { fallbackDispatcher } = this.#options;
    const target = fallbackDispatcher ?? this.#ownAgent();
    // The handler is converted to the newer form, which undici 7 and 8 both take; the dispatcher may come from either.
    const newerHandler =
      fallbackDispatcher !== undefined && options.upgrade ? this.watched(handler, target) : asHandlerV2(handler);
    return target.dispatch(withoutDispatcher(options), newerHandler as Dispatcher.DispatchHandler);
  }

  /** Wraps the handler of a request that may become a WebSocket, so that the limits of `target` apply to it. */
  watched(handler: Dispatcher.DispatchHandler, target: Dispatcher): HandlerV2 {
    return tellingUpgrade(asHandlerV2(handler), () => this.#opens(webSocketLimitsOf(target)));
  }

  /** Lets running requests finish within the drain timeout. Never rejects. */
  async close(): Promise<void> {
    this.#closed = true;
    const agent = this.#agent;
    if (agent === undefined || agent.destroyed) return;
    const { clock, drainTimeoutMs } = this.#options;
    const timer = Number.isFinite(drainTimeoutMs) ? clock.timer(() => this.destroy(null), drainTimeoutMs) : undefined;
    // The Agent's `close` rejects only if the Agent was destroyed meanwhile, which was intended.
    await agent.close().catch(() => {});
    timer?.cancel();
  }

  destroy(error: Error | null): void {
    this.#closed = true;
    this.#destroyedBy ??= error ?? undefined;
    void this.#agent?.destroy(error);
    for (const pool of this.#pools) void pool.destroy(error);
  }

  #opens(limits: WebSocketLimits): void {
    const before = this.#opening;
    this.#opening = before === undefined ? limits : smaller(before, limits);
    if (before !== undefined) return;
    afterPendingIo(() => {
      this.#opening = undefined;
    });
  }

  #ownAgent(): Agent {
    if (this.#agent === undefined) {
      const { connect } = this.#options;
      const factory = (origin: string | URL, options: object): Pool => this.#open(origin, options);
      this.#agent = new Agent({ factory, ...(connect && { connect }) });
      this.#options.opened?.(this.#agent);
    }
    return this.#agent;
  }

  #open(origin: string | URL, options: object): Pool {
    if (this.#pools.size >= this.#sweepAt) {
      for (const pool of this.#pools) if (pool.destroyed) this.#pools.delete(pool);
      this.#sweepAt = Math.max(SWEEP_AT, 2 * this.#pools.size);
    }
    const pool = new Pool(origin, options);
    this.#pools.add(pool);
    return pool;
  }
}

/** Wraps a handler so that `upgraded` is called before the handler learns of its upgrade. */
function tellingUpgrade(handler: HandlerV2, upgraded: () => void): HandlerV2 {
  return {
    onRequestStart: (controller, context) => handler.onRequestStart(controller, context),
    onRequestUpgrade: (controller, status, headers, socket) => {
      upgraded();
      handler.onRequestUpgrade?.(controller, status, headers, socket);
    },
    onResponseStarted: () => handler.onResponseStarted?.(),
    onResponseStart: (controller, status, headers, statusText) => {
      withRawHeaders(controller, headers);
      handler.onResponseStart?.(controller, status, headers, statusText);
    },
    onResponseData: (controller, chunk) => handler.onResponseData?.(controller, chunk),
    onResponseEnd: (controller, trailers) => handler.onResponseEnd?.(controller, trailers),
    onResponseError: (controller, error) => tellFailed(handler, controller, error),
    onBodySent: (chunk) => handler.onBodySent?.(chunk),
    onRequestSent: () => handler.onRequestSent?.(),
  };
}

function smaller(some: WebSocketLimits, others: WebSocketLimits): WebSocketLimits {
  return {
    maxPayloadSize: smallerLimit(some.maxPayloadSize, others.maxPayloadSize),
    maxFragments: smallerLimit(some.maxFragments, others.maxFragments),
  };
}

/** The smaller of two limits, where 0 means no limit. */
function smallerLimit(one: number, other: number): number {
  return one === 0 || other === 0 ? Math.max(one, other) : Math.min(one, other);
}

/** The WebSocket limits of a dispatcher; undici's defaults if it has none. */
function webSocketLimitsOf(dispatcher: Dispatcher): WebSocketLimits {
  const { webSocketOptions } = dispatcher as { readonly webSocketOptions?: Partial<WebSocketLimits> };
  return { ...webSocketLimits(undefined), ...webSocketOptions };
}

/** Opens the sockets of an Agent that takes requests while sockets are mocked: the mock sees connections to the Service. */
export function mockedConnector(balancer: Balancer<unknown>, options: DialOptions): buildConnector.connector {
  const dial = new MockedDial(balancer, options);
  return ({ hostname, port, protocol }, supplied) => {
    const target = { host: hostname, port: Number(port || (protocol === 'https:' ? 443 : 80)) };
    dial.connect(target, (error, socket) => {
      if (error === undefined) supplied(null, socket);
      else supplied(error, null);
    });
  };
}
