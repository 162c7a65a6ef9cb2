import { Socket } from 'node:net';
import { type Clock, type Endpoint, endpointAddress, type Rng, type Timer } from '../../index.js';
import { isPerEndpointError } from '../kit/index.js';
import { type Dialled, dialLeftError, isPodLeftError, isProtocolError } from './dial.js';
import { isTlsError, PodSockets } from './pod-sockets.js';

/** The parts of a `PodLink`. */
export interface PodLinkParts {
  readonly endpoint: Endpoint;
  readonly dial: (dialled: Dialled) => Socket;
  /** How many requests the pod takes at once while it works, as far as is known when its first socket is open. */
  readonly capacity: number;
  readonly clock: Clock;
  readonly rng: Rng;
  /** Called when the pod is gone: `closed` has settled, and the adapter must close what it still holds. */
  gone(): void;
}

/** Milliseconds that pass at least before a socket that the pod closed while idle is opened again ahead of the next request. */
const REOPEN_MS = 30_000;
/** The random share added to the pause before an idle socket is opened again, so that clients do not move in step. */
const REOPEN_SPREAD = 0.2;
/**
 * How long a pod that works but accepts no further connection is limited to the ones it has, in ms. Its backlog is full, or our own
 * machine is at its limit. A pod that accepts one connection can take more, so that lifts the limit. (A database counts its
 * connections, and is tried one by one: `ConnectionCap` of mysql2.)
 */
const CAPPED_MS = 5_000;

/**
 * Sockets that connect at once for waiting requests, per pod. A burst of thousands opens as many as the ordinary client would, but a
 * listener's backlog holds a few hundred: what the kernel drops there is tried again only seconds later.
 */
const MOST_DIALS = 128;
/** Milliseconds for which a count of the bytes received from a pod is reused: counting looks at every socket. */
const COUNT_LASTS_MS = 100;

/** Errors of our own machine, not of the pod: no file descriptor, port or memory left for another socket. */
const LOCAL_CODES: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL', 'EACCES']);

/** Opens the first socket to a pod. Rejects with the reason; after an abort nothing stays open. */
export function dialFirst(dial: (dialled: Dialled) => Socket, signal: AbortSignal): Promise<Socket> {
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
    // No request waits for this socket yet: it must not keep the process alive.
    socket.unref();
    signal.addEventListener('abort', onAbort, { once: true });
  });
}

/**
 * Judges one pod by its sockets: the pod's capacity, whether it is leaving, whether it is gone. An HTTP client uses the sockets; here they
 * are only opened, counted and watched.
 */
export class PodLink {
  readonly sockets: PodSockets;
  readonly closed: Promise<Error | undefined>;
  readonly leaving: Promise<void>;
  readonly #parts: PodLinkParts;
  /** How many requests the pod takes at once now. */
  #capacity: number;
  /** How many requests the pod takes at once while it works. */
  #fullCapacity: number;
  #capacityChanged: (() => void) | undefined;
  #cappedTimer: Timer | undefined;
  #reopenTimer: Timer | undefined;
  #reopenedAtMs: number;
  /** Bytes received from the pod when it was last checked whether the pod is still there. */
  #receivedAtCheck = 0;
  #checking = false;
  /** The error of a request that died with its socket while other sockets to the pod were still open. */
  #suspectError: Error | undefined;
  #closing = false;
  /** Whether the pod has left the Service. */
  #left = false;
  /** Sockets to the pod that are connecting for a waiting request. */
  readonly #awaited = new Set<Socket>();
  /** Waiting requests for which no socket to the pod is connecting yet. */
  readonly #queued: { readonly dialled: Dialled; readonly dial: ((dialled: Dialled) => Socket) | undefined }[] = [];
  #received = 0;
  #receivedCountedMs = Number.NEGATIVE_INFINITY;
  #settleClosed!: (error: Error | undefined) => void;
  #settleLeaving!: () => void;

