import type { Socket } from 'node:net';
import { type buildConnector, errors, type Pool } from 'undici';
import {
  type Clock,
  type Endpoint,
  endpointAddress,
  type Lease,
  type Rng,
  systemClock,
  type Transport,
} from '../../index.js';
import { explainHttp2Answer, explainSilentEnd } from '../http/answer.js';
import { asDialError, type DialErrors, type Dialled, type DialOptions, dialler } from '../http/dial.js';
import { openPod, type Pod, type PodHttpClient, type PodParts } from '../http/pod.js';
import { httpTransportTable, resolveHttpTransport } from '../http/transport-options.js';
import { endpointAppProtocol, H2C, optionError, optionTable } from '../kit/index.js';
import { delayEnd, Http2Pool, PING_MS } from './http2.js';
import { http2Defect, unparsedOf } from './internals.js';
import { type UndiciConnectionOptions, type UndiciConnectionSettings, undiciConnectionTable } from './options.js';
import { isHttp2, PodClient, PodPool } from './pod-pool.js';

/** Options of `undiciTransport`. */
export interface UndiciTransportOptions extends UndiciConnectionOptions {
  /** The Service as `http://name:port` or `https://name:port`: sent as the Host header, and over TLS the name that is checked. */
  readonly origin: string | URL;
  /** The longest time to open one connection, in ms. @defaultValue 2000 */
  readonly connectTimeoutMs?: number | undefined;
  /** The clock that is used for all times, for tests. @defaultValue the system's clock */
  readonly clock?: Clock | undefined;
  /** The source of all randomness, for tests. @defaultValue the system's randomness */
  readonly rng?: Rng | undefined;
}

type UndiciTransportSettings = UndiciConnectionSettings & (typeof httpTransportTable)['defaults'];

const transportTable = optionTable<UndiciTransportSettings>('options', {
  ...httpTransportTable.options,
  ...undiciConnectionTable.options,
});

/** What a connection to one pod needs. */
interface UndiciPodParts extends PodParts {
  /** Options that are passed on to undici's Pool. */
  readonly pool: Pool.Options;
  /** How many requests over HTTP/2 may run at once, all on one socket. */
  readonly maxConcurrentStreams: number;
  /** Which endpoints of an `http:` target are probed for HTTP/2. */
  readonly probesForH2c: (endpoint: Endpoint) => boolean;
}

/** Creates undici's own errors for failed connections, which undici's users know. */
const dialErrors: DialErrors = {
  timedOut: (message) => new errors.ConnectTimeoutError(message),
  closed: (message) => new errors.SocketError(message),
};

/** How long before the pod would close an idle socket undici closes it, in ms; a request in between would be lost. */
const KEEP_ALIVE_THRESHOLD_MS = 2_000;
const MAX_KEEP_ALIVE_MS = 600_000;

/**
 * Creates a transport that opens one undici Pool per pod: the Pool's origin is the Service, its sockets go to the pod's address. The first
 * socket is opened before the first request.
 *
 * @param options Checked; throws EVENKEEL_OPTION if one is invalid.
 */
export function undiciTransport(options: UndiciTransportOptions): Transport<Pool> {
  return new PodTransport(options, () => {});
}

/** The transport behind `undiciTransport`. The dispatcher uses this class directly, to be notified of each Pool that is opened. */
export class PodTransport implements Transport<Pool> {
  readonly #parts: Omit<UndiciPodParts, 'endpoint'>;
  readonly #opened: (pool: Pool) => void;
  /** The connection to each pod, by its Pool, while it is open. */
  readonly #connections = new Map<Pool, Pod<Pool>>();

  /** @param opened Called with every pool, so that its events can be forwarded. */
  constructor(options: UndiciTransportOptions, opened: (pool: Pool) => void) {
    this.#parts = connectionParts(options);
    this.#opened = opened;
  }

  /** The options with which sockets to the pods are opened. */
  get dial(): DialOptions {
    return this.#parts.dial;
  }

