import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { errors, Pool } from 'undici';
import type { Clock, Connection, Endpoint, Rng, Timer } from '../../index.js';
import { type Dialled, type DialOptions, dialler } from './dial.js';
import { PodClient } from './pod-client.js';
import { PodSockets } from './pod-sockets.js';

/** What a `PodConnection` is made of. */
export interface PodConnectionParts {
  readonly endpoint: Endpoint;
  readonly dial: DialOptions;
  /** Options of undici's pool, as they are. */
  readonly pool: Pool.Options;
  /** Requests at once over HTTP/1.1, one per socket, and over HTTP/2, all on one. */
  readonly connections: number;
  readonly maxConcurrentStreams: number;
  readonly healthPath: string | undefined;
  readonly clock: Clock;
  readonly rng: Rng;
}

/** A socket the other side closes while idle is opened again ahead of the next request at most this often, in ms. */
const REOPEN_MS = 30_000;
/** By how much of itself that pause is lengthened at random, so that clients do not move in step. */
const REOPEN_SPREAD = 0.2;
/** How long a pod that works but accepts no further connection is held to those it has, in ms. */
const CROWDED_MS = 5_000;

/** Errors of our own machine, not of the pod: no file descriptor, port or memory left for one more socket. */
const LOCAL_CODES: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL', 'EACCES']);

/** Opens the first socket to an endpoint and wraps it. Rejects with what went wrong; after an abort nothing is open. */
export function openPodConnection(parts: PodConnectionParts, signal: AbortSignal): Promise<PodConnection> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const dial = dialler(parts.endpoint, parts.dial);
    const onAbort = (): void => {
      reject(signal.reason);
      socket.destroy();
    };
    const socket = dial((error, opened) => {
      signal.removeEventListener('abort', onAbort);
      opened.unref();
      if (error !== undefined) reject(error);
      else resolve(new PodConnection(parts, dial, opened));
    });
    // No request waits for it yet: it must not keep the process alive.
    socket.unref();
    signal.addEventListener('abort', onAbort, { once: true });
  });
}

/**
 * One pod as undici knows it: a Pool whose origin is the Service and whose sockets go to the pod's address.
 * Its first socket is opened ahead of the first request and waits aside until the pool asks for one.
 */
export class PodConnection implements Connection<Pool> {
  readonly handle: Pool;
  readonly closed: Promise<Error | undefined>;
  readonly leaving: Promise<void>;

  readonly #parts: PodConnectionParts;
  readonly #sockets: PodSockets;
  readonly #fullCapacity: number;
  #capacity: number;
  #crowdedTimer: Timer | undefined;
  #reopenTimer: Timer | undefined;
  #reopenedAtMs: number;
  /** Bytes received when we last looked whether the pod is still there. */
  #receivedAtCheck = 0;
  #checking = false;
  /** A request died with its socket while others were still open. */
  #doubt: Error | undefined;
  #closing: Promise<void> | undefined;
  #settleClosed!: (error: Error | undefined) => void;
  #settleLeaving!: () => void;

  constructor(parts: PodConnectionParts, dial: (dialled: Dialled) => Socket, first: Socket) {
    this.#parts = parts;
    this.closed = new Promise((resolve) => {
      this.#settleClosed = resolve;
    });
    this.leaving = new Promise((resolve) => {
      this.#settleLeaving = resolve;
    });
    const multiplexed = (first as TLSSocket).alpnProtocol === 'h2';
    this.#fullCapacity = multiplexed ? parts.maxConcurrentStreams : parts.connections;
    this.#capacity = this.#fullCapacity;
    this.#reopenedAtMs = parts.clock.now();
    this.#sockets = new PodSockets(dial, (failure) => this.#emptied(failure));
    this.#sockets.add(first);
    this.#sockets.setAside(first);
    this.handle = new Pool(parts.dial.origin, {
      ...parts.pool,
      connections: multiplexed ? 1 : parts.connections,
      connect: (_options, supplied) => this.#supply(supplied as Supplied),
      factory: (origin, options) => new PodClient(origin, options),
    });
  }

  get capacity(): number {
    return this.#capacity;
  }

