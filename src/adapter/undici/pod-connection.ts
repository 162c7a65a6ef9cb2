import type { Socket } from 'node:net';
import { type buildConnector, errors, type Pool } from 'undici';
import { systemClock } from '../../index.js';
import { type Dialled, dialler } from '../http/dial.js';
import type { PodConnectionParts as CommonParts, PodUser, Question } from '../http/pod-connection.js';
import { MOST_OF_ANSWER, openPodConnection as open, type PodConnection } from '../http/pod-connection.js';
import type { PodLink } from '../http/pod-link.js';
import { delayEnd, isHttp2, SessionPool } from './http2.js';
import { PodClient, PodPool } from './pod-pool.js';

/** The parts of a pod's connection. */
export interface PodConnectionParts extends CommonParts {
  /** Options for undici's pool, passed on unchanged. */
  readonly pool: Pool.Options;
  /** Concurrent requests over HTTP/2, all on one socket. */
  readonly maxConcurrentStreams: number;
}

/** Opens the first socket to an endpoint and wraps it. Rejects with the reason; after an abort nothing stays open. */
export function openPodConnection(parts: PodConnectionParts, signal: AbortSignal): Promise<PodConnection<Pool>> {
  return open(
    parts,
    {
      capacity: (first) => (isHttp2(first) ? parts.maxConcurrentStreams : parts.connections),
      user: (link, first) => (isHttp2(first) ? http2User(parts, link) : http1User(parts, link)),
    },
    signal,
  );
}

/** A pod for undici: a Pool whose origin is the Service, and whose sockets go to the pod's address. */
function http1User(parts: PodConnectionParts, link: PodLink): PodUser<Pool> {
  const { connections, pool, dial } = parts;
  const connect = connectorOf(link, (socket) => (isHttp2(socket) ? delayEnd(socket) : holdEnd(socket)));
  return poolUser(parts, link, [new PodPool(dial.origin, { ...pool, connect, connections })]);
}

/** The same over HTTP/2: one connection, and a Pool for requests that must not use HTTP/2. */
function http2User(parts: PodConnectionParts, link: PodLink): PodUser<Pool> {
  const { connections, pool, dial, endpoint } = parts;
  const dialHttp1 = dialler(endpoint, { ...dial, allowH2: false });
  const opened = (socket: Socket): void => (isHttp2(socket) ? sessions.addSession(socket) : holdEnd(socket));
  const http1 = new PodPool(dial.origin, {
    ...pool,
    allowH2: false,
    connections,
    connect: (_options, supplied) => dialFor(link, opened, supplied, dialHttp1),
  });
  const factory = (origin: URL, own: Pool.Options): PodClient => new PodClient(origin, own);
  const options = { ...pool, connect: connectorOf(link, opened), connections: 1, factory };
  const sessions = new SessionPool(dial.origin, options, http1);
  // undici's PINGs follow real time, whatever clock a test uses.
  const stopWatch = sessions.watchSilence(systemClock, () => link.sockets.dropSpare());
  return poolUser(parts, link, [sessions, http1], stopWatch);
}

/** @param pools The pod's pool, and the one it passes some requests on to. */
function poolUser(
  { dial: { origin } }: PodConnectionParts,
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
    async ask(path, signal) {
      const { statusCode, body } = await handle.request({ origin, path, method: 'GET', signal });
      await body.dump();
      return statusCode;
    },
    get hasIdle() {
      return handle.stats.free > 0 || link.sockets.hasSpare;
    },
    async put({ path, headers, wanted }: Question, signal) {
      const answer = await handle.request({ origin, path, method: 'GET', headers, signal });
      await answer.body.dump({ limit: MOST_OF_ANSWER, signal });
      return { status: answer.statusCode, header: answer.headers[wanted] };
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
      link.sockets.destroyAll(error);
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

/**
 * Delays the end of an HTTP/1.1 socket until undici has processed everything received before it. undici stops its
 * parser while a body is read slowly, even if only the end of the response is left to parse. If the pod hangs up then, undici fails a
 * response it has in full ("other side closed"): seen in 7.30 on Node 20, 24 and 26, and in 8.12 on Node 26. If the response lasts
 * until the pod hangs up, 7.30 throws an assertion that ends the process. The parser is found by the name of its symbol; in a version
 * without it nothing changes.
 */
export function holdEnd(socket: Socket): void {
  const emit = socket.emit.bind(socket) as (event: string, ...values: unknown[]) => boolean;
  const read = socket.read.bind(socket);
  let isHeld = false;
  const tell = (): void => {
    if (!isHeld || isParserPaused(socket)) return;
    isHeld = false;
    // undici has released it meanwhile and no longer accepts an end.
    if (socket.destroyed) return;
    emit('end');
    socket.end();
  };
  socket.emit = (event: string, ...values: unknown[]): boolean => {
    if (event !== 'end' || !isParserPaused(socket)) return emit(event, ...values);
    isHeld = true;
    // Node would now end our side too and close the socket, and undici would continue without a response.
    socket.allowHalfOpen = true;
    // The parser asks for more data when it resumes.
    socket.read = (size?: number): unknown => {
      if (isHeld) queueMicrotask(tell);
      return read(size);
    };
    return true;
  };
}

function isParserPaused(socket: Socket): boolean {
  const symbol = Object.getOwnPropertySymbols(socket).find(({ description }) => description === 'parser');
  if (symbol === undefined) return false;
  const parser = Reflect.get(socket, symbol) as { readonly paused?: unknown } | null | undefined;
  return parser?.paused === true;
}
