import type { ClientSessionOptions, ClientSessionRequestOptions, OutgoingHttpHeaders } from 'node:http2';
import type { ConnectionOptions } from 'node:tls';
import { type BalancingOptions, type Clock, type Priority, type Rng, systemClock, systemRng } from '../../index.js';
import { httpTransportTable } from '../http/transport-options.js';
import {
  type AskForReports,
  balancingTable,
  type ConnectionCounts,
  checkAskForReports,
  checkedOption,
  checkKeys,
  checkTlsOptions,
  connectionsOption,
  type Filled,
  functionOption,
  numberOption,
  type OptionTable,
  optionError,
  optionTable,
  ownProperties,
  type PerEndpoint,
  poolDefaults,
  setByHttp,
} from '../kit/index.js';

/** How many sessions there are to each pod: another is opened when every open one has as many streams as it may. */
export interface GrowingSessions {
  /** How many sessions to a pod stay open; requests use them first. @defaultValue 1 */
  readonly min?: number | undefined;
  /**
   * The largest number of sessions to a pod: 1 to 100, and not below `min`. A session beyond `min` is closed after 5 to 10 minutes without
   * a request.
   */
  readonly max: number;
}

/**
 * Options of `createHttp2Client` and `createSessionManager`: sessions to each pod and their TLS, health checks, keys and priorities of
 * requests, and the options of every balancer. An invalid option throws EVENKEEL_OPTION.
 */
export interface Http2Options extends BalancingOptions {
  /**
   * How many sessions there are to each pod. With `{ min, max }` another session is opened when every open one has as many streams as its
   * pod allows (`MAX_CONCURRENT_STREAMS`). A number keeps that many open, and a request uses the one with the fewest streams. @defaultValue
   * { min: 1, max: 10 }
   */
  readonly connections?: number | GrowingSessions | undefined;
  /** How many streams one session carries at once, if the pod allows as many. @defaultValue Infinity: as many as the pod allows */
  readonly maxConcurrentStreams?: number | undefined;
  /**
   * TLS settings for `https:` targets (`ca`, `cert`, `key`, …), as `tls.connect` takes them. The name that is sent and checked
   * is the Service's unless `servername` says otherwise. Or a function, sync or async, called for each new session, within its
   * connect timeout: for certificates that are renewed. If it throws, the error is EVENKEEL_OPTION and does not count against the pod.
   * @defaultValue {}
   */
  readonly tls?: PerEndpoint<ConnectionOptions> | undefined;
  /**
   * How often the function given as `tls` is also called while sessions are open, in ms, ± 20 %. If it returns other certificates or keys
   * (`cert`, `key`, `ca`, `pfx`), the sessions are replaced: new ones are opened first, and running requests finish on the old ones.
   * Infinity = never. @defaultValue 60000
   */
  readonly credentialsRefreshMs?: number | undefined;
  /** Options of `http2.connect` for each session: `settings`, `maxSessionMemory` and others. @defaultValue {} */
  readonly session?: SessionSettings | undefined;
  /**
   * How long a session with running requests may receive nothing before a PING is sent, in ms. gRPC servers close sessions that send PINGs
   * often (as a rule more than one in 5 minutes); then the interval doubles for that pod, up to 10 minutes. @defaultValue Infinity: no PING
   * is sent, as with Connect and gRPC
   */
  readonly pingIntervalMs?: number | undefined;
  /** How long a pod may take to answer a PING before the session ends, in ms. @defaultValue 15000 */
  readonly pingTimeoutMs?: number | undefined;
  /** The path that active health checks GET; a status below 400 is healthy. @defaultValue none: a check sends a PING */
  readonly healthPath?: string | undefined;
  /**
   * Returns the key of a request for hash pickers: requests with the same key go to the same pod. Called for every request. @defaultValue
   * none
   */
  readonly key?: ((headers: OutgoingHttpHeaders) => string | null | undefined) | undefined;
  /**
   * Returns the priority of a request: which requests go first where they wait for a pod, and which a `limit` turns away first. Called for
   * every request. @defaultValue 'default'
   */
  readonly priority?: ((headers: OutgoingHttpHeaders) => Priority | undefined) | undefined;
  /**
   * Whether requests ask pods for load reports, with the header `endpoint-load-metrics-format: TEXT`. With true, only requests to pods that
   * announced that they report (`evenkeel/server`); with `'always'`, every request. @defaultValue true
   */
  readonly askForReports?: AskForReports | undefined;
}

