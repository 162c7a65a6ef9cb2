import { errors, type Pool } from 'undici';
import type { Clock, Endpoint, Lease, Rng, Transport } from '../../index.js';
import type { DialErrors, DialOptions } from '../http/dial.js';
import type { PodConnection } from '../http/pod-connection.js';
import { explainSilentEnd } from '../http/silent-end.js';
import type { TlsOption } from '../http/tls-options.js';
import { MAX_COUNT, MAX_TIME_MS, protocolOf, resolveHttpTransport } from '../http/transport-options.js';
import { checkBoolean, checkKeys, checkNumber, optionError } from '../kit/index.js';
import { http2Defect } from './compatibility.js';
import { PING_MS, SessionPool } from './http2.js';
import { openPodConnection, type PodConnectionParts } from './pod-connection.js';

/** How the sockets to each pod are opened and used. */
export interface UndiciConnectionOptions {
  /** Maximum sockets per pod; each carries one request at a time (HTTP/1.1). @defaultValue 32 */
  readonly connections?: number | undefined;
  /**
   * TLS settings for `https:` targets (`ca`, `cert`, `key`, …), as `tls.connect` takes them. The name that is sent and checked
   * is the Service's unless `servername` says otherwise. Or a function, sync or async, called for each new connection, within
   * its connect timeout: for certificates that are renewed. If it throws, the error is EVENKEEL_OPTION and does not count
   * against the pod.
   */
  readonly tls?: TlsOption | undefined;
  /**
   * How often the function given as `tls` is also called while connections are open, in ms, ± 20 %. If it returns other
   * certificates or keys (`cert`, `key`, `ca`, `pfx`) than a connection was opened with, the connection is replaced: a new one is
   * opened first, and running requests finish on the old one. Infinity = never. @defaultValue 60000
   */
  readonly credentialsRefreshMs?: number | undefined;
  /**
   * Whether HTTP/2 is offered over TLS. Needs undici 8.10; with earlier versions it is refused (EVENKEEL_OPTION), because they lose
   * requests when a pod sends GOAWAY, as in every rolling update, or resend them endlessly. @defaultValue false
   */
  readonly allowH2?: boolean | undefined;
  /** Concurrent requests per HTTP/2 connection. @defaultValue 100 */
  readonly maxConcurrentStreams?: number | undefined;
  /**
   * How long an idle socket is kept, in ms. If the pod announces `Keep-Alive: timeout=…`, until 2 s before that expires.
   * @defaultValue 60000
   */
  readonly keepAliveTimeoutMs?: number | undefined;
  /** Idle time after which TCP checks whether the peer is alive, in ms. @defaultValue 15000 */
  readonly tcpKeepAliveMs?: number | undefined;
  /** Time until the response headers, in ms; 0 = no limit. @defaultValue 300000, undici's own */
  readonly headersTimeoutMs?: number | undefined;
  /** Longest pause between two pieces of a body, in ms; 0 = no limit. @defaultValue 300000, undici's own */
  readonly bodyTimeoutMs?: number | undefined;
  /** Largest response headers, in bytes. @defaultValue Node's `--max-http-header-size` */
  readonly maxHeaderSize?: number | undefined;
  /** Largest response body, in bytes. @defaultValue no limit */
  readonly maxResponseSize?: number | undefined;
  /**
   * Path that active health checks GET, such as `/healthz`; a status below 400 is healthy.
   * @defaultValue nothing: a check then opens a connection
   */
  readonly healthPath?: string | undefined;
}

/** Options of `undiciTransport`. */
export interface UndiciTransportOptions extends UndiciConnectionOptions {
  /** The Service as `http://name:port` or `https://name:port`: the Host header, and over TLS the name that is checked. */
  readonly origin: string | URL;
  /** Time to open one connection, in ms. @defaultValue 2000 */
  readonly connectTimeoutMs?: number | undefined;
  /** For tests. */
  readonly clock?: Clock | undefined;
  /** For tests. */
  readonly rng?: Rng | undefined;
}

/** Names of `UndiciConnectionOptions`. */
export const undiciConnectionOptionNames: readonly (keyof UndiciConnectionOptions)[] = Object.freeze([
  'connections',
  'tls',
  'credentialsRefreshMs',
  'allowH2',
  'maxConcurrentStreams',
  'keepAliveTimeoutMs',
  'tcpKeepAliveMs',
  'headersTimeoutMs',
  'bodyTimeoutMs',
  'maxHeaderSize',
  'maxResponseSize',
  'healthPath',
] as const);

/** undici's own errors, which its users know. */
const dialErrors: DialErrors = {
  timedOut: (message) => new errors.ConnectTimeoutError(message),
  closed: (message) => new errors.SocketError(message),
};

/** undici closes an idle socket this long before the pod would, in ms; a request in that gap would be lost. */
const KEEP_ALIVE_THRESHOLD_MS = 2_000;
const MAX_KEEP_ALIVE_MS = 600_000;

/**
 * Opens one undici Pool per pod: its origin is the Service, its sockets go to the pod's address. The first socket is
 * opened ahead of the first request.
 *
 * @param options Throws EVENKEEL_OPTION if invalid.
 */
export function undiciTransport(options: UndiciTransportOptions): Transport<Pool> {
  return new PodTransport(options, () => {});
}

