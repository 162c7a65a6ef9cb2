import type { Duplex } from 'node:stream';
import type { Dispatcher } from 'undici';
import type { BalancingOptions, Priority } from '../../index.js';
import type { TlsOption } from '../http/dial.js';
import { type HedgeOptions, type Hedging, hedgingOf } from '../http/hedging.js';
import { type DeadlineOf, deadlineRule } from '../http/request-deadline.js';
import {
  type AskForReports,
  balancingOptionNames,
  type Complete,
  checkAskForReports,
  checkFunction,
  checkKeys,
  checkLeaveCode,
  checkNumber,
  type PlacingOptions,
  type PropagateOptions,
  placingOptionNames,
  resolvePlacingOptions,
} from '../kit/index.js';

/** Options of `createDispatcher` and `createFetch`. */
export interface DispatcherOptions extends BalancingOptions, UndiciConnectionOptions, CallOptions {
  /**
   * Where requests for any other origin go (after a redirect, say). Closing it stays up to the caller.
   * @defaultValue an undici Agent of its own, created on first use
   */
  readonly fallbackDispatcher?: Dispatcher | undefined;
  /**
   * The key for hash pickers: requests with the same key go to the same pod. Called for every request. `prefixKey()` also brings
   * the picker it is meant for. @defaultValue none
   */
  readonly key?: ((options: Dispatcher.DispatchOptions) => string | null | undefined) | undefined;
  /**
   * Which requests go first where they wait for a pod, and with a `limit` which are turned away first. Called for every request.
   * @defaultValue that of the request being served (`propagate.context`), else 'default'
   */
  readonly priority?: ((options: Dispatcher.DispatchOptions) => Priority | undefined) | undefined;
  /** The cluster's domain, to recognize full Service names. @defaultValue what resolv.conf says, else 'cluster.local' */
  readonly clusterDomain?: string | undefined;
  /** Limits for WebSockets to the Service, and how they leave their pod. @defaultValue {}, see `WebSocketOptions` */
  readonly webSocket?: WebSocketOptions | undefined;
  /**
   * Whether requests ask pods how busy they are, with the header `endpoint-load-metrics-format: TEXT`: those to pods that have said
   * that they report (`evenkeel/server`), or with `'always'` every request. @defaultValue true
   */
  readonly askForReports?: AskForReports | undefined;
  /** What goes along with a request: its deadline, its priority. @defaultValue {}, see `PropagateOptions` */
  readonly propagate?: PropagateOptions | undefined;
}

