import type { Server as HttpServer, IncomingMessage, ServerResponse } from 'node:http';
import type { Http2Server } from 'node:http2';
import type { Socket, Server as TcpServer } from 'node:net';
import { checkFunction, optionError } from '../runtime/check.js';
import type { Clock, Timer } from '../runtime/clock.js';
import type { Complete, Filled } from '../runtime/complete.js';
import {
  anyOption,
  booleanOption,
  checkedOption,
  clockOption,
  functionOption,
  numberOption,
  type OptionTable,
  optionTable,
} from '../runtime/options.js';
import type { ConnectionTimes } from './closing-connections.js';
import { type ClosingServer, type GrpcServer, grpcClosing } from './closing-grpc.js';
import { httpClosing } from './closing-http.js';
import { tcpClosing } from './closing-tcp.js';
import { type WebSockets, webSocketClosing } from './closing-web-sockets.js';

/** Options of `gracefulShutdown`. */
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
  /** Closes a connection of `tcp` as its protocol does. @defaultValue `socket.end()` */
  readonly finish?: ((socket: Socket) => void) | undefined;
  /**
   * Signals that begin it; a second one cuts it short. Windows delivers no SIGTERM; there Ctrl-C is `SIGINT`. @defaultValue
   * ['SIGTERM']
   */
  readonly signals?: readonly NodeJS.Signals[] | undefined;
  /**
   * How long everything is served as before, so that callers can learn that this pod is leaving, in ms. Takes the place of
   * `preStop: sleep`. @defaultValue 2000
   */
  readonly delayMs?: number | undefined;
  /**
   * How long idle connections then stay open, in ms: a request on one is answered, with the hint not to use it again.
   * @defaultValue 5000
   */
  readonly idleMs?: number | undefined;
  /**
   * How long WebSockets and connections of `tcp` stay open after `delayMs`, in ms: clients that watch leave by themselves within
   * `leaveSpreadMs`, 10 s by default. The others are then closed one by one over `idleMs`, earlier if `drainTimeoutMs` needs it.
   * @defaultValue 10000
   */
  readonly leaveMs?: number | undefined;
  /**
   * What still runs this long after the signal is cut, in ms. Must be less than `terminationGracePeriodSeconds`. @defaultValue
   * 25000
   */
  readonly drainTimeoutMs?: number | undefined;
  /** Called when nothing runs any more, to close databases and the like. Errors are ignored. @defaultValue none */
  readonly onDrained?: (() => unknown) | undefined;
  /** Whether the process exits with 0 at the end. @defaultValue true */
  readonly exit?: boolean | undefined;
  /** All time it uses. For tests. @defaultValue the system's clock */
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

/** The defaults of `gracefulShutdown`; see `docs/guide/graceful-rollout.md`. */
export const shutdownDefaults: Pick<
  Complete<ShutdownOptions>,
  'delayMs' | 'idleMs' | 'leaveMs' | 'drainTimeoutMs'
> = shutdownTable.defaults;

/** How long before `drainTimeoutMs` the last long-lived connection is closed, in ms: closing takes a round trip. */
const CLOSE_MS = 1_000;

/** Controls how a pod starts and leaves. */
export interface Shutdown {
  /** Aborts when the shutdown begins: background work should end. */
  readonly signal: AbortSignal;
  /** Whether readiness is true: after `ready()`, until the servers stop listening. */
  readonly isReady: boolean;
  /** The application has started and can take requests. */
  ready(): void;
  /** A handler for the readiness probe: 200 while ready, else 503. During a shutdown 200 until the servers stop listening. */
  readonly readiness: (request: IncomingMessage, response: ServerResponse) => void;
  /** A handler for the liveness probe: 200, during a shutdown too. */
  readonly liveness: (request: IncomingMessage, response: ServerResponse) => void;
  /** A handler for the startup probe: 503 until `ready()`, then 200, during a shutdown too. */
  readonly startup: (request: IncomingMessage, response: ServerResponse) => void;
  /** Begins the shutdown like a signal; a second call cuts it short. Resolves when nothing runs any more, before the exit. */
  begin(): Promise<void>;
}

/**
 * Lets this process exit without losing a request. At SIGTERM it serves on for `delayMs`, then responds with `Connection: close`
 * (GOAWAY in HTTP/2 and gRPC), closes idle connections, and exits with 0 when nothing runs. WebSockets and raw TCP connections may
 * stay for `leaveMs` more, because clients that watch leave by themselves. Replaces a `preStop` hook that sleeps.
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
    // The slice of the pod already says `terminating`. If all pods of a Service leave at once, those still ready get the requests, and a
    // probe that fails takes that away while requests are still served.
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
    for (const server of this.#servers) server.leave?.();
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
      // `onDrained` failed, but nothing can handle the error, and the process is about to exit.
    }
    if (this.#exits) process.exit(0);
  }

  /** Closes the servers: they tell their callers not to come back. */
  #close(): void {
    if (this.#phase !== 'leaving') return;
    this.#phase = 'closing';
    for (const server of this.#servers) server.close();
    this.#next(() => this.#end(), this.#idleMs);
  }

  /** Closes the idle connections of the servers. The shutdown is done when nothing runs. */
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