/** The same for the dispatcher, which needs more of its pools. */
export class PodTransport implements Transport<Pool> {
  readonly protocol: Transport<unknown>['protocol'];
  readonly #parts: Omit<PodConnectionParts, 'endpoint'>;
  readonly #opened: (pool: Pool) => void;
  /** The open pools. */
  readonly #connections = new Map<Pool, PodConnection<Pool>>();

  /** @param opened Called with every pool, so that its events can be forwarded. */
  constructor(options: UndiciTransportOptions, opened: (pool: Pool) => void) {
    this.#parts = connectionParts(options);
    this.protocol = protocolOf(this.#parts.dial.origin);
    this.#opened = opened;
  }

  /** How its sockets are opened. */
  get dial(): DialOptions {
    return this.#parts.dial;
  }

  async connect(endpoint: Endpoint, signal: AbortSignal): Promise<PodConnection<Pool>> {
    const connection = await openPodConnection({ ...this.#parts, endpoint }, signal);
    this.#connections.set(connection.handle, connection);
    void connection.closed.then(() => this.#connections.delete(connection.handle));
    for (const pool of poolsOf(connection.handle)) this.#opened(pool);
    return connection;
  }

  /** The pools of open connections. */
  get pools(): Iterable<Pool> {
    return [...this.#connections.keys()].flatMap(poolsOf);
  }

  /** A request on `lease` died with its socket. */
  lost({ handle, endpoint }: Lease<Pool>, error: Error): void {
    this.#connections.get(handle)?.lost(error);
    const { socket } = error as errors.SocketError;
    if (this.dial.origin.protocol === 'http:') explainSilentEnd(error, endpoint, socket?.bytesRead);
  }
}

/** A pod's pool, and the one it passes some requests on to. */
function poolsOf(handle: Pool): Pool[] {
  return handle instanceof SessionPool ? [handle, handle.http1] : [handle];
}

function connectionParts(options: UndiciTransportOptions): Omit<PodConnectionParts, 'endpoint'> {
  checkKeys('options', options, [...undiciConnectionOptionNames, 'origin', 'connectTimeoutMs', 'clock', 'rng']);
  const allowH2 = checkBoolean('allowH2', options.allowH2, false);
  const defect = allowH2 ? http2Defect() : undefined;
  if (defect !== undefined) throw optionError('allowH2', `false with ${defect}; it needs 8.10)`, allowH2);
  const common = resolveHttpTransport(options, { allowH2, errors: dialErrors });
  const streams = { min: 1, max: MAX_COUNT, integer: true };
  const maxConcurrentStreams = checkNumber('maxConcurrentStreams', options.maxConcurrentStreams, 100, streams);
  const http2 = allowH2 ? { maxConcurrentStreams, pingInterval: PING_MS } : {};
  return { ...common, pool: { ...poolOptions(options), ...http2, allowH2 }, maxConcurrentStreams };
}

/** The options that go to undici's pool. */
function poolOptions(options: UndiciTransportOptions): Pool.Options {
  const time = { min: 0, max: MAX_TIME_MS, integer: true };
  const size = { min: 1, max: 2 ** 31 - 1, integer: true };
  const keepAliveTimeout = checkNumber('keepAliveTimeoutMs', options.keepAliveTimeoutMs, 60_000, { ...time, min: 1 });
  const pool: { -readonly [Name in keyof Pool.Options]: Pool.Options[Name] } = {
    keepAliveTimeout,
    keepAliveMaxTimeout: Math.max(MAX_KEEP_ALIVE_MS, keepAliveTimeout),
    keepAliveTimeoutThreshold: KEEP_ALIVE_THRESHOLD_MS,
  };
  const { headersTimeoutMs, bodyTimeoutMs, maxHeaderSize, maxResponseSize } = options;
  if (headersTimeoutMs !== undefined) pool.headersTimeout = checkNumber('headersTimeoutMs', headersTimeoutMs, 0, time);
  if (bodyTimeoutMs !== undefined) pool.bodyTimeout = checkNumber('bodyTimeoutMs', bodyTimeoutMs, 0, time);
  if (maxHeaderSize !== undefined) pool.maxHeaderSize = checkNumber('maxHeaderSize', maxHeaderSize, 0, size);
  if (maxResponseSize !== undefined) pool.maxResponseSize = checkNumber('maxResponseSize', maxResponseSize, 0, size);
  return pool;
}

/** The connections and requests of a dispatcher, as undici counts those of a Pool. */
export interface DispatcherStats {
  /** Connections. */
  readonly connected: number;
  /** Connections without a running request. */
  readonly free: number;
  /** Requests not sent yet. */
  readonly pending: number;
  /** Requests not sent yet, for which there is no connection. */
  readonly queued: number;
  /** Requests sent, without a complete response. */
  readonly running: number;
  /** All requests. */
  readonly size: number;
}

/** The sums over `pools`, plus `waiting` requests without a pod. */
export function statsOf(pools: Iterable<Pool>, waiting: number): DispatcherStats {
  const sum = { connected: 0, free: 0, pending: waiting, queued: waiting, running: 0, size: waiting };
  for (const { stats } of pools) {
    sum.connected += stats.connected;
    sum.free += stats.free;
    sum.pending += stats.pending;
    sum.queued += stats.queued;
    sum.running += stats.running;
    sum.size += stats.size;
  }
  return sum;
}