  async connect(endpoint: Endpoint, signal: AbortSignal): Promise<Pod<Pool>> {
    const probesH2c = this.#parts.probesForH2c(endpoint);
    const parts = { ...(probesH2c ? withHttp2(this.#parts) : this.#parts), endpoint };
    const connection = await openPod<Pool>(
      parts,
      (pod, first) => (isHttp2(first) ? http2Client(parts, pod) : http1Client(parts, pod)),
      signal,
    );
    this.#connections.set(connection.handle, connection);
    void connection.closed.then(() => this.#connections.delete(connection.handle));
    for (const pool of poolsOf(connection.handle)) this.#opened(pool);
    return connection;
  }

  /** The pools of all open connections. */
  get pools(): Iterable<Pool> {
    return [...this.#connections.keys()].flatMap(poolsOf);
  }

  /** Called when a request on `lease` was lost with its socket. */
  lost({ handle, endpoint }: Lease<Pool>, error: Error): void {
    this.#connections.get(handle)?.lost(error);
    const { socket } = error as errors.SocketError;
    if (this.#isPlain) explainSilentEnd(error, endpoint, socket?.bytesRead);
  }

  /** Called when the response to a request on `lease` could not be read. */
  unreadable({ endpoint }: Lease<Pool>, error: Error): void {
    if (this.#isPlain) explainHttp2Answer(error, endpoint, unparsedOf(error));
  }

  get #isPlain(): boolean {
    return this.dial.origin.protocol === 'http:';
  }
}

/** Returns a pod's Pool and, with HTTP/2, the Pool to which that passes requests that must not use HTTP/2. */
function poolsOf(handle: Pool): Pool[] {
  return handle instanceof Http2Pool ? [handle, handle.http1] : [handle];
}

function connectionParts(options: UndiciTransportOptions): Omit<UndiciPodParts, 'endpoint'> {
  const settings = transportTable.resolve(options);
  const { allowH2, maxConcurrentStreams } = settings;
  const defect = allowH2 ? http2Defect() : undefined;
  if (defect !== undefined) throw optionError('allowH2', `false with ${defect}; it needs 8.10)`, allowH2);
  const probesForH2c = h2cRule(settings);
  const common = resolveHttpTransport(options, { allowH2, errors: dialErrors });
  const parts = { ...common, pool: { ...poolOptions(settings), allowH2: false }, maxConcurrentStreams, probesForH2c };
  return allowH2 ? withHttp2(parts) : parts;
}

/** Returns the parts for pods that are offered HTTP/2, or are known to speak it. */
function withHttp2(parts: Omit<UndiciPodParts, 'endpoint'>): Omit<UndiciPodParts, 'endpoint'> {
  const { dial, pool, maxConcurrentStreams } = parts;
  const allowH2 = true;
  return {
    ...parts,
    dial: { ...dial, allowH2 },
    pool: { ...pool, allowH2, maxConcurrentStreams, pingInterval: PING_MS },
  };
}

/** Returns which endpoints are probed for HTTP/2 in the clear. Throws EVENKEEL_OPTION. */
function h2cRule({ useH2c, origin }: UndiciTransportSettings): (endpoint: Endpoint) => boolean {
  const isWanted = useH2c === true;
  const isPlain = origin.protocol === 'http:';
  if (useH2c === false || (!isWanted && !isPlain)) return () => false;
  if (!isWanted) {
    return ({ attributes }) => attributes.get(endpointAppProtocol) === H2C && http2Defect() === undefined;
  }
  if (!isPlain) throw optionError('useH2c', 'false for https: targets, where allowH2 offers HTTP/2', useH2c);
  const defect = http2Defect();
  if (defect !== undefined) throw optionError('useH2c', `false with ${defect}; it needs 8.10)`, useH2c);
  return () => true;
}

/** Returns the options for undici's Pool. */
function poolOptions(settings: UndiciTransportSettings): Pool.Options {
  const { keepAliveTimeoutMs, headersTimeoutMs, bodyTimeoutMs, maxHeaderSize, maxResponseSize } = settings;
  return {
    keepAliveTimeout: keepAliveTimeoutMs,
    keepAliveMaxTimeout: Math.max(MAX_KEEP_ALIVE_MS, keepAliveTimeoutMs),
    keepAliveTimeoutThreshold: KEEP_ALIVE_THRESHOLD_MS,
    ...(headersTimeoutMs !== undefined && { headersTimeout: headersTimeoutMs }),
    ...(bodyTimeoutMs !== undefined && { bodyTimeout: bodyTimeoutMs }),
    ...(maxHeaderSize !== undefined && { maxHeaderSize }),
    ...(maxResponseSize !== undefined && { maxResponseSize }),
  };
}

/** Converts a number that may be Infinity to undici's form of it, null. */
const limitOf = (connections: number): number | null => (Number.isFinite(connections) ? connections : null);

/** Creates the Pool of a pod that speaks HTTP/1.1: its origin is the Service, and its sockets go to the pod's address. */
function http1Client(parts: UndiciPodParts, pod: Pod<Pool>): PodHttpClient<Pool> {
  const { connections, pool, dial } = parts;
  const connect = connectorOf(pod, (socket) => {
    if (isHttp2(socket)) delayEnd(socket);
  });
  const options = { ...pool, connect, connections: limitOf(connections) };
  return poolClient(parts, pod, connections, [new PodPool(dial.origin, options, pod.socketSet.signals)]);
}

/**
 * Creates the Pools of a pod that speaks HTTP/2: one with a single connection of many streams, and one for requests that must not use
 * HTTP/2.
 */
function http2Client(parts: UndiciPodParts, pod: Pod<Pool>): PodHttpClient<Pool> {
  const { connections, pool, dial, endpoint } = parts;
  const dialHttp1 = dialler(endpoint, { ...dial, allowH2: false });
  const allowed = (streams: number, isFirst: boolean): void => {
    if (streams > 0) pod.limit(Math.min(streams, parts.maxConcurrentStreams));
    else if (!isFirst) pod.leave();
    else {
      // undici would keep the requests that wait for the session until it allows some.
      const why = `${endpointAddress(endpoint)} allows no HTTP/2 streams at present`;
      const error = asDialError(new errors.SocketError(why));
      pod.takesNone(error);
      void sessions.destroy(error).catch(() => {});
    }
  };
  const opened = (socket: Socket): void => {
    if (isHttp2(socket)) sessions.addSession(socket, allowed);
    // The pod was replaced by one that speaks HTTP/1.1 only, and needs connections of another kind.
    else pod.leave();
  };
  const http1Options: Pool.Options = {
    ...pool,
    allowH2: false,
    connections: limitOf(connections),
    connect: (_options, supplied) => dialFor(pod, () => {}, supplied, dialHttp1),
  };
  const http1 = new PodPool(dial.origin, http1Options, pod.socketSet.signals);
  const factory = (origin: URL, own: Pool.Options): PodClient => new PodClient(origin, own);
  const options = { ...pool, connect: connectorOf(pod, opened), connections: 1, factory };
  const sessions = new Http2Pool(dial.origin, options, http1, pod.socketSet.signals);
  // The real clock is used even in tests, because undici's PINGs follow real time.
  const stopWatch = sessions.watchSilence(systemClock, () => pod.socketSet.dropSpare());
  return poolClient(parts, pod, parts.maxConcurrentStreams, [sessions, http1], stopWatch);
}

/** @param pools The pod's Pool, and the Pool to which it passes some requests on. */
function poolClient(
  { dial: { origin } }: UndiciPodParts,
  pod: Pod<Pool>,
  capacity: number,
  pools: readonly [Pool, ...Pool[]],
  finished: () => void = () => {},
): PodHttpClient<Pool> {
  const [handle] = pools;
  let settleCut!: () => void;
  const wasCut = new Promise<void>((resolve) => {
    settleCut = resolve;
  });
  return {
    handle,
    capacity,
    async getStatus(path, signal) {
      const { statusCode, body } = await handle.request({ origin, path, method: 'GET', signal });
      await body.dump();
      return statusCode;
    },
    async finish() {
      // undici never reports the end of a Pool that is destroyed while it closes and a request waits in its queue, as a request does that
      // waits for the previous one on its socket. Seen in 7.30 and 8.12.
      await Promise.race([Promise.all(pools.map((pool) => pool.close().catch(() => {}))), wasCut]);
      // undici's Pool no longer counts upgraded connections, but evenkeel still waits for them.
      await pod.finished();
      finished();
    },
    cut() {
      const error = new errors.ClientDestroyedError();
      for (const pool of pools) void pool.destroy(error).catch(() => {});
      pod.cut(error);
      settleCut();
    },
  };
}

/**
 * Returns a connector that gives a Pool the spare socket, or a new one; `opened` gets the socket first. Its callback must not run before
 * the connector has returned.
 */
function connectorOf(pod: Pod<Pool>, opened: (socket: Socket) => void): buildConnector.connector {
  return (_options, supplied) => {
    if (!pod.socketSet.hasSpare) {
      dialFor(pod, opened, supplied);
      return;
    }
    queueMicrotask(() => {
      const socket = pod.socketSet.takeSpare();
      if (socket === undefined) {
        dialFor(pod, opened, supplied);
        return;
      }
      opened(socket);
      supplied(null, socket);
    });
  };
}

function dialFor(
  pod: Pod<Pool>,
  opened: (socket: Socket) => void,
  supplied: buildConnector.Callback,
  dial?: (dialled: Dialled) => Socket,
): void {
  pod.dial((error, socket) => {
    if (error === undefined) {
      opened(socket);
      supplied(null, socket);
    } else supplied(error, null);
  }, dial);
}

/** The connections and requests of a dispatcher, counted as undici counts those of a Pool. */
export interface DispatcherStats {
  /** Open connections to all pods. */
  readonly connected: number;
  /** Open connections to all pods without a running request. */
  readonly free: number;
  /** Requests that were not sent yet, including those that wait for a connection (`queued`) or a pod. */
  readonly pending: number;
  /** Requests that were not sent yet because there is no connection for them. */
  readonly queued: number;
  /** Requests that were sent, and whose response is not complete. */
  readonly running: number;
  /** All requests that have not ended: `pending` and `running`. */
  readonly size: number;
}

/** Sums up the numbers of `pools`, and adds `waiting` requests that have no pod yet. */
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
