import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { type buildConnector, errors, type Pool } from 'undici';
import { type Dialled, dialler } from '../http/dial.js';
import type { PodConnectionParts as CommonParts, PodUser } from '../http/pod-connection.js';
import { openPodConnection as open, type PodConnection } from '../http/pod-connection.js';
import type { PodLink } from '../http/pod-link.js';
import { DeferredEnds, SessionPool, SilenceWatch } from './http2.js';
import { PodClient, PodPool } from './pod-pool.js';

/** What the connection of one pod is made of. */
export interface PodConnectionParts extends CommonParts {
  /** Options of undici's pool, as they are. */
  readonly pool: Pool.Options;
  /** Requests at once over HTTP/2, all on one socket. */
  readonly maxConcurrentStreams: number;
}

/** Opens the first socket to an endpoint and wraps it. Rejects with what went wrong; after an abort nothing is open. */
export function openPodConnection(parts: PodConnectionParts, signal: AbortSignal): Promise<PodConnection<Pool>> {
  return open(
    parts,
    {
      capacity: (first) => (isMultiplexed(first) ? parts.maxConcurrentStreams : parts.connections),
      user: (link, first) => new PoolUser(parts, link, isMultiplexed(first)),
    },
    signal,
  );
}

function isMultiplexed(socket: Socket): boolean {
  return (socket as TLSSocket).alpnProtocol === 'h2';
}

/**
 * One pod as undici knows it: a Pool whose origin is the Service and whose sockets go to the pod's address.
 * Its first socket is opened ahead of the first request and waits aside until the pool asks for one.
 */
class PoolUser implements PodUser<Pool> {
  readonly handle: Pool;
  /** `handle` and what it hands some requests on to. */
  readonly #pools: readonly Pool[];
  readonly #parts: PodConnectionParts;
  readonly #link: PodLink;
  /** Over HTTP/2 only. */
  readonly #silence: SilenceWatch | undefined;
  /** Of sockets over HTTP/2. */
  readonly #ends = new DeferredEnds();
  /** Sockets over HTTP/2 that are in use. */
  readonly #sessions = new Set<Socket>();
  /** Bytes received on those that are closed by now. */
  #receivedBefore = 0;
  readonly #wasCut: Promise<void>;
  #settleCut!: () => void;

