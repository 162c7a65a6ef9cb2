/** How connections to a server are opened: their sockets, what they log in with, and how long that may take. */
import { AsyncResource } from 'node:async_hooks';
import { connect, type Socket } from 'node:net';
import { createConnection, type Pool, type PoolConnection, type PoolOptions } from 'mysql2';
import { type Clock, type Endpoint, endpointAddress, type Rng, type Timer } from '../../../index.js';
import { deadline, jittered } from '../../kit/index.js';
import {
  areSameCredentials,
  type Credentials,
  credentialsTooLate,
  setCredentials,
  withCredentials,
} from './credentials.js';
import { type DialOptions, poolOptions, type ServerSettings } from './settings.js';

/** The time between two refreshes is spread by this much either way, so that those of many servers do not coincide. */
const REFRESH_JITTER_RATIO = 0.2;

/** Connections outlive the call they were opened for: they must not keep its AsyncLocalStorage. */
const background = new AsyncResource('evenkeel.mysql2');

/**
 * Opens a socket to the pod's address, whatever the Service is called. mysql2 adds TLS, with the Service's name. The socket does not
 * keep the process alive; code that waits for it calls `ref`.
 */
export function dial(endpoint: Endpoint, options: DialOptions): Socket {
  const { keepAlive, keepAliveDelayMs, localAddress } = options;
  return background.runInAsyncScope(() =>
    connect({
      host: endpoint.address,
      port: endpoint.port,
      noDelay: true,
      keepAlive,
      keepAliveInitialDelay: keepAliveDelayMs,
      ...(localAddress !== undefined && { localAddress }),
    }).unref(),
  );
}

/** Logs in to a server and out again. Rejects if that fails or `signal` aborts; then nothing is open. */
export async function logIn(options: PoolOptions, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const connection = createConnection(options);
  let aborted: (() => void) | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      aborted = () => reject(signal.reason);
      signal.addEventListener('abort', aborted, { once: true });
      connection.once('connect', () => resolve());
      connection.on('error', reject); // stays: a later error without a listener would be thrown
    });
  } catch (error) {
    connection.destroy();
    throw error;
  } finally {
    if (aborted !== undefined) signal.removeEventListener('abort', aborted);
  }
  // Does not wait for a server that does not respond to it.
  connection.end(() => connection.destroy());
}

/** A connection whose handshake is under way, or has just ended. */
export interface PendingConnection {
  readonly socket: Socket;
  /** What it logs in with, where functions provide that. */
  readonly credentials: Credentials | undefined;
  /** Limits the time for connecting and the handshake together. */
  readonly timer: Timer;
}

/** An open connection. */
interface LoggedIn {
  /** What it logged in with, where functions provide that. */
  readonly credentials: Credentials | undefined;
}

/** A server, and how connections to it are opened. */
export interface ServerParts {
  readonly endpoint: Endpoint;
  readonly settings: ServerSettings;
  readonly clock: Clock;
  readonly rng: Rng;
}

/** What `Opening` needs. */
interface OpeningParts extends ServerParts {
  /** A handshake failed, and its socket is closed. */
  readonly failed: () => void;
  /** The open connections. */
  readonly sessions: () => Iterable<LoggedIn>;
  /** Some logged in with other credentials than the server accepts now. */
  readonly outdated: (isOutdated: (session: LoggedIn) => boolean) => void;
}

/**
 * The connections to one server that are being opened. Functions of the application are asked what to log in with before each, and
 * from time to time to find connections that logged in with something else. Those are only replaced once the server has accepted the
 * new credentials: working connections are not given up for credentials that do not work.
 */
export class Opening {
  /** Whether functions have to be asked before a connection is opened. */
  readonly isAsked: boolean;
  /** The connection mysql2 began to open last. */
  last: PendingConnection | undefined;
  readonly #parts: OpeningParts;
  readonly #pending = new Set<PendingConnection>();
  readonly #closed = new AbortController();
  #credentials: Credentials | undefined;
  #refreshTimer: Timer | undefined;

  constructor(parts: OpeningParts) {
    this.#parts = parts;
    const { askCredentials, credentialsRefreshMs } = parts.settings;
    this.isAsked = askCredentials !== undefined;
    if (this.isAsked && Number.isFinite(credentialsRefreshMs)) this.#scheduleRefresh();
  }

