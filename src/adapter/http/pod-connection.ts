import type { Socket } from 'node:net';
import type { ConnectionOptions, TLSSocket } from 'node:tls';
import { type Clock, type Connection, type Endpoint, type Rng, systemClock } from '../../index.js';
import { afterPendingIo, Closing, isSameIdentity, offAbort, onAbort, ValueWatch } from '../kit/index.js';
import { type DialOptions, dialler } from './dial.js';
import { dialFirst, PodLink } from './pod-link.js';

/** What a connection to one pod needs. */
export interface PodConnectionParts {
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
export interface PodUser<C> {
  readonly handle: C;
  /** Sends a GET for `path` and resolves with the status once the response is complete. */
  getStatus(path: string, signal: AbortSignal): Promise<number | undefined>;
  /** Makes the client accept no new request and let running ones finish; resolves when no socket is left. Never rejects. */
  finish(): Promise<void>;
  /** Cuts the client's running requests, even while `finish` is pending. */
  cut(): void;
}

/** How an adapter uses a pod whose first socket is open. */
export interface PodUse<C> {
  /** Returns how many requests the pod takes at once, with the protocol that was negotiated on its first socket. */
  capacity(first: Socket): number;
  user(link: PodLink, first: Socket): PodUser<C>;
}

/**
 * Opens the first socket to a pod and wraps it as a connection. Rejects with the reason of a failure; after an abort no socket stays open.
 */
export async function openPodConnection<C>(
  parts: PodConnectionParts,
  use: PodUse<C>,
  signal: AbortSignal,
): Promise<PodConnection<C>> {
  const { clock, rng, healthPath } = parts;
  const watch = watchOf(parts);
  const dial = dialler(parts.endpoint, watch === undefined ? parts.dial : { ...parts.dial, tls: () => watch.read() });
  let first: Socket;
  try {
    first = await dialFirst(dial, signal);
    if (watch !== undefined) await shownCertificate(first, parts.dial.connectTimeoutMs, signal);
  } catch (error) {
    watch?.close();
    throw error;
  }
  const gone = (): void => void connection.close();
  const link = new PodLink(first, { endpoint: parts.endpoint, dial, capacity: use.capacity(first), clock, rng, gone });
  const connection = new PodConnection(link, use.user(link, first), healthPath, watch);
  return connection;
}

/** Watches the result of the `tls` function; undefined if there is no function or it is not to be called again. */
function watchOf({ endpoint, dial, credentialsRefreshMs, clock, rng }: PodConnectionParts): TlsWatch | undefined {
  const { tls, origin } = dial;
  if (typeof tls !== 'function' || origin.protocol !== 'https:' || !Number.isFinite(credentialsRefreshMs))
    return undefined;
  return new ValueWatch({
    clock,
    rng,
    refreshMs: credentialsRefreshMs,
    read: () => tls(endpoint),
    isSame: isSameIdentity,
  });
}

type TlsWatch = ValueWatch<ConnectionOptions>;

/** A connection to one pod: an HTTP client whose sockets go to the pod's address. The first socket is opened before the first request. */
export class PodConnection<C> implements Connection<C> {
  readonly handle: C;
  readonly outdated?: Promise<void>;
  readonly #link: PodLink;
  readonly #user: PodUser<C>;
  readonly #healthPath: string | undefined;
  readonly #watch: TlsWatch | undefined;
  readonly #closing = new Closing(
    () => {
      this.#watch?.close();
      this.#link.stop();
      return this.#user.finish();
    },
    () => this.#user.cut(),
  );

  constructor(link: PodLink, user: PodUser<C>, healthPath: string | undefined, watch: TlsWatch | undefined) {
    this.#watch = watch;
    if (watch !== undefined) {
      this.outdated = watch.outdated;
      void link.closed.then(() => watch.close());
    }
    this.handle = user.handle;
    this.#link = link;
    this.#user = user;
    this.#healthPath = healthPath;
  }

  get capacity(): number {
    return this.#link.capacity;
  }

  get sockets(): number {
    return this.#link.sockets.open;
  }

  watchCapacity(changed: () => void): void {
    this.#link.watchCapacity(changed);
  }

  get closed(): Promise<Error | undefined> {
    return this.#link.closed;
  }

  get leaving(): Promise<void> {
    return this.#link.leaving;
  }

  left(): void {
    this.#link.left();
  }

  returned(): void {
    this.#link.returned();
  }

  /**
   * Checks the pod: GETs `healthPath` and expects a status below 400; without `healthPath`, checks whether the pod accepts a connection.
   */
  async ping(signal: AbortSignal): Promise<void> {
    const path = this.#healthPath;
    signal.throwIfAborted();
    if (path === undefined) {
      await this.#link.connectProbe(signal);
      return;
    }
    const status = await this.#user.getStatus(path, signal);
    if (status === undefined || status >= 400) throw new Error(`${path.replace(/\?.*/s, '?…')} answered ${status}`);
  }

  /** A request was lost with its socket. */
  lost(error: Error): void {
    this.#link.lost(error);
  }

  close(signal?: AbortSignal): Promise<void> {
    return this.#closing.close(signal);
  }
}

/** How long a pod that sends no session tickets may take to reject our certificate, in ms. */
const REFUSAL_MS = 250;
/** The share of the connect timeout that the wait for a rejected certificate may take at most, because that timeout may be short. */
const REFUSAL_RATIO = 0.2;

/**
 * Waits until the pod has accepted our certificate: with TLS 1.3 a connection is open before the pod has checked it. Resolves when the pod
 * sends a session ticket, or after the time in which it would have closed the connection. Rejects if the pod closes the connection. So if a
 * renewed certificate is rejected, connections opened with the previous one can stay in use.
 */
function shownCertificate(socket: Socket, connectTimeoutMs: number, signal: AbortSignal): Promise<void> {
  const secure = socket as TLSSocket;
  if (secure.getProtocol?.() !== 'TLSv1.3' || !hasCertificate(secure)) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const over = (settle: () => void): void => {
      timer.cancel();
      offAbort(signal, aborted);
      secure.off('session', taken).off('error', failed).off('close', closed);
      settle();
    };
    // The promise is not resolved within the session event, because data written while OpenSSL reads is not sent.
    const taken = (): void => over(() => afterPendingIo(resolve));
    const failed = (error: Error): void => over(() => reject(error));
    const closed = (): void => failed(new Error('it hung up when it was shown the certificate'));
    const aborted = (): void => {
      socket.destroy();
      failed(signal.reason);
    };
    // The real clock is used even in tests, because this waits for the network.
    const timer = systemClock.timer(taken, Math.min(REFUSAL_MS, REFUSAL_RATIO * connectTimeoutMs));
    secure.on('session', taken).on('error', failed).on('close', closed);
    onAbort(signal, aborted);
    if (signal.aborted) aborted();
    else if (socket.destroyed) closed();
  });
}

function hasCertificate(socket: TLSSocket): boolean {
  const certificate = socket.getCertificate();
  return certificate !== null && Object.keys(certificate).length > 0;
}