  /** With `healthPath`, asks for it and wants a status below 400; else opens a socket to see whether the pod accepts. */
  async ping(signal: AbortSignal): Promise<void> {
    const { healthPath, dial } = this.#parts;
    signal.throwIfAborted();
    if (healthPath === undefined) {
      await new Promise<void>((resolve, reject) => {
        this.#sockets.connectAhead((error, socket) => {
          if (error !== undefined) {
            reject(error);
            return;
          }
          if (this.#closing !== undefined || this.#sockets.hasSpare) socket.destroy();
          else this.#sockets.setAside(socket);
          resolve();
        }, signal);
      });
      return;
    }
    const response = await this.handle.request({ origin: dial.origin, path: healthPath, method: 'GET', signal });
    await response.body.dump();
    if (response.statusCode >= 400) throw new Error(`${healthPath} answered ${response.statusCode}`);
  }

  /**
   * A request died with its socket. If that was the last one the pod may be gone: look at once, and until we know let
   * only one request at a time go there. One, not none: callers who wait are woken when a call ends.
   */
  lost(error: Error): void {
    if (this.#closing !== undefined || this.#checking) return;
    if (this.#sockets.open > 0) {
      this.#doubt = error;
      return;
    }
    if (this.#sockets.connecting > 0) return; // its end will tell
    if (this.#sockets.received === this.#receivedAtCheck) {
      // It accepted but never said a word: opening more would be a loop.
      this.#gone(error);
      return;
    }
    this.#receivedAtCheck = this.#sockets.received;
    this.#checking = true;
    this.#capacity = 1;
    this.#reopen();
  }

  close(signal?: AbortSignal): Promise<void> {
    this.#closing ??= this.#finish();
    if (signal !== undefined) {
      const cut = (): void => {
        const error = new errors.ClientDestroyedError();
        void this.handle.destroy(error).catch(() => {});
        this.#sockets.destroyAll(error);
      };
      if (signal.aborted) cut();
      else {
        signal.addEventListener('abort', cut, { once: true });
        void this.#closing.then(() => signal.removeEventListener('abort', cut));
      }
    }
    return this.#closing;
  }

  async #finish(): Promise<void> {
    this.#reopenTimer?.cancel();
    this.#crowdedTimer?.cancel();
    this.#sockets.dropSpare();
    await this.handle.close().catch(() => {});
    // Upgraded connections are the pool's no longer, but they still are ours.
    await this.#sockets.allClosed();
    this.#settleClosed(undefined);
  }

  /** The pod is gone: nothing of ours is open any more. What the pool still holds finds out by itself. */
  #gone(error: Error): void {
    this.#settleClosed(error);
    void this.close();
  }

  /** The pool wants a socket: the spare one, or a new one. It must not be called back before it has returned. */
  #supply(supplied: Supplied): void {
    if (!this.#sockets.hasSpare) {
      this.#dialForPool(supplied);
      return;
    }
    queueMicrotask(() => {
      const socket = this.#sockets.takeSpare();
      if (socket === undefined) this.#dialForPool(supplied);
      else supplied(null, socket);
    });
  }

  #dialForPool(supplied: Supplied): void {
    const receivedBefore = this.#sockets.received;
    this.#sockets.connect((error, socket) => {
      if (error === undefined) {
        this.#accepted();
        supplied(null, socket);
      } else {
        // First, so that whoever repeats the request elsewhere finds this pod judged already.
        this.#refused(error, this.#sockets.received > receivedBefore);
        supplied(error, null);
      }
    });
  }

  #accepted(): void {
    this.#checking = false;
    this.#doubt = undefined;
    this.#crowdedTimer?.cancel();
    this.#capacity = this.#fullCapacity;
  }

  /**
   * The pod took no further connection. It is gone if no other is left. If others are, it is shutting down (its
   * listener is closed, what it has it finishes), unless they still brought bytes while we knocked: then only its
   * backlog is full, or our own machine is at its limit, and more connections would make that worse.
   */
  #refused(error: Error, receiving: boolean): void {
    if (this.#closing !== undefined) return;
    if (this.#sockets.open === 0) {
      if (this.#sockets.connecting === 0) this.#gone(error);
      return;
    }
    const code = (error as NodeJS.ErrnoException).code ?? '';
    if (LOCAL_CODES.has(code) || (receiving && code !== 'ECONNREFUSED')) {
      this.#capacity = this.#sockets.open;
      this.#crowdedTimer?.cancel();
      this.#crowdedTimer = this.#parts.clock.timer(() => this.#accepted(), CROWDED_MS);
    } else this.#settleLeaving();
  }

  /** No socket is left. After an ordinary end (idle, or brought about by us) the next request may open one. */
  #emptied(failure: Error | undefined): void {
    if (this.#closing !== undefined || this.#checking) return;
    const doubt = failure ?? this.#doubt;
    if (doubt !== undefined) {
      this.lost(doubt);
      return;
    }
    const { clock, rng } = this.#parts;
    const dueMs = this.#reopenedAtMs + REOPEN_MS * (1 + REOPEN_SPREAD * rng.next()) - clock.now();
    this.#reopenTimer?.cancel();
    this.#reopenTimer = clock.timer(
      () => {
        if (this.#sockets.open + this.#sockets.connecting === 0) this.#reopen();
      },
      Math.max(0, dueMs),
    );
  }

  #reopen(): void {
    this.#reopenTimer?.cancel();
    this.#reopenedAtMs = this.#parts.clock.now();
    this.#sockets.connectAhead((error, socket) => {
      if (error !== undefined) this.#refused(error, false);
      else if (this.#closing !== undefined) socket.destroy();
      else {
        this.#accepted();
        this.#sockets.setAside(socket);
      }
    });
  }
}

/** What undici passes to a connector. */
type Supplied = (error: Error | null, socket: Socket | null) => void;
