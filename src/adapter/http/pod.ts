import { Socket } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import { type Clock, type Connection, type Endpoint, endpointAddress, type Rng, type Timer } from '../../index.js';
import { Closing, isPerEndpointError, type ValueWatch } from '../kit/index.js';
import { shownCertificate, watchCertificates } from './certificates.js';
import { type Dialled, type DialOptions, dialLeftError, dialler, isPodLeftError, isProtocolError } from './dial.js';
import { isTlsError, PodSockets } from './pod-sockets.js';

/** What is needed to reach one pod. */
export interface PodParts {
  readonly endpoint: Endpoint;
  readonly dial: DialOptions;
  /** The most sockets to the pod, and so the most concurrent requests over HTTP/1.1. */
  readonly connections: number;
  readonly healthPath: string | undefined;
  /** Milliseconds between two calls of a `tls` function while the connection to the pod is open; Infinity = never. */
  readonly credentialsRefreshMs: number;
  readonly clock: Clock;
  readonly rng: Rng;
}

/** The HTTP client of an adapter, which uses the sockets of one pod. */
export interface PodHttpClient<C> {
  readonly handle: C;
  /** How many requests the pod takes at once while it works, as far as that is known when its first socket is open. */
  readonly capacity: number;
  /** Sends a GET for `path` and resolves with the status once the response is complete. */
  getStatus(path: string, signal: AbortSignal): Promise<number | undefined>;
  /** Makes the client accept no new request and let running ones finish; resolves when no socket is left. Never rejects. */
  finish(): Promise<void>;
  /** Cuts the client's running requests, even while `finish` is pending. */
  cut(): void;
}

/** The shortest time, in ms, between two sockets that are opened ahead of the next request because the pod closed an idle one. */
const REOPEN_MS = 30_000;
/** The random share added to the pause before an idle socket is opened again, so that clients do not move in step. */
const REOPEN_SPREAD = 0.2;
/**
 * How long a pod that works but accepts no further connection is limited to the connections it has, in ms. Its backlog is full, or our own
 * machine is at its limit. The limit is lifted as soon as the pod accepts one connection, because it can then take more. (A database counts
 * its connections, so its limit is raised step by step: `ConnectionCap`.)
 */
const CAPPED_MS = 5_000;

/**
 * The most sockets per pod that connect at once for waiting requests. Without this, a burst of thousands would open as many as undici
 * itself does, but a listener's backlog holds a few hundred, and the kernel retries what it drops only seconds later.
 */
const MAX_PENDING_DIALS = 128;
/** How long a count of the bytes received from a pod is reused, in ms, because counting looks at every socket. */
const COUNT_LASTS_MS = 100;

/** Error codes that are about our own machine, not the pod: no file descriptor, port or memory is left for another socket. */
const LOCAL_CODES: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL', 'EACCES']);

/** How a `Pod` opens its sockets, and what it knows of them. */
export type SocketsOfPod = Pick<PodParts, 'endpoint' | 'healthPath' | 'clock' | 'rng'> & {
  readonly dial: (dialled: Dialled) => Socket;
  /** Notices when the certificates that the sockets are opened with have been renewed. */
  readonly certificates?: ValueWatch<ConnectionOptions> | undefined;
};

/**
 * Opens the first socket to a pod, before the first request needs it. Rejects with the reason of a failure; after an abort no socket stays
 * open.
 *
 * @param clientOf Creates the client that uses the pod's sockets; the protocol was negotiated on the first one.
 */
export async function openPod<C>(
  parts: PodParts,
  clientOf: (pod: Pod<C>, first: Socket) => PodHttpClient<C>,
  signal: AbortSignal,
): Promise<Pod<C>> {
  const { endpoint, dial: options } = parts;
  const certificates =
    options.origin.protocol === 'https:' ? watchCertificates(options.tls, endpoint, parts) : undefined;
  const dial = dialler(endpoint, certificates === undefined ? options : { ...options, tls: () => certificates.read() });
  try {
    const first = await dialFirst(dial, signal);
    if (certificates !== undefined) await shownCertificate(first, options.connectTimeoutMs, signal);
    return new Pod(first, { ...parts, dial, certificates }, clientOf);
  } catch (error) {
    certificates?.close();
    throw error;
  }
}

