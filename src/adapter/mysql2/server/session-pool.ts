import type { Socket } from 'node:net';
import { createPool, type Pool, type PoolConnection } from 'mysql2';
import { type Clock, type Endpoint, type EvenkeelError, endpointAddress, type Rng } from '../../../index.js';
import { endpointConnectionAgeMs } from '../../kit/index.js';
import { dial } from './dial.js';
import { IdleReaper } from './idle-reaper.js';
import { logIn } from './log-in.js';
import { hideSecrets, poolOptions, setCredentials, withCredentials } from './mysql2-objects.js';
import { isMadeFrom, openPending, type PendingConnection } from './pending-connection.js';
import { ServerCredentials } from './server-credentials.js';
import { Session, type SessionOwner } from './session.js';
import type { ServerSettings } from './settings.js';

/** What a `SessionPool` needs. */
export interface SessionPoolParts {
  readonly endpoint: Endpoint;
  readonly settings: ServerSettings;
  readonly clock: Clock;
  readonly rng: Rng;
  /** A problem that was dealt with. */
  readonly warn: (error: Error) => void;
  /** A connection was opened. `count`: all that are open now. */
  readonly opened: (count: number) => void;
  /** No connection could be opened. Returns the error for its caller. */
  readonly refused: (cause: Error | undefined) => EvenkeelError;
  /** The last connection ended, while none is being opened. `byApplication`: that says nothing about the server. */
  readonly emptied: (byApplication: boolean, error: Error | undefined) => void;
}

/** Gets a session, or the reason why there is none. */
export type Taken = (error: EvenkeelError | undefined, session: Session | undefined) => void;

/**
 * The mysql2 pool of one server and the sessions in it: hands out an idle one, or opens another. Its sockets go to the pod's
 * address, whatever the Service is called.
 */
export class SessionPool implements SessionOwner {
  readonly handle: Pool;
  readonly clock: Clock;
  readonly endpoint: Endpoint;
  readonly address: string;
  readonly queryTimeoutMs: number;
  /** When a session was last given back, on the clock. */
  heardAtMs: number = Number.NEGATIVE_INFINITY;
  readonly #parts: SessionPoolParts;
  readonly #maxAgeMs: number;
  readonly #sessions = new Map<PoolConnection, Session>();
  readonly #pending = new Set<PendingConnection>();
  readonly #credentials: ServerCredentials | undefined;
  readonly #idleReaper: IdleReaper;
  /** The connection mysql2 opened for the last caller, if it opened one. */
  #dialled: PendingConnection | undefined;
  /** mysql2 had no connection for the last caller and opened none: the caller waits in mysql2's queue. */
  #isQueued = false;
  #isClosing = false;
  #allClosed: (() => void) | undefined;

