import { Agent, type buildConnector, type Dispatcher, Pool } from 'undici';
import { type Balancer, type Clock, EvenkeelError } from '../../index.js';
import type { DialOptions } from '../http/dial.js';
import { MockedDial } from '../http/mocked-dial.js';
import { afterPendingIo } from '../kit/index.js';
import { asHandlerV2, type HandlerV2, refuse, tellFailed, withRawHeaders } from './handler.js';
import { isMockActive } from './internals.js';
import { type WebSocketLimits, webSocketLimits } from './options.js';
import { withoutDispatcher } from './request-options.js';

/** Options of `Fallback`. */
export interface FallbackOptions {
  /** The user's dispatcher, which this never closes. */
  readonly fallbackDispatcher: Dispatcher | undefined;
  readonly clock: Clock;
  /** How long requests of our own Agent may take to finish at `close`, in ms. */
  readonly drainTimeoutMs: number;
  /** The limits of WebSockets to Services. */
  readonly webSocket: WebSocketLimits;
  /** How our own Agent opens sockets. @defaultValue as undici does */
  readonly connect?: buildConnector.connector | undefined;
  /** Called with our own Agent, if one is created. */
  readonly opened?: ((agent: Agent) => void) | undefined;
}

/** Options of undici's EventSource. */
export interface EventSourceOptions {
  readonly maxEventSize?: number | undefined;
}

/** When our Agent has this many pools, closed ones are dropped. */
const SWEEP_AT = 64;

/**
 * Where requests for other origins go: the dispatcher that was passed, or our own Agent, created on first use. It also knows what
 * undici's `fetch`, EventSource and WebSocket read of the dispatcher in front.
 */
export class Fallback {
  readonly #options: FallbackOptions;
  #agent: Agent | undefined;
  /** The pools of our Agent. It forgets them when it is closed, and could then not cut them. */
  readonly #pools = new Set<Pool>();
  #sweepAt = SWEEP_AT;
  /** The limits of WebSockets that open in this turn. */
  #opening: WebSocketLimits | undefined;
  #closed = false;
  #destroyedBy: Error | undefined;

  constructor(options: FallbackOptions) {
    this.#options = options;
  }

  /**
   * Whether a mock answers. undici's `fetch` then passes bodies on unchanged, so that the mock can match them.
   */
  get isMockActive(): boolean {
    return isMockActive(this.#options.fallbackDispatcher);
  }

  /** The fallback's options for EventSources; undefined = undici's defaults. */
  get eventSourceOptions(): EventSourceOptions | undefined {
    const { fallbackDispatcher } = this.#options;
    return (fallbackDispatcher as { readonly eventSourceOptions?: EventSourceOptions } | undefined)?.eventSourceOptions;
  }

  /**
   * The limits of a WebSocket. It reads them when it opens, in the turn in which its upgrade was answered, and does not say where it goes.
   * So they are those of the connection upgraded in this turn; of several, the smallest.
   */
  get webSocketOptions(): WebSocketLimits {
    return this.#opening ?? this.#options.webSocket;
  }

  /** The stats of our Agent, by origin; empty for a dispatcher that was passed in. */
  get stats(): Readonly<Record<string, unknown>> {
    return this.#agent?.stats ?? {};
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    if (this.#closed) {
      // The request was still waiting when this fallback was destroyed.
      const closed = new EvenkeelError('EVENKEEL_CLOSED', 'the dispatcher is closed');
      return refuse(handler, this.#destroyedBy ?? closed);
    }
    const { fallbackDispatcher } = this.#options;
    const target = fallbackDispatcher ?? this.#ownAgent();
    // undici 7 and 8 both take the newer form, and the dispatcher may be of either.
    const own =
      fallbackDispatcher !== undefined && options.upgrade ? this.watched(handler, target) : asHandlerV2(handler);
    return target.dispatch(withoutDispatcher(options), own as Dispatcher.DispatchHandler);
  }

  /** Wraps `handler`, for a request to `target` that may become a WebSocket. */
  watched(handler: Dispatcher.DispatchHandler, target: Dispatcher): HandlerV2 {
    return tellingUpgrade(asHandlerV2(handler), () => this.#opens(webSocketLimitsOf(target)));
  }

  /** Running requests may finish, within the drain timeout. Never rejects. */
  async close(): Promise<void> {
    this.#closed = true;
    const agent = this.#agent;
    if (agent === undefined || agent.destroyed) return;
    const { clock, drainTimeoutMs } = this.#options;
    const timer = Number.isFinite(drainTimeoutMs) ? clock.timer(() => this.destroy(null), drainTimeoutMs) : undefined;
    // `close` rejects only if the agent was destroyed meanwhile, which was intended.
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

/** Passes everything on to `handler`, and reports the upgrade first. */
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

/** The smaller of two limits; 0 means none. */
function smallerLimit(one: number, other: number): number {
  return one === 0 || other === 0 ? Math.max(one, other) : Math.min(one, other);
}

/** The limits of any dispatcher, if it has them. */
export function webSocketLimitsOf(dispatcher: Dispatcher): WebSocketLimits {
  const { webSocketOptions } = dispatcher as { readonly webSocketOptions?: Partial<WebSocketLimits> };
  return { ...webSocketLimits(undefined), ...webSocketOptions };
}

/** Opens sockets for an undici Agent that a mock takes for sockets to the Service. */
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