/**
 * One pod over HTTP: opens, counts and watches the sockets that an HTTP client uses, and judges the pod by them: how many requests it can
 * take, whether it is leaving, whether it is gone.
 */
export class Pod<C> implements Connection<C> {
  /** A field rather than a getter, because each request reads it. */
  readonly handle: C;
  readonly socketSet: PodSockets;
  readonly closed: Promise<Error | undefined>;
  readonly leaving: Promise<void>;
  readonly outdated?: Promise<void>;
  readonly #parts: SocketsOfPod;
  readonly #client: PodHttpClient<C>;
  /** How many requests the pod takes at once now. */
  #capacity: number;
  /** How many requests the pod takes at once while it works. */
  #fullCapacity: number;
  #capacityChanged: (() => void) | undefined;
  #cappedTimer: Timer | undefined;
  #reopenTimer: Timer | undefined;
  #reopenedAtMs: number;
  /** How many bytes the pod had sent when it was last checked whether the pod is still there. */
  #receivedAtCheck = 0;
  #checking = false;
  /** The error of a request that was lost with its socket while other sockets to the pod were still open. */
  #suspectError: Error | undefined;
  /** Whether the pod has left the Service. */
  #left = false;
  /** Whether all connections to the pod are closed and it accepts no other. */
  #isGone = false;
  /** The sockets to the pod that are connecting for a waiting request. */
  readonly #awaited = new Set<Socket>();
  /** The waiting requests for which no socket to the pod is connecting yet. */
  readonly #queued: { readonly dialled: Dialled; readonly dial: ((dialled: Dialled) => Socket) | undefined }[] = [];
  #received = 0;
  #receivedCountedMs = Number.NEGATIVE_INFINITY;
  #settleClosed!: (error: Error | undefined) => void;
  #settleLeaving!: () => void;