  constructor(parts: SessionPoolParts) {
    const { endpoint, settings, clock } = parts;
    this.#parts = parts;
    this.clock = clock;
    this.endpoint = endpoint;
    this.address = endpointAddress(endpoint);
    this.queryTimeoutMs = settings.queryTimeoutMs;
    this.#maxAgeMs = Math.min(
      settings.maxConnectionAgeMs,
      endpoint.attributes.get(endpointConnectionAgeMs) ?? Number.POSITIVE_INFINITY,
    );
    this.#idleReaper = new IdleReaper(this, settings, () => this.#sessions.values());
    this.#credentials = this.#credentialsOf(parts);
    this.handle = createPool(poolOptions(settings, endpoint, () => this.#dial()));
    hideSecrets(this.handle);
    this.handle.on('connection', (connection: PoolConnection) => this.#established(connection));
    this.handle.on('acquire', (connection: PoolConnection) => this.#sessions.get(connection)?.acquired());
    this.handle.on('release', (connection: PoolConnection) => this.#sessions.get(connection)?.returned());
    this.handle.on('enqueue', () => {
      this.#isQueued = true;
    });
  }

  /** Open connections. */
  get size(): number {
    return this.#sessions.size;
  }

  /** Open connections and those that are being opened. */
  get open(): number {
    return this.#sessions.size + this.#pending.size;
  }

  get hasIdle(): boolean {
    for (const session of this.#sessions.values()) if (session.isIdle) return true;
    return false;
  }

  /** Whether a session can end without being the last. */
  get hasMoreThanOne(): boolean {
    let alive = 0;
    for (const session of this.#sessions.values()) if (session.isAlive) alive++;
    return alive > 1;
  }

  /** Takes a session. `taken` is called once, later. True if an idle one was there, false if one has to be opened. */
  take(taken: Taken): boolean {
    if (this.#isClosing) {
      this.clock.defer(() => this.#notTaken(new Error('it is being closed'), taken));
      return false;
    }
    if (this.#credentials === undefined || this.hasIdle) return this.#takeNow(taken);
    this.#credentials.renew((error, credentials) => {
      if (credentials === undefined) this.#notTaken(error, taken);
      else if (this.#isClosing) this.#notTaken(new Error('it is being closed'), taken);
      else {
        setCredentials(this.handle, credentials);
        this.#takeNow(taken);
      }
    });
    return false;
  }

  /** Replaces the only session, which is idle. `done`: whether another could be opened. */
  replaceLast(done: (replaced: boolean) => void): void {
    this.take((_, old) => {
      // Somebody else took it: by now there is more than one, or none.
      if (old === undefined) {
        done(true);
        return;
      }
      this.take((error, fresh) => {
        if (fresh === undefined) {
          this.#parts.warn(error as EvenkeelError);
          old.release();
        } else {
          old.quit();
          fresh.release();
        }
        done(fresh !== undefined);
      });
    });
  }

  /** Ends the sessions that have been idle for `idleMs` or longer: their server does not answer. */
  killIdle(idleMs: number): void {
    const sinceMs = this.clock.now() - idleMs;
    for (const session of [...this.#sessions.values()]) {
      if (session.isIdle && session.idleSinceMs <= sinceMs) session.kill(new Error('the server does not answer'));
    }
  }

  /** Ends all sessions, even those in use. */
  killAll(error: () => EvenkeelError): void {
    for (const session of [...this.#sessions.values()]) session.kill(error());
  }

  /** Opens nothing more. Resolves once every session has been given back and ended. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#credentials?.close();
    this.#idleReaper.close();
    for (const { socket } of this.#pending) socket.destroy(new Error('called off'));
    for (const session of [...this.#sessions.values()]) if (session.isIdle) session.quit();
    if (this.open > 0) {
      await new Promise<void>((resolve) => {
        this.#allClosed = resolve;
      });
    }
    this.handle.end(() => {});
  }

  isSuperfluous(session: Session): boolean {
    const { connectionLimit, maxIdle } = this.#parts.settings;
    // A question beside the calls may have opened one more than the limit.
    if (this.#isClosing || this.#sessions.size > connectionLimit) return true;
    if (session.expiresAtMs <= this.clock.now()) return this.hasMoreThanOne;
    return maxIdle < connectionLimit && this.#idle >= Math.max(1, maxIdle);
  }

  get #idle(): number {
    let idle = 0;
    for (const session of this.#sessions.values()) if (session.isIdle) idle++;
    return idle;
  }

  becameIdle(session: Session): void {
    this.heardAtMs = session.idleSinceMs;
    if (!this.#idleReaper.isWatching) this.#idleReaper.watch(session);
  }

  ended(session: Session, error: Error | undefined): void {
    this.#sessions.delete(session.connection);
    if (this.open > 0) return;
    this.#allClosed?.();
    if (!this.#isClosing) this.#parts.emptied(session.endedByApplication, error);
  }

  #takeNow(taken: Taken): boolean {
    this.#dialled = undefined;
    this.#isQueued = false;
    let dialled: PendingConnection | undefined;
    this.handle.getConnection((error, connection) => {
      if (error) {
        // Without an error: mysql2 would report that once more, to nobody.
        dialled?.socket.destroy();
        if (dialled !== undefined) this.#forget(dialled);
        this.#notTaken(error, taken);
        return;
      }
      const session = this.#sessions.get(connection);
      session?.acquired();
      if (session?.isAlive) taken(undefined, session);
      else this.#notTaken(new Error('the connection was lost'), taken);
    });
    dialled = this.#dialled;
    return dialled === undefined && !this.#isQueued;
  }

  #notTaken(error: Error | undefined, taken: Taken): void {
    taken(this.#parts.refused(error), undefined);
  }

  /** mysql2 wants a socket for another connection. */
  #dial(): Socket {
    const pending = openPending(this.endpoint, this.#parts.settings, this.clock, this.#credentials?.current);
    this.#pending.add(pending);
    pending.socket.once('close', () => this.#forget(pending));
    this.#dialled = pending;
    return pending.socket;
  }

  /** A handshake failed, and its socket is closed. */
  #forget(pending: PendingConnection): void {
    pending.timer.cancel();
    if (this.#pending.delete(pending) && this.open === 0) this.#allClosed?.();
  }

  /** A handshake is done. */
  #established(connection: PoolConnection): void {
    for (const pending of this.#pending) {
      if (!isMadeFrom(pending, connection)) continue;
      pending.timer.cancel();
      this.#pending.delete(pending);
      const expiresAtMs = this.#idleReaper.expiry(this.#maxAgeMs, this.#parts.rng);
      this.#sessions.set(connection, new Session(connection, pending, expiresAtMs, this));
      this.#parts.opened(this.#sessions.size);
      return;
    }
  }

  #credentialsOf({ endpoint, settings, clock, rng }: SessionPoolParts): ServerCredentials | undefined {
    const { askCredentials: ask, credentialsRefreshMs: refreshMs, connectTimeoutMs } = settings;
    if (ask === undefined) return undefined;
    return new ServerCredentials({
      endpoint,
      clock,
      rng,
      ask,
      refreshMs,
      connectTimeoutMs,
      sessions: () => this.#sessions.values(),
      logIn: (credentials, signal) => {
        const options = poolOptions(settings, endpoint, () => dial(endpoint, settings.dial));
        return logIn(withCredentials(options, credentials), signal);
      },
      outdated: (sessions) => {
        for (const session of sessions) session.expiresAtMs = Math.min(session.expiresAtMs, clock.now());
        this.#idleReaper.hurry();
      },
    });
  }
}
