import type { ClientSessionOptions, ClientSessionRequestOptions, OutgoingHttpHeaders } from 'node:http2';
import type { ConnectionOptions } from 'node:tls';
import { type BalancingOptions, type Clock, type Priority, type Rng, systemClock, systemRng } from '../../index.js';
import {
  type AskForReports,
  balancingOptionNames,
  checkAskForReports,
  checkFunction,
  checkKeys,
  checkNumber,
  optionError,
  type PerEndpoint,
} from '../kit/index.js';

/** How the sessions to each pod grow: another is opened when every one has as many streams as it may. */
export interface GrowingSessions {
  /** Kept open; requests use them first. @defaultValue 1 */
  readonly min?: number | undefined;
  /** Never exceeded; 1 to 100, and not below `min`. One beyond `min` without a request for 5 to 10 minutes is closed. */
  readonly max: number;
}

/** Options of `createHttp2Client` and `createSessionManager`. */
export interface Http2Options extends BalancingOptions {
  /**
   * Sessions to each pod: another is opened when every one has as many streams as its pod allows (`MAX_CONCURRENT_STREAMS`). A number is
   * kept open, and a request uses the one with the fewest streams. @defaultValue { min: 1, max: 10 }
   */
  readonly connections?: number | GrowingSessions | undefined;
  /** Concurrent streams on one session, if the pod allows as many. @defaultValue what the pod allows */
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
  /** Settings of `http2.connect` for each session: `settings`, `maxSessionMemory`, … @defaultValue {} */
  readonly session?: SessionSettings | undefined;
  /**
   * How long a session with running requests may be silent before it is sent a PING, in ms. gRPC servers close sessions that send many of
   * them (often more than one in 5 minutes); then the interval doubles. @defaultValue Infinity: none are sent, as with Connect and gRPC
   */
  readonly pingIntervalMs?: number | undefined;
  /** How long the answer to a PING may take before the session ends, in ms. @defaultValue 15000 */
  readonly pingTimeoutMs?: number | undefined;
  /** Path that active health checks GET; a status below 400 is healthy. @defaultValue nothing: a check then sends a PING */
  readonly healthPath?: string | undefined;
  /** The key for hash pickers: requests with the same key go to the same pod. Called for every request. @defaultValue none */
  readonly key?: ((headers: OutgoingHttpHeaders) => string | null | undefined) | undefined;
  /**
   * Which requests go first where they wait for a pod, and with a `limit` which are turned away first. Called for every request.
   * @defaultValue 'default'
   */
  readonly priority?: ((headers: OutgoingHttpHeaders) => Priority | undefined) | undefined;
  /**
   * Whether requests ask pods how busy they are, with the header `endpoint-load-metrics-format: TEXT`: those to pods that have said
   * that they report (`evenkeel/server`), or with `'always'` every request. @defaultValue true
   */
  readonly askForReports?: AskForReports | undefined;
}

/** What a session gets from its caller; the rest is the transport's to set. */
export type SessionSettings = Omit<ClientSessionOptions, 'createConnection' | 'protocol'>;

/** Options of one request, as of `ClientHttp2Session.request`. A stream's place in the order of its session cannot be chosen. */
export type Http2RequestOptions = Pick<ClientSessionRequestOptions, 'endStream' | 'signal' | 'waitForTrailers'>;

/** Names of `Http2RequestOptions`. */
export const requestOptionNames: readonly (keyof Http2RequestOptions)[] = ['endStream', 'signal', 'waitForTrailers'];

/** `Http2Options` without those of every balancer, complete and checked. */
export interface ResolvedHttp2Options {
  readonly connections: { readonly min: number; readonly max: number };
  readonly maxConcurrentStreams: number;
  readonly tls: PerEndpoint<ConnectionOptions>;
  readonly credentialsRefreshMs: number;
  readonly session: SessionSettings;
  readonly pingIntervalMs: number;
  readonly pingTimeoutMs: number;
  readonly healthPath: string | undefined;
  readonly key: Http2Options['key'];
  readonly priority: Http2Options['priority'];
  readonly askForReports: AskForReports;
  readonly clock: Clock;
  readonly rng: Rng;
}

