import type { Dispatcher, Pool } from 'undici';
import { type HedgeOptions, hedgingOf } from '../../src/adapter/http/hedging.js';
import { RequestDeadline } from '../../src/adapter/http/request-deadline.js';
import { Propagation, ReportAsking } from '../../src/adapter/kit/index.js';
import { Call, type CallOwner } from '../../src/adapter/undici/call.js';
import { Caller as CallersSide } from '../../src/adapter/undici/caller.js';
import type { HandlerV2 } from '../../src/adapter/undici/handler.js';
import { HedgedCall } from '../../src/adapter/undici/hedged-call.js';
import { Offering } from '../../src/adapter/undici/offering.js';
import { type Balancer, createBalancer } from '../../src/balancer/balancer.js';
import type { BalancingOptions } from '../../src/balancer/balancer-options.js';
import type { Endpoint } from '../../src/endpoint/endpoint.js';
import type { ObserverEvents } from '../../src/observe/observer.js';
import { roundRobin } from '../../src/picker/round-robin.js';
import { staticEndpoints } from '../../src/resolver/static.js';
import { SharedTimers } from '../../src/runtime/shared-timers.js';
import { FakeClock } from '../../src/testing/fake-clock.js';
import { seededRng } from '../../src/testing/seeded-rng.js';

type Modern = Required<Dispatcher.DispatchHandler>;

/** A request that arrived at a pod; a test answers it. Made to behave as a request of undici does. */
export class ArrivedRequest {
  readonly endpoint: Endpoint;
  readonly options: Dispatcher.DispatchOptions;
  aborted: Error | undefined;
  paused = false;
  #over = false;
  readonly #handler: Modern;
  readonly #controller: Dispatcher.DispatchController;

  constructor(endpoint: Endpoint, options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler) {
    this.endpoint = endpoint;
    this.options = options;
    this.#handler = handler as Modern;
    const request = this;
    this.#controller = {
      get aborted() {
        return request.aborted !== undefined;
      },
      get paused() {
        return request.paused;
      },
      get reason() {
        return request.aborted ?? null;
      },
      rawHeaders: null,
      rawTrailers: null,
      pause: () => {
        this.paused = true;
      },
      resume: () => {
        this.paused = false;
      },
      abort: (reason: Error) => {
        if (this.#over) return;
        this.aborted = reason;
        this.fail(reason);
      },
    } as Dispatcher.DispatchController;
  }

  get address(): string {
    return this.endpoint.address;
  }

  /** undici begins to write it; a request whose caller is gone is aborted then. */
  begin(): this {
    this.#handler.onRequestStart(this.#controller, undefined);
    return this;
  }

  /** The same as undici does it: what the call throws then is what it fails with. */
  beginOrFail(): this {
    try {
      this.begin();
    } catch (error) {
      this.fail(error as Error);
    }
    return this;
  }

  head(status: number, headers: Record<string, string> = {}): this {
    try {
      this.#handler.onResponseStarted?.();
      this.#handler.onResponseStart(this.#controller, status, headers, '');
    } catch (error) {
      this.fail(error as Error);
    }
    return this;
  }

