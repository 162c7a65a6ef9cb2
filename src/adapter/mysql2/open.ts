/** How connections to a server are opened: their sockets, their credentials, and how long that may take. */
import { AsyncResource } from 'node:async_hooks';
import { connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { createConnection, createPool, type Pool, type PoolOptions } from 'mysql2';
import { type Clock, type Endpoint, endpointAddress, type Rng, type Timer } from '../../index.js';
import { deadline, jittered } from '../kit/index.js';
import type { SessionOwner } from '../sql/session.js';
import { areSameCredentials, type Credentials, credentialsTooLate, withCredentials } from './credentials.js';
import { hideSecrets, setCredentials } from './internals.js';
import type { DialOptions, ServerSettings } from './options.js';
import { type Events, tell } from './own-functions.js';
import { MysqlSession, type SessionParts } from './session.js';

/** The share by which the time between two refreshes of credentials varies, so that those of many servers do not coincide. */
const REFRESH_JITTER_RATIO = 0.2;

/**
 * The async context in which connections are opened. A connection outlives the call it was opened for, so it must not keep that call's
 * AsyncLocalStorage.
 */
const background = new AsyncResource('evenkeel.mysql2');

/**
 * Opens a socket to the pod's own address. mysql2 adds TLS, with the Service's name. The socket does not keep the process alive; code that
 * waits for it calls `ref`.
 */
function dial(endpoint: Endpoint, options: DialOptions): Socket {
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

/** Logs in to a server and out again. Rejects if that fails or `signal` aborts; then no connection is open. */
async function logIn(options: PoolOptions, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const connection = createConnection(options);
  let aborted: (() => void) | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      aborted = () => reject(signal.reason);
      signal.addEventListener('abort', aborted, { once: true });
      connection.once('connect', () => resolve());
      connection.on('error', reject); // this listener stays, because a later error without a listener would be thrown
    });
  } catch (error) {
    connection.destroy();
    throw error;
  } finally {
    if (aborted !== undefined) signal.removeEventListener('abort', aborted);
  }
  // The connection is destroyed even if the server does not respond to the log-out.
  connection.end(() => connection.destroy());
}

/** What is needed to open connections to one server. */
export interface ServerParts {
  readonly endpoint: Endpoint;
  readonly settings: ServerSettings;
  readonly clock: Clock;
  readonly rng: Rng;
  /** Emits the events `acquire`, `connection` and `release` of mysql2's pools, and `warn` for a problem that was dealt with. */
  readonly events: Events;
}

/**
 * Opens the connections to one server. Functions of the application provide credentials before each connection, and are called from time to
 * time to find connections that logged in with older credentials. Those are replaced only once the server has accepted the new credentials,
 * because working connections are not given up for credentials that do not work.
 */
export class Opening {
  /** The mysql2 pool that makes the connections; none of them is ever given back to it. */
  readonly #pool: Pool;
  readonly #parts: ServerParts;
  readonly #sessionParts: SessionParts;
  readonly #closed = new AbortController();
  /** The socket that the mysql2 pool opened last. */
  #dialled: Socket | undefined;
  #refreshTimer: Timer | undefined;

  constructor(parts: ServerParts) {
    this.#parts = parts;
    const { endpoint, settings, clock, events } = parts;
    this.#sessionParts = {
      clock,
      endpoint,
      address: endpointAddress(endpoint),
      queryTimeoutMs: settings.queryTimeoutMs,
      resetsOnRelease: settings.mysql.resetOnRelease === true,
      acquired: (connection) => tell(events, 'acquire', connection),
      released: (connection) => tell(events, 'release', connection),
      leftOpen: () => tell(events, 'warn', new Error(`${endpointAddress(endpoint)}: ${LEFT_OPEN}`)),
    };
    const dialForPool = (): Socket => {
      this.#dialled = dial(endpoint, settings.dial);
      return this.#dialled;
    };
    this.#pool = createPool(poolOptions(settings, endpoint, dialForPool));
    hideSecrets(this.#pool);
  }