/** How the sockets to each pod are opened and used. */
export interface UndiciConnectionOptions {
  /**
   * Maximum sockets per pod; each carries one request at a time (HTTP/1.1). Further requests wait for one.
   * @defaultValue Infinity: as many as requests run at once, as the ordinary client does
   */
  readonly connections?: number | undefined;
  /**
   * TLS settings for `https:` targets (`ca`, `cert`, `key`, …), as `tls.connect` takes them. The name that is sent and checked
   * is the Service's unless `servername` says otherwise. Or a function, sync or async, called for each new connection, within
   * its connect timeout: for certificates that are renewed. If it throws, the error is EVENKEEL_OPTION and does not count
   * against the pod.
   * @defaultValue {}
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
  /**
   * Whether requests of an `http:` target use HTTP/2 in the clear (h2c, prior knowledge). true: with every pod that answers its
   * preface; with others HTTP/1.1. false: never. Undefined: with pods whose port in the EndpointSlice says
   * `appProtocol: kubernetes.io/h2c`. A pod is asked on a connection of its own before its first request. Upgrades use HTTP/1.1.
   * Needs undici 8.10, as `allowH2` does; with earlier versions true is refused (EVENKEEL_OPTION), and undefined means false.
   * @defaultValue undefined; false for `createAppAgent` and `appInterceptor`
   */
  readonly useH2c?: boolean | undefined;
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

/** How long a request may take, and whether a second pod is asked in parallel. */
export interface CallOptions {
  /**
   * How long a request may take in all, in ms: waiting, every attempt, and the whole response. Then it fails with
   * EVENKEEL_DEADLINE. Or a function of the request; undefined = no limit.
   * @defaultValue no limit: the caller's own signal decides
   */
  readonly deadlineMs?: number | DeadlineOf<Dispatcher.DispatchOptions> | undefined;
  /** Asks a second pod when the first is slow. @defaultValue never */
  readonly hedge?: HedgeOptions | undefined;
}

/** Names of `UndiciConnectionOptions`. */
export const undiciConnectionOptionNames: readonly (keyof UndiciConnectionOptions)[] = Object.freeze([
  'connections',
  'tls',
  'credentialsRefreshMs',
  'allowH2',
  'useH2c',
  'maxConcurrentStreams',
  'keepAliveTimeoutMs',
  'tcpKeepAliveMs',
  'headersTimeoutMs',
  'bodyTimeoutMs',
  'maxHeaderSize',
  'maxResponseSize',
  'healthPath',
] as const);

/** Names of `CallOptions`. */
export const callOptionNames: readonly (keyof CallOptions)[] = Object.freeze(['deadlineMs', 'hedge'] as const);

/** Names of `DispatcherOptions`. */
export const dispatcherOptionNames: readonly (keyof DispatcherOptions)[] = Object.freeze([
  ...balancingOptionNames,
  ...undiciConnectionOptionNames,
  ...callOptionNames,
  'fallbackDispatcher',
  'key',
  'priority',
  'clusterDomain',
  'webSocket',
  'askForReports',
  'propagate',
] as const);

/** What options say about each request, checked. Undefined is what no option asks for. */
export interface CallRules {
  readonly keyOf: DispatcherOptions['key'];
  readonly priorityOf: DispatcherOptions['priority'];
  readonly deadlineOf: DeadlineOf<Dispatcher.DispatchOptions> | undefined;
  readonly hedging: Hedging | undefined;
  readonly askForReports: AskForReports;
}

/** Throws EVENKEEL_OPTION for invalid values. */
export function callRules(
  options: CallOptions & Pick<DispatcherOptions, 'key' | 'priority' | 'askForReports'>,
): CallRules {
  const { key, priority, deadlineMs, hedge, askForReports } = options;
  if (key !== undefined) checkFunction('key', key);
  if (priority !== undefined) checkFunction('priority', priority);
  return {
    keyOf: key,
    priorityOf: priority,
    deadlineOf: deadlineMs === undefined ? undefined : deadlineRule(deadlineMs),
    hedging: hedge === undefined ? undefined : hedgingOf(hedge),
    askForReports: checkAskForReports('askForReports', askForReports),
  };
}

/**
 * Limits for WebSockets, and how they leave their pod. A WebSocket that exceeds a limit is closed with 1006, in undici versions that
 * have these limits.
 */
export interface WebSocketOptions extends PlacingOptions<Duplex> {
  /** Largest message, decompressed, in bytes; 0 = no limit. @defaultValue 134217728 (128 MiB), undici's own */
  readonly maxPayloadSize?: number | undefined;
  /** Fragments per message; 0 = no limit. @defaultValue 131072, undici's own */
  readonly maxFragments?: number | undefined;
  /** The close code of a WebSocket that should leave. @defaultValue 4012, because undici does not let applications send 1012 */
  readonly leaveCode?: number | undefined;
}

/** The limits, complete. */
export type WebSocketLimits = Complete<Pick<WebSocketOptions, 'maxPayloadSize' | 'maxFragments'>>;

/** The defaults of `WebSocketOptions`: bytes, fragments, and the close code of a WebSocket whose pod leaves. */
export const webSocketDefaults: WebSocketLimits & { readonly leaveCode: number } = Object.freeze({
  maxPayloadSize: 128 * 1024 * 1024,
  maxFragments: 131_072,
  leaveCode: 4012,
});

/** Fills in the limits. Throws EVENKEEL_OPTION for invalid values. */
export function webSocketLimits(options: WebSocketOptions = {}): WebSocketLimits {
  checkKeys('webSocket', options, ['maxPayloadSize', 'maxFragments', 'leaveCode', ...placingOptionNames]);
  const count = { min: 0, max: 2 ** 31 - 1, integer: true };
  const { maxPayloadSize, maxFragments, leaveCode } = webSocketDefaults;
  checkLeaveCode(options.leaveCode, leaveCode);
  resolvePlacingOptions(options, Number.POSITIVE_INFINITY);
  return {
    maxPayloadSize: checkNumber('webSocket.maxPayloadSize', options.maxPayloadSize, maxPayloadSize, count),
    maxFragments: checkNumber('webSocket.maxFragments', options.maxFragments, maxFragments, count),
  };
}

/** What `key` takes. */
export type RequestKey = (options: Dispatcher.DispatchOptions) => string | null | undefined;
