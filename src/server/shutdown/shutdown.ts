import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http';
import type { Http2Server } from 'node:http2';
import type { Socket, Server as TcpServer } from 'node:net';
import { checkFunction, optionError } from '../../runtime/check.js';
import type { Clock, Timer } from '../../runtime/clock.js';
import type { Filled } from '../../runtime/complete.js';
import {
  anyOption,
  booleanOption,
  checkedOption,
  clockOption,
  functionOption,
  numberOption,
  type OptionTable,
  optionTable,
} from '../../runtime/options.js';
import { type ConnectionTimes, tcpClosing, type WebSockets, webSocketClosing } from './closing-connections.js';
import { httpClosing } from './closing-http.js';
import { type ClosingServer, type GrpcServer, grpcClosing } from './closing-server.js';

/**
 * Options of `gracefulShutdown`: which servers to shut down, and how long each step may take. An invalid option throws EVENKEEL_OPTION.
 */
export interface ShutdownOptions {
  /**
   * Servers of `node:http`, `node:https` or `node:http2`, one or several. Express and Koa: what `listen` returns; Fastify:
   * `app.server`; Nest: `app.getHttpServer()`. @defaultValue none
   */
  readonly http?: HttpServer | Http2Server | readonly (HttpServer | Http2Server)[] | undefined;
  /** A server of grpc-js. @defaultValue none */
  readonly grpc?: GrpcServer | undefined;
  /** A `WebSocketServer` of the package `ws`. @defaultValue none */
  readonly webSockets?: WebSockets | undefined;
  /** Servers of `node:net` or `node:tls`, for other protocols, one or several. @defaultValue none */
  readonly tcp?: TcpServer | readonly TcpServer[] | undefined;
  /** Closes a connection of `tcp` with its protocol's own goodbye. @defaultValue `socket.end()` */
  readonly finish?: ((socket: Socket) => void) | undefined;
  /**
   * The signals that begin the shutdown; a second signal cuts it short. Windows delivers no SIGTERM; Ctrl-C is `SIGINT` there.
   * @defaultValue ['SIGTERM']
   */
  readonly signals?: readonly NodeJS.Signals[] | undefined;
  /**
   * How long all requests are served as before after the signal, in ms, so that callers can learn that this pod is leaving. Replaces
   * `preStop: sleep`. @defaultValue 2000
   */
  readonly delayMs?: number | undefined;
  /**
   * How long idle connections stay open after `delayMs`, in ms. A request on such a connection is answered, and its response says not to
   * use the connection again. @defaultValue 5000
   */
  readonly idleMs?: number | undefined;
  /**
   * How long WebSockets and connections of `tcp` stay open after `delayMs`, in ms. Clients that watch the Service leave by themselves
   * within `leaveSpreadMs`, 10 s by default. The other connections are then closed one by one over `idleMs`, earlier if `drainTimeoutMs`
   * needs it. @defaultValue 10000
   */
  readonly leaveMs?: number | undefined;
  /**
   * How long after the signal everything that still runs is cut, in ms. Must be less than `terminationGracePeriodSeconds`. @defaultValue
   * 25000
   */
  readonly drainTimeoutMs?: number | undefined;
  /** Called when nothing runs any more, for example to close databases. Errors are ignored. @defaultValue none */
  readonly onDrained?: (() => unknown) | undefined;
  /** Whether the process exits with code 0 at the end of the shutdown. @defaultValue true */
  readonly exit?: boolean | undefined;
  /** The clock by which all time is measured; tests pass their own. @defaultValue the system's clock */
  readonly clock?: Clock | undefined;
}

const durations = { min: 0, max: 86_400_000 };