  /**
   * @param first The open socket for the first request. It is not kept here: Node leaves the last request on a socket that was destroyed.
   */
  constructor(first: Socket, parts: PodLinkParts) {
    this.#parts = parts;
    this.closed = new Promise((resolve) => {
      this.#settleClosed = resolve;
    });
    this.leaving = new Promise((resolve) => {
      this.#settleLeaving = resolve;
    });
    this.#capacity = parts.capacity;
    this.#fullCapacity = parts.capacity;
    this.#reopenedAtMs = parts.clock.now();
    this.sockets = new PodSockets(parts.dial, (failure) => this.#emptied(failure));
    this.sockets.add(first);
    this.sockets.setAside(first);
  }

  get capacity(): number {
    return this.#capacity;
  }

  watchCapacity(changed: () => void): void {
    this.#capacityChanged = changed;
  }

  /** The pod says how many requests it takes at once. */
  limit(capacity: number): void {
    const isWorking = this.#capacity === this.#fullCapacity;
    this.#fullCapacity = capacity;
    if (isWorking) this.#setCapacity(capacity);
  }

  /**
   * Opens a socket for a waiting request. Fails with `dialLeftError` if the pod has left, or leaves meanwhile.
   *
   * @param dial How to open it. @defaultValue as all others
   */
  dial(dialled: Dialled, dial?: (dialled: Dialled) => Socket): void {
    if (this.#awaited.size < MOST_DIALS) this.#dialNow(dialled, dial);
    else this.#queued.push({ dialled, dial });
  }

  #dialNow(dialled: Dialled, dial: ((dialled: Dialled) => Socket) | undefined): void {
    const receivedBefore = this.#countReceived();
    const socket = this.sockets.connect((error, opened) => {
      // The socket that was dialed is the one that was counted, not the opened one, because TLS may have wrapped it.
      this.#awaited.delete(socket);
      // The pod is judged before the request learns the result, so that a retry already takes that into account.
      if (error === undefined) this.#accepted();
      else if (!isPodLeftError(error) && !isProtocolError(error)) {
        this.#refused(error, this.sockets.received > receivedBefore, dial === undefined);
      }
      dialled(error, opened);
      const next = this.#queued.shift();
      if (next !== undefined) this.#dialNow(next.dialled, next.dial);
    }, dial);
    this.#awaited.add(socket);
    if (this.#left) socket.destroy(dialLeftError(this.#parts.endpoint));
  }

  /** How many bytes the pod has sent so far, or had sent up to `COUNT_LASTS_MS` ago. */
  #countReceived(): number {
    const nowMs = this.#parts.clock.now();
    if (nowMs - this.#receivedCountedMs >= COUNT_LASTS_MS) {
      this.#receivedCountedMs = nowMs;
      this.#received = this.sockets.received;
    }
    return this.#received;
  }

  /** The pod left the Service: requests waiting for a socket move to another pod. */
  left(): void {
    this.#left = true;
    this.#cancelDials(dialLeftError(this.#parts.endpoint));
  }

  /** Ends all connections to the pod now. */
  cut(error?: Error): void {
    this.#cancelDials(error ?? new Error('the connection was cut'));
    this.sockets.destroyAll(error);
  }

  #cancelDials(error: Error): void {
    // Queued requests are taken first: each socket that ends would otherwise start the next of them.
    const queued = this.#queued.splice(0);
    for (const socket of this.#awaited) socket.destroy(error);
    for (const { dialled } of queued) dialled(error, new Socket().destroy());
  }

  /** The pod is back in the endpoint set. */
  returned(): void {
    this.#left = false;
  }

  /** Checks whether the pod accepts a connection. The socket is kept as the spare one if there is none yet. */
  connectProbe(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      this.sockets.connectAhead((error, socket) => {
        if (error !== undefined) {
          reject(error);
          return;
        }
        if (this.#closing || this.sockets.hasSpare) socket.destroy();
        else this.sockets.setAside(socket);
        resolve();
      }, signal);
    });
  }

