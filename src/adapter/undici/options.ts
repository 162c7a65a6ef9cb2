import type { Duplex } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { BalancingOptions, Priority } from '../../index.js';
import type { TlsOption } from '../http/dial.js';
import { type HedgeOptions, type Hedging, hedgingOf } from '../http/hedging.js';
import { checkClusterDomain } from '../http/origin.js';
import { type DeadlineOf, deadlineOption } from '../http/request-deadline.js';
import { httpTransportTable, MAX_COUNT, MAX_TIME_MS } from '../http/transport-options.js';
import {
  type AskForReports,
  balancingTable,
  booleanOption,
  type Complete,
  checkAskForReports,
  checkedOption,
  type Filled,
  functionOption,
  leaveCodeOption,
  numberOption,
  type OptionTable,
  optionalBoolean,
  optionalNumber,
  optionError,
  optionTable,
  type PlacingOptions,
  type PropagateOptions,
  Propagation,
  placingTable,
} from '../kit/index.js';

/** Options of `createDispatcher` and `createFetch`. */
export interface DispatcherOptions extends BalancingOptions, UndiciConnectionOptions, CallOptions {
  /**
   * Where requests for any other origin go (after a redirect, say). Closing this dispatcher stays up to the caller.
   * @defaultValue an undici Agent of its own, created on first use
   * @see docs/guide/http.md#other-origins
   */
  readonly fallbackDispatcher?: Dispatcher | undefined;
  /**
   * Returns the key for hash pickers: requests with the same key go to the same pod. Called for every request. With the
   * function that `prefixKey()` returns, the default picker is the one made for it. @defaultValue none
   * @see docs/guide/http.md#sticky-routing
   */
  readonly key?: ((options: Dispatcher.DispatchOptions) => string | null | undefined) | undefined;
  /**
   * Returns a request's priority: which requests are served first when several wait for a pod, and with a `limit` which are rejected first.
   * Called for every request.
   * @defaultValue the priority of the request being served (`propagate.context`), else 'default'
   * @see docs/guide/overload.md#priorities
   */
  readonly priority?: ((options: Dispatcher.DispatchOptions) => Priority | undefined) | undefined;
  /** The cluster's domain, to recognize full Service names. @defaultValue what resolv.conf says, else 'cluster.local' */
  readonly clusterDomain?: string | undefined;
  /**
   * Limits for WebSockets to the Service (one that exceeds a limit is closed with 1006), and how WebSockets leave their pod: also
   * `onLeaving`, `closeLeaving`, `leaveSpreadMs` and `rebalance`, as for any long-lived connection. @defaultValue {}, see
   * `WebSocketOptions`
   * @see docs/reference/options-connections.md#tcp
   */
  readonly webSocket?: WebSocketOptions | undefined;
  /**
   * Which requests ask their pod how busy it is, with the header `endpoint-load-metrics-format: TEXT`. true: requests to pods that have
   * said that they report (`evenkeel/server`). 'always': every request. false: none. @defaultValue true
   * @see docs/guide/server.md#what-clients-do-with-it
   */
  readonly askForReports?: AskForReports | undefined;
  /**
   * What is sent along with a request: its deadline, its priority. @defaultValue {}, see `PropagateOptions`
   * @see docs/guide/overload.md#passing-on-deadlines-and-priorities
   */
  readonly propagate?: PropagateOptions | undefined;
}

