import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type ClientSessionRequestOptions,
  connect,
  constants,
  type OutgoingHttpHeaders,
  type Settings,
} from 'node:http2';
import type { Socket } from 'node:net';
import { type Endpoint, EvenkeelError, endpointAddress } from '../../index.js';
import { afterPendingIo, asError, type GroupMember, type MemberEvents, offAbort, onAbort } from '../kit/index.js';
import type { ResolvedHttp2Options } from './options.js';

/** What all sessions of one HTTP/2 client have in common. */
export interface SessionContext {
  readonly origin: URL;
  readonly options: ResolvedHttp2Options;
  readonly keepalive: Keepalive;
}

/** A pod that rejects PINGs as too many gets them less and less often, down to this interval in ms: gRPC servers allow one in 5 minutes. */
const MAX_INTERVAL_MS = 600_000;
/** The intervals of so many pods are remembered; older ones are forgotten. */
const MAX_SLOWED = 1_000;

/**
 * How often the sessions of a client send PINGs. Servers may reject PINGs that come too often; a pod that does gets them less often, on
 * later sessions as well. What one pod says changes nothing for others.
 */
export class Keepalive {
  readonly #intervalMs: number;
  /** The intervals of pods that rejected PINGs, by the keys of their endpoints, in ms. */
  readonly #slowed = new Map<string, number>();

  constructor(intervalMs: number) {
    this.#intervalMs = intervalMs;
  }

  /** How long a session to `endpoint` with running requests may receive nothing before a PING is sent, in ms; Infinity = no PING is sent. */
  intervalMs({ key }: Endpoint): number {
    return this.#slowed.get(key) ?? this.#intervalMs;
  }

