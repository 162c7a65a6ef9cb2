import type { Socket } from 'node:net';
import { createPool, type Pool, type PoolConnection } from 'mysql2';
import {
  type Clock,
  type Connection,
  type Endpoint,
  EvenkeelError,
  endpointAddress,
  type Rng,
} from '../../../index.js';
import { Closing, endpointConnectionAgeMs } from '../../kit/index.js';
import { meaningOf } from '../checks/refusal.js';
import type { ServerSettings } from '../options.js';
import type { Borrower } from './borrower.js';
import { ConnectionCap } from './connection-cap.js';
import { CredentialRefresh } from './credential-refresh.js';
import { type CredentialFunctions, type Credentials, credentialsTooLate } from './credentials.js';
import { dial } from './dial.js';
import { IdleReaper } from './idle-reaper.js';
import { logIn } from './log-in.js';
import { type Lender, pingOn } from './out-of-band-query.js';
import { type Dialled, PendingConnections } from './pending-connections.js';
import { poolOptions } from './pool-options.js';
import { hideSecrets, setCredentials, withCredentials } from './secrets.js';
import { Session, type SessionOwner } from './session.js';

/** What a `ServerConnection` is made of. */
export interface ServerConnectionParts {
  readonly endpoint: Endpoint;
  readonly settings: ServerSettings;
  readonly clock: Clock;
  readonly rng: Rng;
  /** Something odd that was handled. */
  readonly warn: (error: Error) => void;
  /** A pool was made: for those who want its events. */
  readonly opened: (pool: Pool) => void;
}

/** One wait of a borrower, who may wait here again later. */
interface Waiting {
  readonly borrower: Borrower;
}

/** How long a server may take to hang up, or to answer a reset, in ms. */
const PATIENCE_MS = 1_000;

/**
 * One server as mysql2 knows it: a Pool whose host is the Service and whose sockets go to the pod's address. Its first
 * connection is opened ahead of the first query; one is kept, however idle.
 */
export class ServerConnection implements Connection<Pool>, SessionOwner, Lender {
  readonly handle: Pool;
  readonly closed: Promise<Error | undefined>;
  readonly leaving: Promise<void>;
  readonly clock: Clock;
  readonly endpoint: Endpoint;
  readonly address: string;
  readonly queryTimeoutMs: number;
  readonly patienceMs: number = PATIENCE_MS;

