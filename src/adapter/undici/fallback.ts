import { Agent, type buildConnector, type Dispatcher, Pool } from 'undici';
import { type Balancer, type Clock, EvenkeelError } from '../../index.js';
import type { DialOptions } from '../http/dial.js';
import { MockedDial } from '../http/mocked-sockets.js';
import { optionError } from '../kit/index.js';
import { refuse } from './handler.js';
import { asHandlerV2 } from './handler-v1.js';
import { withoutDispatcher } from './request-options.js';

/** Options of `Fallback`. */
export interface FallbackOptions {
  /** The user's dispatcher, which this never closes. */
  readonly fallbackDispatcher: Dispatcher | undefined;
  readonly clock: Clock;
  /** How long requests of our own Agent may take to finish at `close`, in ms. */
  readonly drainTimeoutMs: number;
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

/** Where requests for other origins go: the dispatcher that was passed, or our own Agent, created on first use. */
export class Fallback {
  readonly #options: FallbackOptions;
  #agent: Agent | undefined;
  /** The pools of our Agent. It forgets them when it is closed, and could then not cut them. */
  readonly #pools = new Set<Pool>();
  #sweepAt = SWEEP_AT;
  #closed = false;
  #destroyedBy: Error | undefined;

  constructor(options: FallbackOptions) {
    this.#options = options;
  }

  /**
   * Whether a mock answers. undici's `fetch` then passes bodies on unchanged, so that the mock can match them.
   */
  get isMockActive(): boolean {
    const { fallbackDispatcher } = this.#options;
    return (fallbackDispatcher as { readonly isMockActive?: unknown } | undefined)?.isMockActive === true;
  }

  /** Its options for EventSources. Undefined: undici's defaults. */
  get eventSourceOptions(): EventSourceOptions | undefined {
    const { fallbackDispatcher } = this.#options;
    return (fallbackDispatcher as { readonly eventSourceOptions?: EventSourceOptions } | undefined)?.eventSourceOptions;
  }

  /** The stats of our Agent, by origin; empty for a dispatcher that was passed in. */
  get stats(): Readonly<Record<string, unknown>> {
    return this.#agent?.stats ?? {};
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    if (this.#closed) {
      // A request that was waiting when this was destroyed.
      const closed = new EvenkeelError('EVENKEEL_CLOSED', 'the dispatcher is closed');
      return refuse(handler, this.#destroyedBy ?? closed);
    }
    const target = this.#options.fallbackDispatcher ?? this.#ownAgent();
    // undici 7 and 8 both take the newer form, and the dispatcher may be of either.
    return target.dispatch(withoutDispatcher(options), asHandlerV2(handler) as Dispatcher.DispatchHandler);
  }

  /** Running requests may finish, within the drain timeout. Never rejects. */
  async close(): Promise<void> {
    this.#closed = true;
    const agent = this.#agent;
    if (agent === undefined || agent.destroyed) return;
    const { clock, drainTimeoutMs } = this.#options;
    const timer = Number.isFinite(drainTimeoutMs) ? clock.timer(() => this.destroy(null), drainTimeoutMs) : undefined;
    // Rejects only if it was destroyed meanwhile, which was intended.
    await agent.close().catch(() => {});
    timer?.cancel();
  }

  destroy(error: Error | null): void {
    this.#closed = true;
    this.#destroyedBy ??= error ?? undefined;
    void this.#agent?.destroy(error);
    for (const pool of this.#pools) void pool.destroy(error);
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

/** Checks the option `fallbackDispatcher`. Throws EVENKEEL_OPTION. */
export function checkFallback(fallbackDispatcher: Dispatcher | undefined): void {
  if (fallbackDispatcher !== undefined && typeof fallbackDispatcher?.dispatch !== 'function') {
    throw optionError('fallbackDispatcher', 'an undici Dispatcher', fallbackDispatcher);
  }
}

/** Opens sockets for an undici Agent that a mock takes for sockets to the Service. */
export function mockedConnector(balancer: Balancer<unknown>, options: DialOptions): buildConnector.connector {
  const dial = new MockedDial(balancer, options);
  return ({ hostname, port, protocol }, supplied) => {
    const asked = { host: hostname, port: Number(port || (protocol === 'https:' ? 443 : 80)) };
    dial.connect(asked, (error, socket) => {
      if (error === undefined) supplied(null, socket);
      else supplied(error, null);
    });
  };
}