  /** The pod at `endpoint` has ended a session because of too many PINGs. */
  slowDown(endpoint: Endpoint): void {
    const intervalMs = Math.min(2 * this.intervalMs(endpoint), Math.max(MAX_INTERVAL_MS, this.#intervalMs));
    this.#slowed.delete(endpoint.key);
    this.#slowed.set(endpoint.key, intervalMs);
    if (this.#slowed.size <= MAX_SLOWED) return;
    const [oldest] = this.#slowed.keys();
    if (oldest !== undefined) this.#slowed.delete(oldest);
  }
}

/** The debug data in the GOAWAY that servers send to clients with too many PINGs (source: gRFC A8). */
const TOO_MANY_PINGS = 'too_many_pings';

/** One HTTP/2 connection to one pod. It is ready when the pod's SETTINGS frame has arrived. */
export class Http2Session implements GroupMember {
  streams = 0;
  wasUsed = false;
  readyAtMs: number = Number.POSITIVE_INFINITY;
  /** Resolves when the session and its socket are closed, with the error that ended them. */
  readonly closed: Promise<Error | undefined>;
  readonly #endpoint: Endpoint;
  readonly #context: SessionContext;
  readonly #capacityChanged: () => void;
  readonly #opening = new AbortController();
  #events: MemberEvents | undefined;
  #capacity = 0;
  #socket: Socket | undefined;
  #session: ClientHttp2Session | undefined;
  /** Whether the pod's SETTINGS frame has arrived. */
  #isReady = false;
  /** Whether the session takes no new requests, because it was given up or because of a GOAWAY or an error. */
  #left = false;
  /** The number of the last stream that the pod may have processed, from its GOAWAY; Infinity before a GOAWAY. */
  #lastProcessed = Number.POSITIVE_INFINITY;
  #hadTooManyPings = false;
  #failure: Error | undefined;
  #settleClosed!: (error: Error | undefined) => void;
  /** Stops sending PINGs on this session. */
  #stopPings: () => void = () => {};

  /** @param open Opens the session's socket. @param capacityChanged Called when the pod changes the number of streams it allows. */
  constructor(
    endpoint: Endpoint,
    context: SessionContext,
    open: (signal: AbortSignal) => Promise<Socket>,
    events: MemberEvents,
    capacityChanged: () => void,
  ) {
    this.#endpoint = endpoint;
    this.#context = context;
    this.#events = events;
    this.#capacityChanged = capacityChanged;
    this.closed = new Promise((resolve) => {
      this.#settleClosed = resolve;
    });
    this.#open(open).catch((error) => this.#ended(asError(error)));
  }

  /** How many concurrent streams the pod and the options allow on this session. */
  get capacity(): number {
    return this.#capacity;
  }

  /** Whether this session can begin a request. */
  get isOpen(): boolean {
    const session = this.#session;
    return !this.#left && session !== undefined && !session.closed && !session.destroyed;
  }

  /** Begins a request on this session. If Node throws, nothing was sent. */
  request(headers: OutgoingHttpHeaders, options: ClientSessionRequestOptions): ClientHttp2Stream {
    return (this.#session as ClientHttp2Session).request(headers, options);
  }

  /** Whether the pod has said that it does not process `stream` (RFC 9113, 6.8). */
  refused(stream: ClientHttp2Stream): boolean {
    return stream.rstCode === constants.NGHTTP2_REFUSED_STREAM || (stream.id ?? 0) > this.#lastProcessed;
  }

  /** Whether this session takes no more requests: the pod sent a GOAWAY, the connection failed, or the session was given up. */
  get hasLeft(): boolean {
    return this.#left;
  }

  /** The session's socket; undefined while the session opens. */
  get socket(): Socket | undefined {
    return this.#socket;
  }

  /** The error that ended the session, if there was one. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /** Makes the session keep the process alive while requests run on it, and not otherwise. */
  ref(isBusy: boolean): void {
    if (isBusy) this.#session?.ref();
    else this.#session?.unref();
  }

  /** Sends the pod a PING, and resolves when the pod has answered it. */
  ping(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const aborted = (): void => reject(signal.reason);
      onAbort(signal, aborted);
      const session = this.#session as ClientHttp2Session;
      const isSent =
        this.isOpen &&
        session.ping((error) => {
          offAbort(signal, aborted);
          if (error === null) resolve();
          else reject(error);
        });
      if (isSent) return;
      offAbort(signal, aborted);
      reject(new Error('the session takes no PING'));
    });
  }

  release(): void {
    this.#events = undefined;
    this.#leave();
    if (!this.#isReady) this.cut();
    else {
      this.#session?.close();
      this.endIfIdle();
    }
  }

  /**
   * Ends a session that takes no more requests once none runs on it. Node only ends its own side of the connection and leaves the rest to
   * the pod, and some pods keep the connection.
   */
  endIfIdle(): void {
    if (!this.#left || this.streams > 0) return;
    this.#session?.destroy();
    this.#socket?.destroySoon();
  }

  /** Ends the session and all requests on it. */
  cut(): void {
    this.#opening.abort(new Error('the session was cut'));
    this.#session?.destroy(undefined, constants.NGHTTP2_CANCEL);
  }

  async #open(open: (signal: AbortSignal) => Promise<Socket>): Promise<void> {
    const { signal } = this.#opening;
    const socket = await open(signal);
    // Until Node's session takes over the socket, only this listener handles the socket's errors.
    socket.on('error', (error) => this.#failed(error));
    socket.prependListener('end', () => {
      if (!this.#left && wasReset(socket))
        this.#failed(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }));
    });
    if (signal.aborted) {
      socket.destroy();
      throw signal.reason;
    }
    const { origin, options } = this.#context;
    const { settings } = options.session;
    const session = connect(origin, {
      ...options.session,
      // Server push is off, because nobody would read what a pod pushes.
      settings: { ...settings, enablePush: false },
      createConnection: () => socket,
    });
    this.#socket = socket;
    this.#session = session;
    session.unref();
    session.on('error', (error) => this.#failed(error));
    session.on('close', () => this.#ended(this.#failure));
    session.on('goaway', (code, last, data) => this.#goaway(code, last, data));
    session.on('remoteSettings', (remote) => this.#learn(remote));
  }

  #learn({ maxConcurrentStreams = Number.POSITIVE_INFINITY }: Settings): void {
    this.#capacity = Math.min(maxConcurrentStreams, this.#context.options.maxConcurrentStreams);
    this.#capacityChanged();
    if (this.#isReady || this.#left) return;
    this.#isReady = true;
    this.#keepAlive();
    this.#events?.ready();
  }

  #goaway(code: number, lastStream: number, data: NodeJS.ArrayBufferView | undefined): void {
    this.#lastProcessed = lastStream;
    // A pod may send any number of GOAWAY frames on a session.
    if (!this.#hadTooManyPings && isTooManyPings(data)) {
      this.#hadTooManyPings = true;
      this.#context.keepalive.slowDown(this.#endpoint);
    }
    this.#leave();
    // Node ends the session itself after an error code. What it says then is the reason why a session never opened.
    if (code !== constants.NGHTTP2_NO_ERROR) {
      if (this.#isReady) this.#tellLost(new Error(`the pod sent GOAWAY with code ${code}`));
      return;
    }
    this.#tellLost(undefined);
    this.endIfIdle();
  }

  #failed(error: Error): void {
    this.#failure ??= error;
    this.#leave();
  }

  #leave(): void {
    this.#left = true;
    this.#stopPings();
  }

  #ended(error: Error | undefined): void {
    this.#leave();
    this.#socket?.destroy();
    this.#settleClosed(error);
    this.#tellLost(this.#isReady ? error : this.#neverOpened(error));
  }

  #tellLost(error: Error | undefined): void {
    const events = this.#events;
    this.#events = undefined;
    events?.lost(error);
  }

  #neverOpened(cause: Error | undefined): Error {
    // Errors of the TLS options or of the socket already say what failed, so they are passed on unchanged.
    if (this.#session === undefined && cause !== undefined) return cause;
    const address = endpointAddress(this.#endpoint);
    const why = cause === undefined ? 'it closed the connection' : cause.message;
    return new EvenkeelError('EVENKEEL_CONNECT', `${address} does not speak HTTP/2 as expected: ${why}`, {
      cause,
      endpoint: address,
    });
  }

  /** Sends the pod a PING whenever requests run and nothing was received for `pingIntervalMs`. */
  #keepAlive(): void {
    const { keepalive, options } = this.#context;
    const { clock, pingTimeoutMs } = options;
    const intervalMs = keepalive.intervalMs(this.#endpoint);
    if (intervalMs === Number.POSITIVE_INFINITY) return;
    let received = -1;
    const check = (): void => {
      const now = (this.#socket as Socket).bytesRead;
      const isSilent = now === received && this.streams > 0;
      received = now;
      if (isSilent) ping();
      else timer = clock.timer(check, intervalMs);
    };
    const ping = (): void => {
      const isAlive = (): boolean => (this.#socket as Socket).bytesRead !== received;
      (this.#session as ClientHttp2Session).ping(() => {});
      timer = clock.timer(() => {
        // If this process was blocked, the answer to the PING may have arrived without having been read, so pending input is read first.
        afterPendingIo(() => {
          if (this.#left) return;
          if (isAlive()) check();
          else {
            const error = new Error(`${endpointAddress(this.#endpoint)} did not answer a PING for ${pingTimeoutMs} ms`);
            this.#session?.destroy(Object.assign(error, { code: 'ETIMEDOUT' }), constants.NGHTTP2_CANCEL);
          }
        });
      }, pingTimeoutMs);
    };
    let timer = clock.timer(check, intervalMs);
    this.#stopPings = () => timer.cancel();
  }
}

function isTooManyPings(data: NodeJS.ArrayBufferView | undefined): boolean {
  return data !== undefined && Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString() === TOO_MANY_PINGS;
}

/**
 * Whether a socket whose other side has ended was reset. The system reports a reset once: if Node's session writes at that moment, such as
 * the acknowledgement of the pod's settings, the write gets the error, Node drops it, and the next read finds an end as if the pod had
 * closed the connection in order. A connection that was reset no longer has another side, and one that was closed still has.
 */
function wasReset(socket: Socket): boolean {
  return !socket.writableEnded && socket.remoteAddress === undefined;
}