  /** Opens a connection to the server, and logs in. `done` is called once, later. Returns a function that calls the attempt off. */
  open(
    owner: SessionOwner<MysqlSession>,
    done: (error: Error | undefined, session: MysqlSession | undefined) => void,
  ): () => void {
    const { endpoint, clock, settings } = this.#parts;
    const { readCredentials, connectTimeoutMs } = settings;
    let socket: Socket | undefined;
    let timer: Timer | undefined;
    let isOver = false;
    const finish = (error: Error | undefined, session?: MysqlSession): void => {
      if (isOver) return;
      isOver = true;
      timer?.cancel();
      done(error, session);
    };
    const callOff = (error: Error): void => {
      socket?.destroy(error);
      finish(error);
    };
    const logInWith = (credentials: Credentials | undefined): void => {
      if (isOver) return;
      timer?.cancel();
      timer = deadline(clock, () => callOff(handshakeTooLate(endpoint, connectTimeoutMs)), connectTimeoutMs);
      if (credentials !== undefined) setCredentials(this.#pool, credentials);
      this.#pool.getConnection((error, connection) => {
        if (error || isOver) {
          // The socket is destroyed without an error, because mysql2 would report an error once more, to nobody.
          socket?.destroy();
          finish(error ?? undefined);
          return;
        }
        const session = new MysqlSession(connection, socket as Socket, credentials, this.#sessionParts, owner);
        tell(this.#parts.events, 'connection', connection);
        finish(session.isAlive ? undefined : new Error('the connection was lost'), session);
      });
      socket = this.#dialled;
    };
    if (readCredentials === undefined) logInWith(undefined);
    else {
      const late = (): void => finish(credentialsTooLate(endpoint, connectTimeoutMs));
      timer = deadline(clock, late, connectTimeoutMs);
      readCredentials(endpoint).then(logInWith, finish);
    }
    return () => callOff(new Error('called off'));
  }

  /** @param server The server whose sessions are replaced if they logged in with other credentials than the functions return now. */
  refreshFor(server: { expire(isOutdated: (session: MysqlSession) => boolean): void }): void {
    const { clock, rng, settings } = this.#parts;
    const { readCredentials, credentialsRefreshMs } = settings;
    if (readCredentials === undefined || !Number.isFinite(credentialsRefreshMs)) return;
    this.#refreshTimer = clock.timer(
      () => {
        this.refreshFor(server);
        // A failure is reported when a connection is opened; until then the open connections do the work.
        this.#refresh(server).catch(() => {});
      },
      jittered(rng, credentialsRefreshMs, REFRESH_JITTER_RATIO),
    );
  }

  close(): void {
    this.#refreshTimer?.cancel();
    this.#closed.abort(new Error('it is being closed'));
    this.#pool.end(() => {});
  }

  async #refresh(server: { expire(isOutdated: (session: MysqlSession) => boolean): void }): Promise<void> {
    const { endpoint, clock, settings } = this.#parts;
    const credentialsNow = await settings.readCredentials?.(endpoint);
    if (credentialsNow === undefined || this.#closed.signal.aborted) return;
    const limit = new AbortController();
    const late = deadline(clock, () => limit.abort(new Error('it took too long')), settings.connectTimeoutMs);
    try {
      const options = poolOptions(settings, endpoint, () => dial(endpoint, settings.dial));
      await logIn(withCredentials(options, credentialsNow), AbortSignal.any([limit.signal, this.#closed.signal]));
    } finally {
      late.cancel();
    }
    if (this.#closed.signal.aborted) return;
    server.expire(({ credentials }) => credentials !== undefined && !areSameCredentials(credentials, credentialsNow));
  }
}

/**
 * The options of mysql2's pool for one server, whose sockets come from `open`. The pool only makes connections: its limits, its timeouts
 * and its reset do not apply.
 */
function poolOptions(settings: ServerSettings, endpoint: Endpoint, open: () => Duplex): Record<string, unknown> {
  const { mysql } = settings;
  const limit = Number.MAX_SAFE_INTEGER;
  return {
    // The address is for traces; it is replaced by the Service's name, which TLS needs, if there is one.
    host: endpoint.address,
    port: endpoint.port,
    ...mysql,
    // mysql2 caches TLS sessions on this object, which is copied because a new pod behind an old address must never see them (U7).
    ...(typeof mysql.ssl === 'object' && { ssl: { ...mysql.ssl } }),
    stream: open,
    connectTimeout: 0,
    connectionLimit: limit,
    maxIdle: limit,
  };
}

const LEFT_OPEN =
  'a connection was released in the middle of a transaction, which was rolled back: COMMIT or ROLLBACK first, and run all of a transaction on one connection of getConnection()';

function handshakeTooLate(endpoint: Endpoint, limitMs: number): Error {
  const message = `${endpointAddress(endpoint)} did not finish the handshake within ${limitMs} ms`;
  return Object.assign(new Error(message), { code: 'ETIMEDOUT', syscall: 'connect' });
}