  /** How many there are. */
  get size(): number {
    return this.#pending.size;
  }

  /** Asks what the next connection of `pool` logs in with. `done` is called once, without an error if the pool has been told. */
  ask(pool: Pool, done: (error: Error | undefined) => void): void {
    const { endpoint, clock, settings } = this.#parts;
    const { askCredentials, connectTimeoutMs } = settings;
    let isOver = false;
    const end = (error: Error | undefined, credentials?: Credentials): void => {
      if (isOver) return;
      isOver = true;
      timer.cancel();
      if (credentials === undefined || this.#closed.signal.aborted) {
        done(error ?? (this.#closed.signal.reason as Error));
        return;
      }
      this.#credentials = credentials;
      setCredentials(pool, credentials);
      done(undefined);
    };
    const timer = deadline(clock, () => end(credentialsTooLate(endpoint, connectTimeoutMs)), connectTimeoutMs);
    askCredentials?.(endpoint).then((credentials) => end(undefined, credentials), end);
  }

  /** mysql2 wants a socket for another connection. It is destroyed if the handshake takes too long. */
  dial(): Socket {
    const { endpoint, clock, settings } = this.#parts;
    const { connectTimeoutMs } = settings;
    const socket = dial(endpoint, settings.dial);
    const late = (): void => {
      const message = `${endpointAddress(endpoint)} did not finish the handshake within ${connectTimeoutMs} ms`;
      socket.destroy(Object.assign(new Error(message), { code: 'ETIMEDOUT', syscall: 'connect' }));
    };
    const timer = deadline(clock, late, connectTimeoutMs);
    const pending: PendingConnection = { socket, credentials: this.#credentials, timer };
    this.#pending.add(pending);
    socket.once('close', () => this.forget(pending));
    this.last = pending;
    return socket;
  }

  /** Its handshake failed. */
  forget(pending: PendingConnection): void {
    pending.timer.cancel();
    if (this.#pending.delete(pending)) this.#parts.failed();
  }

  /** Its handshake is done: returns what the connection was until now, unless that took too long. */
  done(connection: PoolConnection): PendingConnection | undefined {
    for (const pending of this.#pending) {
      if (!isMadeFrom(pending, connection)) continue;
      pending.timer.cancel();
      this.#pending.delete(pending);
      return pending;
    }
    return undefined;
  }

  close(): void {
    this.#refreshTimer?.cancel();
    this.#closed.abort(new Error('it is being closed'));
    for (const { socket } of this.#pending) socket.destroy(new Error('called off'));
  }

  #scheduleRefresh(): void {
    const { clock, rng, settings } = this.#parts;
    this.#refreshTimer = clock.timer(
      () => {
        this.#scheduleRefresh();
        // A failure is reported when a connection is opened; until then the open ones do the work.
        this.#refresh().catch(() => {});
      },
      jittered(rng, settings.credentialsRefreshMs, REFRESH_JITTER_RATIO),
    );
  }

  async #refresh(): Promise<void> {
    const { endpoint, clock, settings, sessions, outdated } = this.#parts;
    const now = await settings.askCredentials?.(endpoint);
    if (now === undefined || this.#closed.signal.aborted) return;
    const isOutdated = ({ credentials: used }: LoggedIn): boolean =>
      used !== undefined && !areSameCredentials(used, now);
    if (![...sessions()].some(isOutdated)) return;
    const limit = new AbortController();
    const late = deadline(clock, () => limit.abort(new Error('it took too long')), settings.connectTimeoutMs);
    try {
      const options = poolOptions(settings, endpoint, () => dial(endpoint, settings.dial));
      await logIn(withCredentials(options, now), AbortSignal.any([limit.signal, this.#closed.signal]));
    } finally {
      late.cancel();
    }
    if (!this.#closed.signal.aborted) outdated(isOutdated);
  }
}

/** Whether a connection is what became of a pending one. */
function isMadeFrom({ socket }: PendingConnection, connection: PoolConnection): boolean {
  const { stream } = connection as unknown as { readonly stream: Socket };
  if (socket === stream) return true;
  // With TLS the stream is a layer above the socket: what both have in common is their local address and port.
  const { localAddress, localPort } = stream;
  return localPort !== undefined && socket.localPort === localPort && socket.localAddress === localAddress;
}