/** Options for the sockets to each pod: how they are opened and used. */
export interface UndiciConnectionOptions {
  /**
   * The most sockets per pod; each carries one request at a time (HTTP/1.1). Further requests wait for a socket. At most 128 sockets to a
   * pod are being opened at a time.
   * @defaultValue Infinity: as many as requests run at once, as with undici's own Pool
   */
  readonly connections?: number | undefined;
  /**
   * TLS settings for `https:` targets (`ca`, `cert`, `key`, …), as `tls.connect` takes them. The name that is sent and checked is the
   * Service's unless `servername` says otherwise. A function, sync or async, is called for each new connection, within its connect timeout:
   * for certificates that are renewed. If the function throws, the error is EVENKEEL_OPTION and does not count against the pod.
   * @defaultValue {}
   * @see docs/guide/http.md#certificates-that-are-renewed
   */
  readonly tls?: TlsOption | undefined;
  /**
   * How often a function given as `tls` is also called while connections are open, in ms, ± 20 %. If it returns other certificates or keys
   * (`cert`, `key`, `ca`, `pfx`) than a connection was opened with, that connection is replaced: a new one is opened first, and running
   * requests finish on the old one. Infinity = never. @defaultValue 60000
   * @see docs/guide/http.md#certificates-that-are-renewed
   */
  readonly credentialsRefreshMs?: number | undefined;
  /**
   * Whether HTTP/2 is offered over TLS. Needs undici 8.10; with earlier versions true is refused (EVENKEEL_OPTION), because they lose
   * requests when a pod sends GOAWAY, as in every rolling update, or resend them endlessly. @defaultValue false
   */
  readonly allowH2?: boolean | undefined;
  /**
   * Whether requests of an `http:` target use HTTP/2 in the clear (h2c, prior knowledge). true: with every pod that answers an HTTP/2
   * preface; other pods get HTTP/1.1. false: never. Undefined: with pods whose port in the EndpointSlice says `appProtocol:
   * kubernetes.io/h2c`. A pod is probed on a connection of its own before its first request. Upgrades use HTTP/1.1. Needs undici 8.10, as
   * `allowH2` does; with earlier versions true is refused (EVENKEEL_OPTION), and undefined means false.
   * @defaultValue undefined; false for `createAppAgent` and `appInterceptor`
   * @see docs/guide/http.md#http2-in-the-clear
   */
  readonly useH2c?: boolean | undefined;
  /** Concurrent requests to a pod over HTTP/2, if it allows as many; further ones go to another pod. @defaultValue 100 */
  readonly maxConcurrentStreams?: number | undefined;
  /**
   * How long an idle socket is kept, in ms. If the pod announces `Keep-Alive: timeout=…`, the socket is kept until 2 s before that expires.
   * @defaultValue 60000
   */
  readonly keepAliveTimeoutMs?: number | undefined;
  /** Idle time after which TCP probes whether the other side is alive, in ms. @defaultValue 15000 */
  readonly tcpKeepAliveMs?: number | undefined;
  /** The longest time until the response headers, in ms; 0 = no limit. @defaultValue 300000, undici's own */
  readonly headersTimeoutMs?: number | undefined;
  /** The longest pause between two pieces of a body, in ms; 0 = no limit. @defaultValue 300000, undici's own */
  readonly bodyTimeoutMs?: number | undefined;
  /** The largest size of the response headers, in bytes. @defaultValue Node's `--max-http-header-size` */
  readonly maxHeaderSize?: number | undefined;
  /** The largest size of a response body, in bytes. @defaultValue no limit */
  readonly maxResponseSize?: number | undefined;
  /**
   * The path that active health checks GET, such as `/healthz`; a status below 400 means healthy. @defaultValue none: a check only opens a
   * connection
   */
  readonly healthPath?: string | undefined;
}

/** Options of each request: how long it may take, and whether a second pod is asked in parallel. */
export interface CallOptions {
  /**
   * How long a request may take as a whole, in ms: waiting, every attempt, and the complete response. After that it fails with
   * EVENKEEL_DEADLINE. A function returns the limit of each request; undefined = no limit.
   * @defaultValue no limit: the caller's own signal decides
   */
  readonly deadlineMs?: number | DeadlineOf<Dispatcher.DispatchOptions> | undefined;
  /**
   * When a second pod is asked because the first one is slow; needs `afterMs` or `afterQuantile`. @defaultValue never
   * @see docs/guide/retries.md
   */
  readonly hedge?: HedgeOptions | undefined;
}

const { connections, tls, credentialsRefreshMs, tcpKeepAliveMs, healthPath } = httpTransportTable.options;
const ms = { min: 0, max: MAX_TIME_MS, integer: true };
const bytes = { min: 1, max: 2 ** 31 - 1, integer: true };

export type UndiciConnectionSettings = Filled<
  UndiciConnectionOptions,
  'tls' | 'useH2c' | 'headersTimeoutMs' | 'bodyTimeoutMs' | 'maxHeaderSize' | 'maxResponseSize' | 'healthPath'
>;

export const undiciConnectionTable: OptionTable<UndiciConnectionSettings> = optionTable('options', {
  connections,
  tls,
  credentialsRefreshMs,
  allowH2: booleanOption(false),
  useH2c: optionalBoolean,
  maxConcurrentStreams: numberOption(100, { min: 1, max: MAX_COUNT, integer: true }),
  keepAliveTimeoutMs: numberOption(60_000, { ...ms, min: 1 }),
  tcpKeepAliveMs,
  headersTimeoutMs: optionalNumber(ms),
  bodyTimeoutMs: optionalNumber(ms),
  maxHeaderSize: optionalNumber(bytes),
  maxResponseSize: optionalNumber(bytes),
  healthPath,
});