  readonly #closing = new Closing(
    () => {
      this.#stop();
      return this.#client.finish();
    },
    () => this.#client.cut(),
  );

  /**
   * @param first The open socket for the first request. No reference to it is kept, because Node keeps the last request of a socket alive
   * even after the socket was destroyed.
   */
  constructor(first: Socket, parts: SocketsOfPod, clientOf: (pod: Pod<C>, first: Socket) => PodHttpClient<C>) {
    this.#parts = parts;
    this.closed = new Promise((resolve) => {
      this.#settleClosed = resolve;
    });
    this.leaving = new Promise((resolve) => {
      this.#settleLeaving = resolve;
    });
    const { certificates } = parts;
    if (certificates !== undefined) {
      this.outdated = certificates.outdated;
      void this.closed.then(() => certificates.close());
    }
    this.#reopenedAtMs = parts.clock.now();
    this.socketSet = new PodSockets(parts.dial, (failure) => this.#emptied(failure));
    this.socketSet.add(first);
    this.socketSet.setAside(first);
    this.#client = clientOf(this, first);
    this.handle = this.#client.handle;
    this.#capacity = this.#client.capacity;
    this.#fullCapacity = this.#capacity;
  }

  get capacity(): number {
    return this.#capacity;
  }

  get sockets(): number {
    return this.socketSet.open;
  }

  watchCapacity(changed: () => void): void {
    this.#capacityChanged = changed;
  }

  /** The pod has stated how many requests it takes at once. */
  limit(capacity: number): void {
    const isWorking = this.#capacity === this.#fullCapacity;
    this.#fullCapacity = capacity;
    if (isWorking) this.#setCapacity(capacity);
  }

  /**
   * Opens a socket for a waiting request. Fails with `dialLeftError` if the pod has left, or leaves meanwhile.
   *
   * @param dial Opens the socket. @defaultValue the function that opens all other sockets
   */
  dial(dialled: Dialled, dial?: (dialled: Dialled) => Socket): void {
    if (this.#awaited.size < MAX_PENDING_DIALS) this.#dialNow(dialled, dial);
    else this.#queued.push({ dialled, dial });
  }

  #dialNow(dialled: Dialled, dial: ((dialled: Dialled) => Socket) | undefined): void {
    const receivedBefore = this.#countReceived();
    const socket = this.socketSet.connect((error, opened) => {
      // The dialed socket is removed rather than the opened one, which may be the TLS socket around it.
      this.#awaited.delete(socket);
      // The pod is judged before the request learns the result, so that a retry already takes the judgment into account.
      if (error === undefined) this.#accepted();
      else if (!isPodLeftError(error) && !isProtocolError(error)) {
        this.#refused(error, this.socketSet.received > receivedBefore, dial === undefined);
      }
      dialled(error, opened);
      const queued = this.#queued.shift();
      if (queued !== undefined) this.#dialNow(queued.dialled, queued.dial);
    }, dial);
    this.#awaited.add(socket);
    // An HTTP client may have queued many requests for a pod that is gone, and would let each of them dial, one after the other.
    if (this.#left || this.#isGone) socket.destroy(dialLeftError(this.#parts.endpoint));
  }

  /** How many bytes the pod has sent so far, or had sent up to `COUNT_LASTS_MS` ago. */
  #countReceived(): number {
    const nowMs = this.#parts.clock.now();
    if (nowMs - this.#receivedCountedMs >= COUNT_LASTS_MS) {
      this.#receivedCountedMs = nowMs;
      this.#received = this.socketSet.received;
    }
    return this.#received;
  }

  /** The pod left the Service: requests that wait for a socket move to another pod. */
  left(): void {
    this.#left = true;
    this.#cancelDials(dialLeftError(this.#parts.endpoint));
  }

  /** Ends all connections to the pod at once. */
  cut(error?: Error): void {
    this.#cancelDials(error ?? new Error('the connection was cut'));
    this.socketSet.destroyAll(error);
  }

  #cancelDials(error: Error): void {
    // Queued requests are removed first, because each socket that ends would otherwise start the next of them.
    const queued = this.#queued.splice(0);
    for (const socket of this.#awaited) socket.destroy(error);
    for (const { dialled } of queued) dialled(error, new Socket().destroy());
  }

  /** The pod is in the Service's endpoint set again. */
  returned(): void {
    this.#left = false;
  }

  /**
   * Checks the pod: GETs `healthPath` and expects a status below 400; without `healthPath`, checks whether the pod accepts a connection.
   */
  async ping(signal: AbortSignal): Promise<void> {
    const path = this.#parts.healthPath;
    signal.throwIfAborted();
    if (path === undefined) {
      await this.#connectProbe(signal);
      return;
    }
    const status = await this.#client.getStatus(path, signal);
    if (status === undefined || status >= 400) throw new Error(`${path.replace(/\?.*/s, '?…')} answered ${status}`);
  }

  /** Checks whether the pod accepts a connection. The socket is kept as the spare one if there is none yet. */
  #connectProbe(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      this.socketSet.connectAhead((error, socket) => {
        if (error !== undefined) {
          reject(error);
          return;
        }
        if (this.#closing.hasBegun || this.socketSet.hasSpare) socket.destroy();
        else this.socketSet.setAside(socket);
        resolve();
      }, signal);
    });
  }

  /**
   * A request was lost with its socket. If that was the last socket, the pod may be gone: checks that immediately, and until the result is
   * known sends the pod one request at a time. One rather than none, because waiting callers are woken when a call ends.
   */
  lost(error: Error): void {
    if (this.#closing.hasBegun || this.#checking) return;
    if (this.socketSet.open > 0) {
      this.#suspectError = error;
      return;
    }
    if (this.socketSet.connecting > 0) return; // the connecting socket will show whether the pod works
    if (this.socketSet.received === this.#receivedAtCheck) {
      // The pod has sent no byte since the last check, so it counts as gone: otherwise checks could go on forever.
      this.#gone(error);
      return;
    }
    this.#receivedAtCheck = this.socketSet.received;
    this.#checking = true;
    this.#setCapacity(1);
    this.#reopen();
  }

  /** The pod takes no request on a connection that was just opened, so it counts as one that cannot be connected to. */
  takesNone(error: Error): void {
    if (!this.#closing.hasBegun) this.#gone(error);
  }

  /** The pod wants no more requests: it gets no new call, and its running calls finish. */
  leave(): void {
    this.#settleLeaving();
  }

  close(signal?: AbortSignal): Promise<void> {
    return this.#closing.close(signal);
  }

  /** Stops opening sockets and judging the pod, because the connection to the pod is being closed. */
  #stop(): void {
    this.#parts.certificates?.close();
    this.#reopenTimer?.cancel();
    this.#cappedTimer?.cancel();
    this.socketSet.dropSpare();
  }

  /** Resolves when no socket to the pod is left; the connection is then closed in order. */
  async finished(): Promise<void> {
    await this.socketSet.allClosed();
    this.#settleClosed(undefined);
  }

  /** All connections to the pod are closed, so the pod counts as gone. The HTTP client notices by itself. */
  #gone(error: Error): void {
    this.#isGone = true;
    this.#settleClosed(error);
    void this.close();
  }

  #setCapacity(capacity: number): void {
    this.#capacity = capacity;
    this.#capacityChanged?.();
  }

  #accepted(): void {
    this.#checking = false;
    this.#suspectError = undefined;
    this.#cappedTimer?.cancel();
    this.#setCapacity(this.#fullCapacity);
  }

  /**
   * The pod refused a further connection. It is gone if it has no open socket. If it has, it is shutting down (its listener is closed, and
   * it finishes running requests), unless those sockets received bytes during the attempt: then only its backlog is full, or our own
   * machine is at its limit, and more connections would make that worse. With `caps` the pod is limited to the connections it has.
   */
  #refused(error: Error, receiving: boolean, caps = true): void {
    if (this.#closing.hasBegun) return;
    if (this.socketSet.open === 0) {
      // The pod counts as gone even while other sockets to it connect: callers without another pod could otherwise keep it in this state
      // forever.
      this.#gone(error);
      return;
    }
    const code = (error as NodeJS.ErrnoException).code ?? '';
    if (isPerEndpointError(error) || LOCAL_CODES.has(code) || (receiving && code !== 'ECONNREFUSED')) {
      if (!caps) return;
      this.#setCapacity(this.socketSet.open);
      this.#cappedTimer?.cancel();
      this.#cappedTimer = this.#parts.clock.timer(() => this.#accepted(), CAPPED_MS);
    } else this.#settleLeaving();
  }

  /** The last socket to the pod ended. After an ordinary end (it was idle, or we closed it) the next request may open another. */
  #emptied(failure: Error | undefined): void {
    if (this.#closing.hasBegun || this.#checking) return;
    const suspect = failure ?? this.#suspectError;
    if (failure !== undefined && isTlsError(failure)) {
      // With TLS 1.3 a pod rejects our certificate only once the connection is open, so the next connection would end in the same way.
      this.#gone(rejected(this.#parts.endpoint, failure));
      return;
    }
    if (suspect !== undefined) {
      this.lost(suspect);
      return;
    }
    const { clock, rng } = this.#parts;
    const dueMs = this.#reopenedAtMs + REOPEN_MS * (1 + REOPEN_SPREAD * rng.next()) - clock.now();
    this.#reopenTimer?.cancel();
    this.#reopenTimer = clock.timer(
      () => {
        if (this.socketSet.open + this.socketSet.connecting === 0) this.#reopen();
      },
      Math.max(0, dueMs),
    );
  }

  #reopen(): void {
    this.#reopenTimer?.cancel();
    this.#reopenedAtMs = this.#parts.clock.now();
    this.socketSet.connectAhead((error, socket) => {
      if (error !== undefined) this.#refused(error, false);
      else if (this.#closing.hasBegun) socket.destroy();
      else {
        this.#accepted();
        this.socketSet.setAside(socket);
      }
    });
  }
}

/** Creates the error for a pod that rejected a TLS connection, with the pod's address in its message; the code stays. */
function rejected(endpoint: Endpoint, cause: Error & { readonly code?: unknown; readonly reason?: string }): Error {
  const { code, reason = cause.message.trim() } = cause;
  return Object.assign(new Error(`${endpointAddress(endpoint)} ended the TLS connection: ${reason}`, { cause }), {
    code,
  });
}

/** Opens the first socket to a pod. Rejects with the reason of a failure; after an abort no socket stays open. */
function dialFirst(dial: (dialled: Dialled) => Socket, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const onAbort = (): void => {
      reject(signal.reason);
      socket.destroy();
    };
    const socket = dial((error, opened) => {
      signal.removeEventListener('abort', onAbort);
      opened.unref();
      if (error !== undefined) reject(error);
      else resolve(opened);
    });
    // No request waits for this socket yet, so it must not keep the process alive.
    socket.unref();
    signal.addEventListener('abort', onAbort, { once: true });
  });
}