  readonly #parts: ServerConnectionParts;
  readonly #maxAgeMs: number;
  readonly #idleReaper: IdleReaper;
  readonly #sessions = new Map<PoolConnection, Session>();
  readonly #refresh: CredentialRefresh | undefined;
  /** What the next connection logs in with, where that is asked for. */
  #credentials: Credentials | undefined;
  readonly #pendingConnections: PendingConnections;
  readonly #cap: ConnectionCap;
  /** When a session was last given back. */
  #heardAtMs = Number.NEGATIVE_INFINITY;
  readonly #closing = new Closing(
    () => this.#finish(),
    () => this.#cut(),
  );
  #allClosed: (() => void) | undefined;
  /** Who waits for a handshake, a ping, or the answer of a function. */
  readonly #waiting = new Set<Waiting>();
  /** Its endpoint is not in the Service at the moment. */
  #left = false;
  /** mysql2 had no connection for the last caller and opens none: the caller waits for one of the others. */
  #isQueued = false;
  #settleClosed!: (error: Error | undefined) => void;
  #settleLeaving!: () => void;

  constructor(parts: ServerConnectionParts) {
    const { endpoint, settings, clock } = parts;
    this.#parts = parts;
    this.clock = clock;
    this.endpoint = endpoint;
    this.address = endpointAddress(endpoint);
    this.queryTimeoutMs = settings.queryTimeoutMs;
    this.#cap = new ConnectionCap(clock, settings.connectionLimit);
    this.#maxAgeMs = Math.min(
      settings.maxConnectionAgeMs,
      endpoint.attributes.get(endpointConnectionAgeMs) ?? Number.POSITIVE_INFINITY,
    );
    this.closed = new Promise((resolve) => {
      this.#settleClosed = resolve;
    });
    this.leaving = new Promise((resolve) => {
      this.#settleLeaving = resolve;
    });
    this.#pendingConnections = new PendingConnections({
      endpoint,
      options: settings.dial,
      clock,
      timeoutMs: settings.connectTimeoutMs,
      address: this.address,
      ended: () => {
        if (this.#open === 0) this.#allClosed?.();
      },
    });
    this.#idleReaper = new IdleReaper(this, settings, () => this.#sessions.values());
    this.#refresh = this.#refreshOf(parts);
    this.handle = createPool(poolOptions(settings, endpoint, () => this.#dial()));
    hideSecrets(this.handle);
    this.handle.on('connection', (connection: PoolConnection) => this.#established(connection));
    this.handle.on('acquire', (connection: PoolConnection) => this.#sessions.get(connection)?.acquired());
    this.handle.on('release', (connection: PoolConnection) => this.#sessions.get(connection)?.returned());
    this.handle.on('enqueue', () => {
      this.#isQueued = true;
    });
    parts.opened(this.handle);
  }

  get capacity(): number {
    return this.#cap.capacity;
  }

  watchCapacity(changed: () => void): void {
    this.#cap.watch(changed);
  }

  /** Lends a session that is fit for use. */
  borrow(borrower: Borrower): void {
    if (this.#left && !this.#hasIdle) {
      this.clock.defer(() => borrower.notLent(this.#leftError(), 'left'));
      return;
    }
    let waiting: Waiting | undefined;
    const isAtHand = this.#take((error, session) => {
      if (waiting !== undefined && !this.#waiting.delete(waiting)) {
        // It has gone to another server.
        if (session === undefined) this.#refused(error);
        else session.release(undefined);
      } else if (session === undefined) {
        const refusal = this.#refused(error);
        borrower.notLent(refusal, this.#cap.isCrowded && this.#open > 0 ? 'full' : 'refused');
      } else if (this.clock.now() - session.idleSinceMs < this.#parts.settings.validateAfterMs) borrower.lent(session);
      else this.#validate(session, borrower);
    });
    if (!isAtHand) waiting = this.#waits(borrower);
  }

  /** The server left the Service: statements that wait here go to another one at once. */
  left(): void {
    this.#left = true;
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const { borrower } of waiting) borrower.notLent(this.#leftError(), 'left');
  }

  /** It is back. */
  returned(): void {
    this.#left = false;
  }

  /** Opens a connection if there is none, and puts it in the pool. */
  warm(done: (error: EvenkeelError | undefined) => void): void {
    this.#take((error, session) => {
      session?.release(undefined);
      done(session === undefined ? this.#refused(error) : undefined);
    });
  }

  /** Puts a new connection in the place of the only one, which is idle. `done`: whether it could be had. */
  replaceLast(done: (replaced: boolean) => void): void {
    this.#take((_, old) => {
      // Somebody was faster: then there are more than one by now, or none.
      if (old === undefined) {
        done(true);
        return;
      }
      this.#take((error, fresh) => {
        if (fresh === undefined) {
          this.#parts.warn(this.#refused(error));
          old.release(undefined);
        } else {
          old.quit();
          fresh.release(undefined);
        }
        done(fresh !== undefined);
      });
    });
  }

  /** MySQL's ping, on an idle connection or a new one. */
  ping(signal: AbortSignal): Promise<void> {
    return pingOn(this, signal);
  }

  lend(lent: (error: Error | undefined, session: Session | undefined) => void): void {
    this.#take((error, session) => lent(session === undefined ? this.#refused(error) : undefined, session));
  }

  close(signal?: AbortSignal): Promise<void> {
    return this.#closing.close(signal);
  }

  isSuperfluous(session: Session): boolean {
    const { connectionLimit } = this.#parts.settings;
    // One more than the limit may have been opened for a question beside the calls.
    return this.#closing.hasBegun || this.#sessions.size > connectionLimit || this.#idleReaper.isDue(session);
  }

  becameIdle(session: Session): void {
    this.#heardAtMs = session.idleSinceMs;
    this.#idleReaper.look(session);
  }

  ended(session: Session, error: Error | undefined): void {
    this.#sessions.delete(session.connection);
    if (this.#open > 0) return;
    this.#allClosed?.();
    if (this.#closing.hasBegun) return;
    // The server is as good as it was. If it is not, `warm` finds out.
    if (session.endedByApplication) this.warm(() => {});
    else this.#gone(error);
  }

  /** Whether this one may go: one is always kept. */
  get hasMoreThanOne(): boolean {
    let alive = 0;
    for (const session of this.#sessions.values()) if (session.isAlive) alive++;
    return alive > 1;
  }

  #dial(): Socket {
    const socket = this.#pendingConnections.open();
    this.#refresh?.dialled(socket, this.#credentials);
    return socket;
  }

  #refreshOf({ endpoint, settings, clock, rng }: ServerConnectionParts): CredentialRefresh | undefined {
    const { asked, credentialsRefreshMs, connectTimeoutMs } = settings;
    if (asked === undefined) return undefined;
    return new CredentialRefresh({
      clock,
      rng,
      refreshMs: credentialsRefreshMs,
      connectTimeoutMs,
      sessions: () => this.#sessions.values(),
      ask: () => asked.ask(endpoint),
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

  #established(connection: PoolConnection): void {
    const socket = this.#pendingConnections.takeFor(connection);
    if (socket === undefined) return;
    const expiresAtMs = this.#idleReaper.expiry(this.#maxAgeMs, this.#parts.rng);
    const session = new Session(connection, socket, expiresAtMs, this);
    this.#sessions.set(connection, session);
    this.#refresh?.established(socket, session);
    this.#cap.opened(this.#sessions.size);
  }

  /** Connections, and those on their way. */
  get #open(): number {
    return this.#sessions.size + this.#pendingConnections.size;
  }

  /** Takes a connection from the pool. True if one lies there, false if it has to be opened. */
  #take(taken: (error: Error | undefined, session: Session | undefined) => void): boolean {
    if (this.#closing.hasBegun) {
      this.clock.defer(() => taken(new Error('it is being closed'), undefined));
      return false;
    }
    const { asked } = this.#parts.settings;
    if (asked === undefined || this.#hasIdle) return this.#takeNow(taken);
    this.#askFor(asked, (error, credentials) => {
      if (error === undefined && this.#closing.hasBegun) taken(new Error('it is being closed'), undefined);
      else if (error !== undefined) taken(error, undefined);
      else {
        this.#credentials = credentials;
        setCredentials(this.handle, credentials as Credentials);
        this.#takeNow(taken);
      }
    });
    return false;
  }

  get #hasIdle(): boolean {
    for (const session of this.#sessions.values()) if (session.isIdle) return true;
    return false;
  }

  /** Asks who we are, for one connection; answers once. */
  #askFor(asked: CredentialFunctions, answer: (error: Error | undefined, credentials?: Credentials) => void): void {
    const { endpoint, settings } = this.#parts;
    let isOver = false;
    const end = (error: Error | undefined, credentials?: Credentials): void => {
      if (isOver) return;
      isOver = true;
      timer.cancel();
      answer(error, credentials);
    };
    const { connectTimeoutMs } = settings;
    const timer = this.clock.timer(() => end(credentialsTooLate(endpoint, connectTimeoutMs)), connectTimeoutMs);
    asked.ask(endpoint).then((credentials) => end(undefined, credentials), end);
  }

  #takeNow(taken: (error: Error | undefined, session: Session | undefined) => void): boolean {
    let dialled: Dialled | undefined;
    const ask = (): void =>
      this.handle.getConnection((error, connection) => {
        if (error) {
          if (dialled !== undefined) this.#pendingConnections.drop(dialled);
          taken(error, undefined);
          return;
        }
        const session = this.#sessions.get(connection);
        session?.acquired();
        if (session?.isAlive) taken(undefined, session);
        else taken(new Error('the connection was lost'), undefined);
      });
    this.#isQueued = false;
    dialled = this.#pendingConnections.openedBy(ask);
    return dialled === undefined && !this.#isQueued;
  }

  /** A connection that was idle for long may be dead without anybody knowing. */
  #validate(session: Session, borrower: Borrower): void {
    if (this.#left) {
      session.release(undefined);
      borrower.notLent(this.#leftError(), 'left');
      return;
    }
    const { validateTimeoutMs } = this.#parts.settings;
    const waiting = this.#waits(borrower);
    session.ping(validateTimeoutMs, (error, late) => {
      // If not it has gone to another server.
      const stillWaits = this.#waiting.delete(waiting);
      if (error === undefined && session.isAlive) {
        if (stillWaits) borrower.lent(session);
        else session.release(undefined);
        return;
      }
      session.kill(error ?? new Error('the connection was lost'));
      if (late) this.#killStale();
      if (!stillWaits) return;
      if (late) borrower.notLent(error as EvenkeelError, 'unresponsive');
      else this.borrow(borrower);
    });
  }

  #waits(borrower: Borrower): Waiting {
    const waiting = { borrower };
    this.#waiting.add(waiting);
    borrower.waits();
    return waiting;
  }

  #leftError(): EvenkeelError {
    const what = `${this.address} left the Service before the statement was sent`;
    return new EvenkeelError('EVENKEEL_CONNECT', what, { endpoint: this.address });
  }

  /** A server that does not answer on one idle connection will not do so on the others. */
  #killStale(): void {
    const staleSinceMs = this.clock.now() - this.#parts.settings.validateAfterMs;
    for (const session of [...this.#sessions.values()]) {
      if (session.isIdle && session.idleSinceMs <= staleSinceMs) session.kill(new Error('the server does not answer'));
    }
  }

  /**
   * The server took no further connection. If none is left it is gone. If it is merely full, it is held to those it has
   * for a while. Otherwise it is shutting down (its listener is closed, what it has it finishes), or it hangs.
   */
  #refused(cause: Error | undefined): EvenkeelError {
    const what = `no connection to ${this.address}: ${cause?.message ?? 'it was lost'}`;
    const error = new EvenkeelError('EVENKEEL_CONNECT', what, { cause, endpoint: this.address });
    if (this.#closing.hasBegun) return error;
    const meaning = meaningOf(cause);
    if (this.#sessions.size === 0 && (meaning !== 'full' || this.#open === 0)) {
      // Others that are being opened now will hardly fare better, and callers with nowhere else to go would open more for ever.
      this.#gone(error);
      return error;
    }
    const stillAnswers = this.clock.now() - this.#heardAtMs < this.#parts.settings.connectTimeoutMs;
    if (meaning === 'full' || (meaning === 'silent' && stillAnswers)) {
      this.#cap.refused(this.#sessions.size);
      this.#parts.warn(error);
    } else if (meaning !== 'unknown') this.#settleLeaving();
    return error;
  }

  /** All connections are closed. */
  #gone(error: Error | undefined): void {
    this.#settleClosed(error);
    void this.close();
  }

  async #finish(): Promise<void> {
    this.#cap.close();
    this.#refresh?.close();
    this.#idleReaper.close();
    this.#pendingConnections.cutAll();
    for (const session of [...this.#sessions.values()]) if (session.isIdle) session.quit();
    if (this.#open > 0) {
      await new Promise<void>((resolve) => {
        this.#allClosed = resolve;
      });
    }
    this.handle.end(() => {});
    this.#settleClosed(undefined);
  }

  #cut(): void {
    for (const session of [...this.#sessions.values()]) {
      session.kill(
        new EvenkeelError('EVENKEEL_CLOSED', `the connection to ${this.address} was cut`, { endpoint: this.address }),
      );
    }
  }
}