  /**
   * A request died with its socket. If that was the last socket, the pod may be gone: checks immediately, and until the result is known
   * sends the pod one request at a time. One rather than none, because waiting callers are woken when a call ends.
   */
  lost(error: Error): void {
    if (this.#closing || this.#checking) return;
    if (this.sockets.open > 0) {
      this.#suspectError = error;
      return;
    }
    if (this.sockets.connecting > 0) return; // the end of the connecting socket will tell
    if (this.sockets.received === this.#receivedAtCheck) {
      // The pod accepted the connection but never sent a byte: opening another one would be a loop.
      this.#gone(error);
      return;
    }
    this.#receivedAtCheck = this.sockets.received;
    this.#checking = true;
    this.#setCapacity(1);
    this.#reopen();
  }

  /** The pod wants no more requests: it gets no new call, and running ones finish. */
  leave(): void {
    this.#settleLeaving();
  }

  /** The connection to the pod is being closed: no socket is opened or judged any longer. */
  stop(): void {
    this.#closing = true;
    this.#reopenTimer?.cancel();
    this.#cappedTimer?.cancel();
    this.sockets.dropSpare();
  }

  /** Resolves when no socket to the pod is left; the connection is then closed cleanly. */
  async finished(): Promise<void> {
    await this.sockets.allClosed();
    this.#settleClosed(undefined);
  }

  /** All connections to the pod are closed, so the pod counts as gone. The HTTP client notices by itself. */
  #gone(error: Error): void {
    this.#settleClosed(error);
    this.#parts.gone();
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
   * The pod refused a further connection. It is gone if no other is left. If others are, it is shutting down (its listener is closed, and
   * it finishes running requests), unless they received bytes during the probe: then only its backlog is full, or our own machine is at its
   * limit, and more connections would make that worse. With `caps` the pod is limited to the connections it has.
   */
  #refused(error: Error, receiving: boolean, caps = true): void {
    if (this.#closing) return;
    if (this.sockets.open === 0) {
      // The pod counts as gone even while other sockets connect: callers without another pod could otherwise keep it in this state forever.
      this.#gone(error);
      return;
    }
    const code = (error as NodeJS.ErrnoException).code ?? '';
    if (isPerEndpointError(error) || LOCAL_CODES.has(code) || (receiving && code !== 'ECONNREFUSED')) {
      if (!caps) return;
      this.#setCapacity(this.sockets.open);
      this.#cappedTimer?.cancel();
      this.#cappedTimer = this.#parts.clock.timer(() => this.#accepted(), CAPPED_MS);
    } else this.#settleLeaving();
  }

  /** The last socket to the pod ended. After an ordinary end (idle, or closed by us) the next request may open one. */
  #emptied(failure: Error | undefined): void {
    if (this.#closing || this.#checking) return;
    const suspect = failure ?? this.#suspectError;
    if (failure !== undefined && isTlsError(failure)) {
      // With TLS 1.3 a pod rejects our certificate only once the connection is open: the next connection would end alike.
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
        if (this.sockets.open + this.sockets.connecting === 0) this.#reopen();
      },
      Math.max(0, dueMs),
    );
  }

  #reopen(): void {
    this.#reopenTimer?.cancel();
    this.#reopenedAtMs = this.#parts.clock.now();
    this.sockets.connectAhead((error, socket) => {
      if (error !== undefined) this.#refused(error, false);
      else if (this.#closing) socket.destroy();
      else {
        this.#accepted();
        this.sockets.setAside(socket);
      }
    });
  }
}

/** The TLS error with which a pod rejected a connection, with the pod's name in its message; the code stays. */
function rejected(endpoint: Endpoint, cause: Error & { readonly code?: unknown; readonly reason?: string }): Error {
  const { code, reason = cause.message.trim() } = cause;
  return Object.assign(new Error(`${endpointAddress(endpoint)} ended the TLS connection: ${reason}`, { cause }), {
    code,
  });
}
