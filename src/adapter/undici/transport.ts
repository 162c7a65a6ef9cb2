import type { Socket } from 'node:net';
import { type buildConnector, errors, type Pool } from 'undici';
import { type Clock, type Endpoint, type Lease, type Rng, systemClock, type Transport } from '../../index.js';
import { explainHttp2Answer, explainSilentEnd } from '../http/answer.js';
import { type DialErrors, type Dialled, type DialOptions, dialler } from '../http/dial.js';
import {
  openPodConnection,
  type PodConnection,
  type PodConnectionParts,
  type PodUse,
  type PodUser,
} from '../http/pod-connection.js';
import type { PodLink } from '../http/pod-link.js';
import { httpTransportTable, protocolOf, resolveHttpTransport } from '../http/transport-options.js';
import { endpointAppProtocol, H2C, optionError, optionTable } from '../kit/index.js';
import { delayEnd, Http2Pool, PING_MS } from './http2.js';
import { http2Defect, unparsedOf } from './internals.js';
import { type UndiciConnectionOptions, type UndiciConnectionSettings, undiciConnectionTable } from './options.js';
import { isHttp2, PodClient, PodPool } from './pod-pool.js';

/** Options of `undiciTransport`. */
export interface UndiciTransportOptions extends UndiciConnectionOptions {
  /** The Service as `http://name:port` or `https://name:port`: the Host header, and over TLS the name that is checked. */
  readonly origin: string | URL;
  /** Time to open one connection, in ms. @defaultValue 2000 */
  readonly connectTimeoutMs?: number | undefined;
  /** All time it uses. For tests. @defaultValue the system's clock */
  readonly clock?: Clock | undefined;
  /** All chance it uses. For tests. @defaultValue the system's randomness */
  readonly rng?: Rng | undefined;
}

type UndiciTransportSettings = UndiciConnectionSettings & (typeof httpTransportTable)['defaults'];

const transportTable = optionTable<UndiciTransportSettings>('options', {
  ...httpTransportTable.options,
  ...undiciConnectionTable.options,
});

/** The parts of a pod's connection. */
interface UndiciPodParts extends PodConnectionParts {
  /** Options for undici's pool, passed on unchanged. */
  readonly pool: Pool.Options;
  /** Concurrent requests over HTTP/2, all on one socket. */
  readonly maxConcurrentStreams: number;
  /** Which endpoints of an `http:` target are asked whether they speak HTTP/2. */
  readonly asksForH2c: (endpoint: Endpoint) => boolean;
}

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

/** The transport behind `undiciTransport`. The dispatcher uses it directly, since it is told of each Pool that is opened. */
export class PodTransport implements Transport<Pool> {
  readonly protocol: Transport<unknown>['protocol'];
  readonly #parts: Omit<UndiciPodParts, 'endpoint'>;
  readonly #opened: (pool: Pool) => void;
  /** The pools whose connection to a pod is open. */
  readonly #connections = new Map<Pool, PodConnection<Pool>>();