  constructor(parts: PodConnectionParts, link: PodLink, multiplexed: boolean) {
    this.#parts = parts;
    this.#link = link;
    this.#wasCut = new Promise((resolve) => {
      this.#settleCut = resolve;
    });
    const { connections, pool, dial, endpoint } = parts;
    const connect: buildConnector.connector = (_options, supplied) => this.#supply(supplied as Supplied);
    if (!multiplexed) {
      this.handle = new PodPool(dial.origin, { ...pool, connect, connections });
      this.#pools = [this.handle];
      return;
    }
    const dialHttp1 = dialler(endpoint, { ...dial, allowH2: false });
    const http1 = new PodPool(dial.origin, {
      ...pool,
      allowH2: false,
      connections,
      connect: (_options, supplied) => this.#dialForPool(supplied as Supplied, dialHttp1),
    });
    const factory = (origin: URL, own: Pool.Options): PodClient => new PodClient(origin, own);
    this.handle = new SessionPool(dial.origin, { ...pool, connect, connections: 1, factory }, this.#ends, http1);
    this.#pools = [this.handle, http1];
    this.#silence = this.#watchSilence();
  }

  async ask(path: string, signal: AbortSignal): Promise<number> {
    const { origin } = this.#parts.dial;
    const { statusCode, body } = await this.handle.request({ origin, path, method: 'GET', signal });
    await body.dump();
    return statusCode;
  }

  async finish(): Promise<void> {
    // undici never tells the end of a Pool that is destroyed while it closes and a request waits in its queue, as one does
    // for a turn behind the last on the same socket. Seen in 7.30 and 8.12.
    const closed = Promise.all(this.#pools.map((pool) => pool.close().catch(() => {})));
    await Promise.race([closed, this.#wasCut]);
    // Upgraded connections are the pool's no longer, but they still are ours.
    await this.#link.finished();
    this.#silence?.close();
  }

  cut(): void {
    const error = new errors.ClientDestroyedError();
    for (const pool of this.#pools) void pool.destroy(error).catch(() => {});
    this.#link.sockets.destroyAll(error);
    this.#settleCut();
  }

  #watchSilence(): SilenceWatch {
    return new SilenceWatch(
      this.#parts.clock,
      () => (this.#sessions.size > 0 ? this.#received : undefined),
      (silentMs) => {
        const error = new errors.SocketError(`no answer to an HTTP/2 PING for ${silentMs} ms`);
        for (const socket of this.#sessions) socket.destroy(error);
        this.#link.sockets.dropSpare();
      },
    );
  }

  get #received(): number {
    let received = this.#receivedBefore;
    for (const { bytesRead } of this.#sessions) received += bytesRead;
    return received;
  }

  #addSession(socket: Socket): void {
    this.#sessions.add(socket);
    socket.once('close', () => {
      this.#sessions.delete(socket);
      this.#receivedBefore += socket.bytesRead;
    });
    this.#ends.delay(socket);
  }

  /** The pool wants a socket: the spare one, or a new one. It must not be called back before it has returned. */
  #supply(supplied: Supplied): void {
    if (!this.#link.sockets.hasSpare) {
      this.#dialForPool(supplied);
      return;
    }
    queueMicrotask(() => {
      const socket = this.#link.sockets.takeSpare();
      if (socket === undefined) this.#dialForPool(supplied);
      else this.#hand(socket, supplied);
    });
  }

  #hand(socket: Socket, supplied: Supplied): void {
    if (isMultiplexed(socket)) this.#addSession(socket);
    else holdEnd(socket);
    supplied(null, socket);
  }

  #dialForPool(supplied: Supplied, dial?: (dialled: Dialled) => Socket): void {
    this.#link.dial((error, socket) => {
      if (error === undefined) this.#hand(socket, supplied);
      else supplied(error, null);
    }, dial);
  }
}

/** What undici passes to a connector. */
type Supplied = (error: Error | null, socket: Socket | null) => void;

/**
 * Has an HTTP/1.1 socket tell of the other side's end only once undici has taken all that came before it. undici stops
 * its parser while a body is read slowly, also when nothing but the end of the answer is left to parse. If the pod hangs
 * up then, undici fails an answer it has in full ("other side closed"): seen in 7.30 on Node 20, 24 and 26, and in 8.12 on
 * Node 26. If the answer lasts until the pod hangs up, 7.30 throws an assertion that ends the process. The parser is found
 * by the name of its symbol: in a version without it, undici does what it always did.
 */
export function holdEnd(socket: Socket): void {
  const emit = socket.emit.bind(socket) as (event: string, ...values: unknown[]) => boolean;
  const read = socket.read.bind(socket);
  let isHeld = false;
  const tell = (): void => {
    if (!isHeld || isParserPaused(socket)) return;
    isHeld = false;
    // Given up meanwhile: undici has let go of it, and takes no end any more.
    if (socket.destroyed) return;
    emit('end');
    socket.end();
  };
  socket.emit = (event: string, ...values: unknown[]): boolean => {
    if (event !== 'end' || !isParserPaused(socket)) return emit(event, ...values);
    isHeld = true;
    // Node would now end our side, too, and then close the socket, on which undici goes on with no answer.
    socket.allowHalfOpen = true;
    return true;
  };
  // The parser asks for more when it goes on.
  socket.read = (size?: number): unknown => {
    if (isHeld) queueMicrotask(tell);
    return read(size);
  };
}

function isParserPaused(socket: Socket): boolean {
  const symbol = Object.getOwnPropertySymbols(socket).find(({ description }) => description === 'parser');
  if (symbol === undefined) return false;
  const parser = Reflect.get(socket, symbol) as { readonly paused?: unknown } | null | undefined;
  return parser?.paused === true;
}