/** Names of `Http2Options` that are not options of every balancer. */
const ownNames = [
  'connections',
  'maxConcurrentStreams',
  'tls',
  'credentialsRefreshMs',
  'session',
  'pingIntervalMs',
  'pingTimeoutMs',
  'healthPath',
  'key',
  'priority',
  'askForReports',
] as const satisfies readonly (keyof Http2Options)[];

/** The most sessions to one pod. */
const MAX_SESSIONS = 100;
/** Longest time of an option, in ms: a day. */
const MAX_MS = 86_400_000;
/** Settings that the transport decides. */
const dialled = ['host', 'port', 'path', 'socket', 'ALPNProtocols', 'session', 'lookup'];

/** Fills in defaults and checks everything. Throws EVENKEEL_OPTION. */
export function resolveHttp2Options(origin: URL, options: Http2Options): ResolvedHttp2Options {
  checkKeys('options', options, [...balancingOptionNames, ...ownNames]);
  const { tls, session = {}, healthPath, key, priority, clock = systemClock, rng = systemRng } = options;
  if (tls !== undefined) {
    const fits = typeof tls === 'function' || (typeof tls === 'object' && tls !== null);
    if (!fits) throw optionError('tls', 'an object as for tls.connect, or a function that returns one', tls);
    if (origin.protocol === 'http:') throw optionError('tls', 'left out for http: targets', tls);
    if (typeof tls !== 'function') checkTls(tls);
  }
  if (typeof session !== 'object' || session === null) {
    throw optionError('session', 'an object as for http2.connect', session);
  }
  for (const name of ['createConnection', 'protocol']) {
    if (name in session)
      throw optionError(`session.${name}`, 'left out, the transport sets it', session[name as never]);
  }
  if (healthPath !== undefined && (typeof healthPath !== 'string' || !healthPath.startsWith('/'))) {
    throw optionError('healthPath', 'a path that begins with /', healthPath);
  }
  if (key !== undefined) checkFunction('key', key);
  if (priority !== undefined) checkFunction('priority', priority);
  return {
    connections: resolveSessions(options.connections),
    maxConcurrentStreams: checkNumber('maxConcurrentStreams', options.maxConcurrentStreams, Number.POSITIVE_INFINITY, {
      min: 1,
      integer: true,
      infinite: true,
    }),
    tls: tls ?? {},
    credentialsRefreshMs: checkNumber('credentialsRefreshMs', options.credentialsRefreshMs, 60_000, {
      min: 1_000,
      max: MAX_MS,
      integer: true,
      infinite: true,
    }),
    session: { ...session },
    pingIntervalMs: checkNumber('pingIntervalMs', options.pingIntervalMs, Number.POSITIVE_INFINITY, {
      min: 1_000,
      max: MAX_MS,
      infinite: true,
    }),
    pingTimeoutMs: checkNumber('pingTimeoutMs', options.pingTimeoutMs, 15_000, { min: 1, max: MAX_MS }),
    healthPath,
    key,
    priority,
    askForReports: checkAskForReports('askForReports', options.askForReports),
    clock,
    rng,
  };
}

/** Checks TLS settings. Throws EVENKEEL_OPTION. */
export function checkTls(tls: ConnectionOptions): ConnectionOptions {
  if (typeof tls !== 'object' || tls === null) throw new TypeError('it returned no object as for tls.connect');
  for (const name of dialled) {
    if (name in tls) throw optionError(`tls.${name}`, 'left out, the transport sets it', tls[name as never]);
  }
  return tls;
}

function resolveSessions(connections: Http2Options['connections']): ResolvedHttp2Options['connections'] {
  const bounds = { min: 1, max: MAX_SESSIONS, integer: true };
  if (connections === undefined) return { min: 1, max: 10 };
  if (typeof connections !== 'object' || connections === null) {
    const count = checkNumber('connections', connections, 1, bounds);
    return { min: count, max: count };
  }
  checkKeys('connections', connections, ['min', 'max']);
  const min = checkNumber('connections.min', connections.min, 1, bounds);
  if (connections.max === undefined) throw optionError('connections.max', 'a number', undefined);
  return { min, max: checkNumber('connections.max', connections.max, min, { ...bounds, min }) };
}