export const shutdownTable: OptionTable<Filled<ShutdownOptions, 'http' | 'grpc' | 'webSockets' | 'tcp' | 'onDrained'>> =
  optionTable('options', {
    http: anyOption<NonNullable<ShutdownOptions['http']>>(),
    grpc: anyOption<GrpcServer>(),
    webSockets: anyOption<WebSockets>(),
    tcp: anyOption<NonNullable<ShutdownOptions['tcp']>>(),
    finish: checkedOption<NonNullable<ShutdownOptions['finish']>>(
      (socket) => socket.end(),
      (name, value) => {
        checkFunction(name, value);
        return value as (socket: Socket) => void;
      },
    ),
    signals: checkedOption<readonly NodeJS.Signals[]>(['SIGTERM'], (name, value) => {
      if (!Array.isArray(value)) throw optionError(name, 'a list of signals', value);
      return value;
    }),
    delayMs: numberOption(2_000, durations),
    idleMs: numberOption(5_000, durations),
    leaveMs: numberOption(10_000, durations),
    drainTimeoutMs: numberOption(25_000, durations),
    onDrained: functionOption<() => unknown>(),
    exit: booleanOption(true),
    clock: clockOption,
  });

/** The last long-lived connection is closed this many ms before `drainTimeoutMs`, because closing takes a round trip. */
const CLOSE_MS = 1_000;

/** Controls how a pod becomes ready and how it leaves. */
export interface Shutdown {
  /** Aborts when the shutdown begins, so that background work can end. */
  readonly signal: AbortSignal;
  /** Whether the pod is ready: from `ready()` until the servers stop listening. */
  readonly isReady: boolean;
  /** Call this when the application has started and can take requests. */
  ready(): void;
  /**
   * A handler for the readiness probe: 200 while ready, else 503. A pod stays ready during its shutdown until the servers stop listening.
   */
  readonly readiness: (request: IncomingMessage, response: ServerResponse) => void;
  /** A handler for the liveness probe: always 200, even during a shutdown. */
  readonly liveness: (request: IncomingMessage, response: ServerResponse) => void;
  /** A handler for the startup probe: 503 until `ready()`, then 200, even during a shutdown. */
  readonly startup: (request: IncomingMessage, response: ServerResponse) => void;
  /** Begins the shutdown as a signal does; a second call cuts it short. Resolves when nothing runs any more, before the process exits. */
  begin(): Promise<void>;
}

/**
 * Lets this process exit without losing a request. After SIGTERM, requests are served as before for `delayMs`. Then responses carry
 * `Connection: close` (GOAWAY in HTTP/2 and gRPC), idle connections are closed, and the process exits with 0 when nothing runs. WebSockets
 * and raw TCP connections may stay for `leaveMs` more, because clients that watch the Service leave by themselves. Replaces a `preStop`
 * hook that sleeps.
 *
 * @throws EVENKEEL_OPTION for invalid options.
 * @example const shutdown = gracefulShutdown({ http: server }); shutdown.ready();
 */
export function gracefulShutdown(options: ShutdownOptions): Shutdown {
  return new PodShutdown(options);
}

type Phase = 'serving' | 'leaving' | 'closing' | 'ending';

class PodShutdown implements Shutdown {
  readonly readiness: Shutdown['readiness'];
  readonly liveness: Shutdown['liveness'];
  readonly startup: Shutdown['startup'];
  readonly #servers: readonly ClosingServer[];
  readonly #signals: readonly NodeJS.Signals[];
  readonly #delayMs: number;
  readonly #idleMs: number;
  readonly #drainTimeoutMs: number;
  readonly #onDrained: (() => unknown) | undefined;
  readonly #exits: boolean;
  readonly #clock: Clock;
  readonly #began = new AbortController();
  readonly #onSignal = (): void => void this.begin();
  #isStarted = false;
  #phase: Phase = 'serving';
  /** The timer that ends the current phase of the shutdown. */
  #timer: Timer | undefined;
  #cut: Timer | undefined;
  #done: Promise<void> | undefined;
  #finish: () => void = () => {};