/**
 * Options for WebSockets: their limits, and how they leave their pod. A WebSocket that exceeds a limit is closed with 1006, in undici
 * versions that have these limits.
 */
export interface WebSocketOptions extends PlacingOptions<Duplex> {
  /** The largest WebSocket message, decompressed, in bytes; 0 = no limit. @defaultValue 134217728 (128 MiB), undici's own */
  readonly maxPayloadSize?: number | undefined;
  /** The most fragments of a WebSocket message; 0 = no limit. @defaultValue 131072, undici's own */
  readonly maxFragments?: number | undefined;
  /**
   * The code with which a WebSocket that should leave its pod is closed. Codes that may not be sent (1004 to 1006, 1015 to 2999) are
   * refused.
   * @defaultValue 4012, because undici does not let applications send 1012
   */
  readonly leaveCode?: number | undefined;
}

/** The limits for WebSockets, after defaults were filled in. */
export type WebSocketLimits = Complete<Pick<WebSocketOptions, 'maxPayloadSize' | 'maxFragments'>>;

type WebSocketSettings = WebSocketLimits & { readonly leaveCode: number } & (typeof placingTable)['defaults'];

const count = { min: 0, max: 2 ** 31 - 1, integer: true };

export const webSocketTable: OptionTable<WebSocketSettings> = optionTable('webSocket', {
  maxPayloadSize: numberOption(128 * 1024 * 1024, count),
  maxFragments: numberOption(131_072, count),
  leaveCode: leaveCodeOption(4012),
  ...placingTable.options,
});

/** Fills in the limits for WebSockets. Throws EVENKEEL_OPTION for invalid values. */
export function webSocketLimits(options: WebSocketOptions | undefined): WebSocketLimits {
  const { maxPayloadSize, maxFragments } = webSocketTable.resolve(options);
  return { maxPayloadSize, maxFragments };
}

type OwnOptions = Omit<DispatcherOptions, keyof BalancingOptions | keyof UndiciConnectionOptions>;

/** The options that only dispatchers have (not every balancer, not the connections), after defaults were filled in. */
export type DispatcherSettings = Filled<
  Omit<OwnOptions, 'deadlineMs' | 'hedge' | 'propagate' | 'webSocket'>,
  'fallbackDispatcher' | 'key' | 'priority' | 'clusterDomain'
> & {
  readonly deadlineMs: DeadlineOf<Dispatcher.DispatchOptions> | undefined;
  readonly hedge: Hedging | undefined;
  readonly propagate: Propagation;
  readonly webSocket: WebSocketOptions;
};

export const dispatcherTable: OptionTable<DispatcherSettings> = optionTable('options', {
  deadlineMs: deadlineOption<Dispatcher.DispatchOptions>(),
  hedge: checkedOption<Hedging | undefined>(undefined, (_name, value) => hedgingOf(value)),
  fallbackDispatcher: checkedOption<Dispatcher | undefined>(undefined, (name, value) => {
    if (typeof (value as Dispatcher | null)?.dispatch === 'function') return value as Dispatcher;
    throw optionError(name, 'an undici Dispatcher', value);
  }),
  key: functionOption<RequestKey>(),
  priority: functionOption<NonNullable<DispatcherOptions['priority']>>(),
  clusterDomain: checkedOption<string | undefined>(undefined, (_name, value) => checkClusterDomain(value)),
  webSocket: checkedOption<WebSocketOptions>({}, (_name, value) => {
    webSocketTable.resolve(value);
    return value as WebSocketOptions;
  }),
  askForReports: checkedOption<AskForReports>(true, checkAskForReports),
  propagate: checkedOption(new Propagation(undefined), (_name, value) => new Propagation(value as PropagateOptions)),
});

/** The names of all options of a dispatcher. */
export const dispatcherOptionNames: readonly (keyof DispatcherOptions)[] = Object.freeze([
  ...balancingTable.names,
  ...undiciConnectionTable.names,
  ...dispatcherTable.names,
]);

/** Returns the key for hash pickers from the options of a request. */
export type RequestKey = (options: Dispatcher.DispatchOptions) => string | null | undefined;