  /** @param opened Called with every pool, so that its events can be forwarded. */
  constructor(options: UndiciTransportOptions, opened: (pool: Pool) => void) {
    this.#parts = connectionParts(options);
    this.protocol = protocolOf(this.#parts.dial.origin);
    this.#opened = opened;
  }

  /** How sockets to the pods are opened. */
  get dial(): DialOptions {
    return this.#parts.dial;
  }

  async connect(endpoint: Endpoint, signal: AbortSignal): Promise<PodConnection<Pool>> {
    const asks = this.#parts.asksForH2c(endpoint);
    const parts = { ...(asks ? withHttp2(this.#parts) : this.#parts), endpoint };
    const use: PodUse<Pool> = {
      capacity: (first) => (isHttp2(first) ? parts.maxConcurrentStreams : parts.connections),
      user: (link, first) => (isHttp2(first) ? http2User(parts, link) : http1User(parts, link)),
    };
    const connection = await openPodConnection(parts, use, signal);
    this.#connections.set(connection.handle, connection);
    void connection.closed.then(() => this.#connections.delete(connection.handle));
    for (const pool of poolsOf(connection.handle)) this.#opened(pool);
    return connection;
  }

  /** How many pods the transport is connected to. */
  get size(): number {
    return this.#connections.size;
  }

  /** The pools of open connections. */
  get pools(): Iterable<Pool> {
    return [...this.#connections.keys()].flatMap(poolsOf);
  }

  /** A request on `lease` died with its socket. */
  lost({ handle, endpoint }: Lease<Pool>, error: Error): void {
    this.#connections.get(handle)?.lost(error);
    const { socket } = error as errors.SocketError;
    if (this.#isPlain) explainSilentEnd(error, endpoint, socket?.bytesRead);
  }

  /** The response to a request on `lease` could not be read. */
  unreadable({ endpoint }: Lease<Pool>, error: Error): void {
    if (this.#isPlain) explainHttp2Answer(error, endpoint, unparsedOf(error));
  }

  get #isPlain(): boolean {
    return this.dial.origin.protocol === 'http:';
  }
}

/** A pod's pool, and the one it passes some requests on to. */
function poolsOf(handle: Pool): Pool[] {
  return handle instanceof Http2Pool ? [handle, handle.http1] : [handle];
}

function connectionParts(options: UndiciTransportOptions): Omit<UndiciPodParts, 'endpoint'> {
  const settings = transportTable.resolve(options);
  const { allowH2, maxConcurrentStreams } = settings;
  const defect = allowH2 ? http2Defect() : undefined;
  if (defect !== undefined) throw optionError('allowH2', `false with ${defect}; it needs 8.10)`, allowH2);
  const asksForH2c = h2cRule(settings);
  const common = resolveHttpTransport(options, { allowH2, errors: dialErrors });
  const parts = { ...common, pool: { ...poolOptions(settings), allowH2: false }, maxConcurrentStreams, asksForH2c };
  return allowH2 ? withHttp2(parts) : parts;
}

/** The parts for pods that HTTP/2 is offered to, or that are known to speak it. */
function withHttp2(parts: Omit<UndiciPodParts, 'endpoint'>): Omit<UndiciPodParts, 'endpoint'> {
  const { dial, pool, maxConcurrentStreams } = parts;
  const allowH2 = true;
  return {
    ...parts,
    dial: { ...dial, allowH2 },
    pool: { ...pool, allowH2, maxConcurrentStreams, pingInterval: PING_MS },
  };
}

/** Which endpoints are asked whether they speak HTTP/2 in the clear. Throws EVENKEEL_OPTION. */
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

/** The options that go to undici's pool. */
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

/** undici's form of a number that may be Infinity. */
const limitOf = (connections: number): number | null => (Number.isFinite(connections) ? connections : null);

/** A pod for undici: a Pool whose origin is the Service, and whose sockets go to the pod's address. */
function http1User(parts: UndiciPodParts, link: PodLink): PodUser<Pool> {
  const { connections, pool, dial } = parts;
  const connect = connectorOf(link, (socket) => {
    if (isHttp2(socket)) delayEnd(socket);
  });
  const options = { ...pool, connect, connections: limitOf(connections) };
  return poolUser(parts, link, [new PodPool(dial.origin, options, link.sockets.reportAsking)]);
}

/** A pod that speaks HTTP/2: one connection with many streams, and a Pool for requests that must not use HTTP/2. */
function http2User(parts: UndiciPodParts, link: PodLink): PodUser<Pool> {
  const { connections, pool, dial, endpoint } = parts;
  const dialHttp1 = dialler(endpoint, { ...dial, allowH2: false });
  const opened = (socket: Socket): void => {
    if (isHttp2(socket)) sessions.addSession(socket);
    // The pod was replaced by one that speaks something else, and needs connections of another kind.
    else link.leave();
  };
  const http1Options: Pool.Options = {
    ...pool,
    allowH2: false,
    connections: limitOf(connections),
    connect: (_options, supplied) => dialFor(link, () => {}, supplied, dialHttp1),
  };
  const http1 = new PodPool(dial.origin, http1Options, link.sockets.reportAsking);
  const factory = (origin: URL, own: Pool.Options): PodClient => new PodClient(origin, own);
  const options = { ...pool, connect: connectorOf(link, opened), connections: 1, factory };
  const sessions = new Http2Pool(dial.origin, options, http1, link.sockets.reportAsking);
  // undici's PINGs follow real time, whatever clock a test uses.
  const stopWatch = sessions.watchSilence(systemClock, () => link.sockets.dropSpare());
  return poolUser(parts, link, [sessions, http1], stopWatch);
}

/** @param pools The pod's pool, and the one it passes some requests on to. */
function poolUser(
  { dial: { origin } }: UndiciPodParts,
  link: PodLink,
  pools: readonly [Pool, ...Pool[]],
  finished: () => void = () => {},
): PodUser<Pool> {
  const [handle] = pools;
  let settleCut!: () => void;
  const wasCut = new Promise<void>((resolve) => {
    settleCut = resolve;
  });
  return {
    handle,
    async getStatus(path, signal) {
      const { statusCode, body } = await handle.request({ origin, path, method: 'GET', signal });
      await body.dump();
      return statusCode;
    },
    async finish() {
      // undici never reports the end of a Pool that is destroyed while it closes and a request waits in its queue, as one does
      // for a turn behind the last on the same socket. Seen in 7.30 and 8.12.
      await Promise.race([Promise.all(pools.map((pool) => pool.close().catch(() => {}))), wasCut]);
      // Upgraded connections no longer belong to the pool, but they still belong to us.
      await link.finished();
      finished();
    },
    cut() {
      const error = new errors.ClientDestroyedError();
      for (const pool of pools) void pool.destroy(error).catch(() => {});
      link.cut(error);
      settleCut();
    },
  };
}

/** Gives a pool the spare socket, or a new one; `opened` gets it first. The callback must not run before the connector has returned. */
function connectorOf(link: PodLink, opened: (socket: Socket) => void): buildConnector.connector {
  return (_options, supplied) => {
    if (!link.sockets.hasSpare) {
      dialFor(link, opened, supplied);
      return;
    }
    queueMicrotask(() => {
      const socket = link.sockets.takeSpare();
      if (socket === undefined) {
        dialFor(link, opened, supplied);
        return;
      }
      opened(socket);
      supplied(null, socket);
    });
  };
}

function dialFor(
  link: PodLink,
  opened: (socket: Socket) => void,
  supplied: buildConnector.Callback,
  dial?: (dialled: Dialled) => Socket,
): void {
  link.dial((error, socket) => {
    if (error === undefined) {
      opened(socket);
      supplied(null, socket);
    } else supplied(error, null);
  }, dial);
}

/** The connections and requests of a dispatcher, as undici counts those of a Pool. */
export interface DispatcherStats {
  /** Open connections, over all pods. */
  readonly connected: number;
  /** Connections to the pods without a running request. */
  readonly free: number;
  /** Requests not sent yet, those without a connection (`queued`) or a pod included. */
  readonly pending: number;
  /** Requests not sent yet, for which there is no connection. */
  readonly queued: number;
  /** Requests sent, without a complete response. */
  readonly running: number;
  /** All requests that have not ended: `pending` and `running`. */
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