  constructor(options: ShutdownOptions) {
    const resolved = shutdownTable.resolve(options);
    const { http, grpc, webSockets, tcp, finish, signals, delayMs, idleMs, drainTimeoutMs, clock } = resolved;
    this.#delayMs = delayMs;
    this.#idleMs = idleMs;
    this.#drainTimeoutMs = drainTimeoutMs;
    this.#exits = resolved.exit;
    this.#onDrained = resolved.onDrained;
    this.#clock = clock;
    this.#signals = signals;
    const latestMs = drainTimeoutMs - delayMs - idleMs - CLOSE_MS;
    const times: ConnectionTimes = { leaveMs: Math.max(0, Math.min(resolved.leaveMs, latestMs)), spreadMs: idleMs };
    const servers: ClosingServer[] = [];
    for (const server of listOf(http)) servers.push(httpClosing(server));
    if (grpc !== undefined) servers.push(grpcClosing(grpc));
    if (webSockets !== undefined) servers.push(webSocketClosing(webSockets, clock, times));
    for (const server of listOf(tcp)) servers.push(tcpClosing(server, finish, clock, times));
    if (servers.length === 0) throw optionError('options', 'an object with http, grpc, webSockets or tcp', options);
    this.#servers = servers;
    this.readiness = (_request, response) => answer(response, this.isReady);
    this.liveness = (_request, response) => answer(response, true);
    this.startup = (_request, response) => answer(response, this.#isStarted);
    for (const signal of signals) process.on(signal, this.#onSignal);
  }

  get signal(): AbortSignal {
    return this.#began.signal;
  }

  get isReady(): boolean {
    // EndpointSlices already show the pod as `terminating`. If all pods of a Service leave at once, requests go to those whose readiness
    // probe still succeeds, so the probe must not fail while requests are served.
    return this.#isStarted && this.#phase !== 'ending';
  }

  ready(): void {
    this.#isStarted = true;
  }

  begin(): Promise<void> {
    if (this.#done === undefined) this.#done = this.#leave();
    else {
      this.#close();
      this.#end();
      for (const server of this.#servers) server.hurry?.();
    }
    return this.#done;
  }

  async #leave(): Promise<void> {
    this.#phase = 'leaving';
    this.#began.abort();
    for (const server of this.#servers) server.announce?.();
    this.#cut = this.#clock.timer(() => this.#cutAll(), this.#drainTimeoutMs);
    this.#cut.ref();
    this.#next(() => this.#close(), this.#delayMs);
    await new Promise<void>((resolve) => {
      this.#finish = resolve;
    });
    this.#cut.cancel();
    for (const signal of this.#signals) process.off(signal, this.#onSignal);
    try {
      await this.#onDrained?.();
    } catch {
      // `onDrained` failed, but nobody can handle its error, and the process is about to exit.
    }
    if (this.#exits) process.exit(0);
  }

  /** Makes the servers tell their callers not to come back. */
  #close(): void {
    if (this.#phase !== 'leaving') return;
    this.#phase = 'closing';
    for (const server of this.#servers) server.close();
    this.#next(() => this.#end(), this.#idleMs);
  }

  /** Closes the idle connections of the servers. The shutdown is over when nothing runs any more. */
  #end(): void {
    if (this.#phase !== 'closing') return;
    this.#phase = 'ending';
    this.#timer?.cancel();
    void Promise.all(this.#servers.map((server) => server.end())).then(() => this.#finish());
  }

  #cutAll(): void {
    this.#close();
    this.#end();
    for (const server of this.#servers) server.cut();
  }

  #next(fn: () => void, delayMs: number): void {
    this.#timer?.cancel();
    this.#timer = this.#clock.timer(fn, delayMs);
    this.#timer.ref();
  }
}

function listOf<T>(value: T | readonly T[] | undefined): readonly T[] {
  if (value === undefined) return [];
  return Array.isArray(value) ? value : [value as T];
}

function answer(response: ServerResponse, isWell: boolean): void {
  response.statusCode = isWell ? 200 : 503;
  response.setHeader('content-type', 'text/plain');
  response.end(isWell ? 'ok' : 'not ready');
}