  data(bytes: string | number): this {
    if (this.#over) return this;
    this.#handler.onResponseData(this.#controller, Buffer.from(typeof bytes === 'string' ? bytes : 'x'.repeat(bytes)));
    return this;
  }

  end(): void {
    if (this.#over) return;
    this.#over = true;
    this.#handler.onResponseEnd(this.#controller, {});
  }

  answer(status: number, body = '', headers: Record<string, string> = {}): void {
    this.head(status, headers).data(body).end();
  }

  fail(error: Error): void {
    if (this.#over) return;
    this.#over = true;
    this.#handler.onResponseError(this.#controller, error);
  }
}

/** What the caller of a request heard. */
export class Caller {
  controller: Dispatcher.DispatchController | undefined;
  readonly heard: string[] = [];
  error: Error | undefined;

  readonly handler: HandlerV2 = {
    onRequestStart: (controller) => {
      this.controller = controller;
    },
    onResponseStart: (_controller, status, headers) => {
      this.heard.push(`${status} ${headers.from ?? ''}`.trim());
    },
    onResponseData: (_controller, chunk) => {
      this.heard.push(String(chunk));
    },
    onResponseEnd: () => {
      this.heard.push('end');
    },
    onResponseError: (_controller, error) => {
      this.error = error;
      this.heard.push('error');
    },
  };
}

/** A Service with pods whose undici Pools are fakes, and the calls of a dispatcher on them. */
export class HedgeFixture implements CallOwner {
  readonly clock: FakeClock = new FakeClock();
  readonly timers: SharedTimers = new SharedTimers(this.clock);
  readonly hedging: CallOwner['hedging'];
  readonly balancer: Balancer<Pool>;
  readonly origin: string = 'http://orders.shop:8080';
  readonly isClosing = false;
  readonly destroyedBy = undefined;
  readonly askForReports = false;
  readonly offering: Offering = new Offering();
  readonly transport = { lost: (): void => {}, size: 2 };
  /** No request here is upgraded. */
  readonly placements = undefined as never;
  readonly webSocket = {};
  readonly propagation: Propagation = new Propagation({ deadlineHeader: false });
  /** All that arrived, in order. */
  readonly requests: ArrivedRequest[] = [];
  readonly attempts: ObserverEvents['attemptEnded'][] = [];
  /** Whether undici begins to write at once, or leaves that to the test. */
  beginsAtOnce = true;

  constructor(pods: number, options: BalancingOptions & { readonly hedge?: HedgeOptions } = {}) {
    const { hedge, ...balancing } = options;
    this.hedging = hedge === undefined ? undefined : hedgingOf(hedge);
    const endpoints = Array.from({ length: pods }, (_, index) => ({ address: `10.0.0.${index + 1}`, port: 80 }));
    this.balancer = createBalancer<Pool>({
      clock: this.clock,
      rng: seededRng(1),
      picker: roundRobin(),
      stages: [],
      observer: { attemptEnded: (event) => this.attempts.push(event) },
      ...balancing,
      resolver: balancing.resolver ?? staticEndpoints(endpoints),
      transport: {
        connect: async (endpoint) => ({
          handle: this.#pool(endpoint),
          capacity: Number.POSITIVE_INFINITY,
          closed: new Promise(() => {}),
          close: async () => {},
        }),
      },
    });
  }

  async ready(): Promise<this> {
    await this.clock.advanceAsync(0);
    return this;
  }

  /** A caller asks. */
  ask(options: Partial<Dispatcher.DispatchOptions> = {}, deadlineMs?: number): Caller {
    const caller = new Caller();
    const asked = { path: '/', method: 'GET', ...options } as Dispatcher.DispatchOptions;
    const call = new HedgedCall(this, asked, undefined, caller.handler);
    if (deadlineMs !== undefined) call.deadline = new RequestDeadline(this, deadlineMs, undefined, call);
    call.begin();
    return caller;
  }

  /** A caller asks for what has one answer. */
  askPlainly(options: Partial<Dispatcher.DispatchOptions> = {}): Caller {
    const caller = new Caller();
    const asked = { path: '/', method: 'GET', ...options } as Dispatcher.DispatchOptions;
    const call = new Call(this, asked, undefined);
    call.handler = new CallersSide(caller.handler, call);
    call.begin();
    return caller;
  }

  /** The latest request that arrived. */
  get last(): ArrivedRequest {
    return this.requests.at(-1) as ArrivedRequest;
  }

  /** How attempts ended. */
  get told(): string[] {
    return this.attempts.map(({ outcome, attempt, hedged, retrying }) =>
      [attempt, outcome.kind, outcome.cause, hedged && 'hedge', retrying && 'again'].filter(Boolean).join(' '),
    );
  }

  get inFlight(): number {
    return this.balancer.snapshot().endpoints.reduce((sum, { inFlight }) => sum + inFlight, 0);
  }

  waits(): void {}
  served(): void {}

  handlerThrew(error: unknown): void {
    throw error;
  }

  #pool(endpoint: Endpoint): Pool {
    const dispatch = (options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean => {
      const request = new ArrivedRequest(endpoint, options, handler);
      this.requests.push(request);
      if (this.beginsAtOnce) request.begin();
      return true;
    };
    return { dispatch, asking: new ReportAsking() } as unknown as Pool;
  }
}