/** Options of `http2.connect` that an application may set for each session; the transport sets the rest. */
export type SessionSettings = Omit<ClientSessionOptions, 'createConnection' | 'protocol'>;

/** Options of one request, a part of those of Node's `ClientHttp2Session.request`. Priorities within a session are left out. */
export type Http2RequestOptions = Pick<ClientSessionRequestOptions, 'endStream' | 'signal' | 'waitForTrailers'>;

/** The names of the options in `Http2RequestOptions`. */
export const requestOptionNames: readonly (keyof Http2RequestOptions)[] = ['endStream', 'signal', 'waitForTrailers'];

type OwnOptions = Omit<Http2Options, keyof BalancingOptions | 'connections' | 'maxConcurrentStreams'>;

/** The options of an HTTP/2 client except those of every balancer, with defaults filled in and everything checked. */
export interface Http2Settings extends Filled<OwnOptions, 'healthPath' | 'key' | 'priority'> {
  readonly connections: ConnectionCounts;
  readonly maxConcurrentStreams: number;
}

/** The checked options of an HTTP/2 client that concern its sessions. */
export interface ResolvedHttp2Options extends Http2Settings {
  readonly connectTimeoutMs: number;
  readonly clock: Clock;
  readonly rng: Rng;
}

const { credentialsRefreshMs, healthPath } = httpTransportTable.options;
/** The largest value of any time among the HTTP/2 options, in ms: a day. */
const MAX_MS = 86_400_000;

export const http2Table: OptionTable<Http2Settings> = optionTable('options', {
  connections: connectionsOption({ min: 1, max: 10 }),
  maxConcurrentStreams: numberOption(Number.POSITIVE_INFINITY, { min: 1, integer: true, infinite: true }),
  tls: checkedOption<PerEndpoint<ConnectionOptions>>({}, (name, value) => {
    if (typeof value === 'function') return value as PerEndpoint<ConnectionOptions>;
    if (typeof value === 'object' && value !== null) return checkTlsOptions(name, value, setByHttp);
    throw optionError(name, 'an object as for tls.connect, or a function that returns one', value);
  }),
  credentialsRefreshMs,
  session: checkedOption<SessionSettings>({}, (name, value) => {
    if (typeof value !== 'object' || value === null) throw optionError(name, 'an object as for http2.connect', value);
    const own = ownProperties(value);
    for (const other of ['createConnection', 'protocol']) {
      if (other in own) throw optionError(`${name}.${other}`, 'left out, the transport sets it', own[other as never]);
    }
    return own;
  }),
  pingIntervalMs: numberOption(Number.POSITIVE_INFINITY, { min: 1_000, max: MAX_MS, infinite: true }),
  pingTimeoutMs: numberOption(15_000, { min: 1, max: MAX_MS }),
  healthPath,
  key: functionOption<NonNullable<Http2Options['key']>>(),
  priority: functionOption<NonNullable<Http2Options['priority']>>(),
  askForReports: checkedOption<AskForReports>(true, checkAskForReports),
});

/** Fills in the defaults of an HTTP/2 client's options and checks them. Throws EVENKEEL_OPTION. */
export function resolveHttp2Options(origin: URL, options: Http2Options): ResolvedHttp2Options {
  checkKeys('options', options, [...balancingTable.names, ...http2Table.names]);
  const { tls, pool = {}, clock = systemClock, rng = systemRng } = ownProperties(options);
  const { connectTimeoutMs = poolDefaults.connectTimeoutMs } = ownProperties(pool);
  const settings = http2Table.resolveOwn(options);
  if (tls !== undefined && origin.protocol === 'http:') throw optionError('tls', 'left out for http: targets', tls);
  return { ...settings, connectTimeoutMs, clock, rng };
}
