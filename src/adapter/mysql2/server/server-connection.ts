import { createPool, type Pool, type PoolConnection } from 'mysql2';
import { type Clock, type Connection, type Endpoint, EvenkeelError, endpointAddress } from '../../../index.js';
import { Closing } from '../../kit/index.js';
import { ConnectionCap } from '../../sql/connection-cap.js';
import { meaningOf } from '../outcome.js';
import { type Events, tell } from '../own-functions.js';
import { type Borrower, ping, pingWithin, type Wait, WaitingBorrowers } from './borrowers.js';
import { hideSecrets } from './credentials.js';
import { IdleSessions, type Taken } from './idle-sessions.js';
import { Opening, type PendingConnection, type ServerParts } from './opening.js';
import { Session, type SessionOwner } from './session.js';
import { poolOptions } from './settings.js';

/** What a `ServerConnection` needs. */
export interface ServerConnectionParts extends ServerParts {
  /** Emits the events `acquire`, `connection`, `release` of mysql2's pools, and `warn`: a problem that was dealt with. */
  readonly events: Events | undefined;
}

/**
 * One server: its mysql2 pool and the sessions in it. Lends sessions to calls, and judges by them whether the server is gone,
 * leaving, or takes no further connection. Its first connection is opened ahead of the first query, and one is always kept.
 */
export class ServerConnection implements Connection<Pool>, SessionOwner {
  readonly handle: Pool;
  readonly closed: Promise<Error | undefined>;
  readonly leaving: Promise<void>;
  readonly clock: Clock;
  readonly endpoint: Endpoint;
  readonly address: string;
  readonly queryTimeoutMs: number;
  readonly #parts: ServerConnectionParts;
  readonly #sessions = new Map<PoolConnection, Session>();
  readonly #opening: Opening;
  readonly #idle: IdleSessions;
  readonly #cap: ConnectionCap;
  readonly #borrowers: WaitingBorrowers;
  /** When a session was last given back, on the clock. */
  #heardAtMs = Number.NEGATIVE_INFINITY;
  /** mysql2 had no connection for the last caller and opened none: the caller waits in mysql2's queue. */
  #isQueued = false;
  #isClosing = false;
  readonly #closing = new Closing(
    () => this.#finish(),
    () => this.#cut('EVENKEEL_CLOSED', `the connection to ${this.address} was cut`),
  );
  #capacityChanged: () => void = () => {};
  #allClosed: (() => void) | undefined;
  #settleClosed!: (error: Error | undefined) => void;
  #settleLeaving!: () => void;

  constructor(parts: ServerConnectionParts) {
    const { endpoint, settings, clock, events } = parts;
    this.#parts = parts;
    this.clock = clock;
    this.endpoint = endpoint;
    this.address = endpointAddress(endpoint);
    this.queryTimeoutMs = settings.queryTimeoutMs;
    this.closed = new Promise((resolve) => {
      this.#settleClosed = resolve;
    });
    this.leaving = new Promise((resolve) => {
      this.#settleLeaving = resolve;
    });
    this.#borrowers = new WaitingBorrowers(this.address);
    const sessions = (): Iterable<Session> => this.#sessions.values();
    this.#cap = new ConnectionCap(clock, settings.connectionLimit, () => this.#capacityChanged());
    this.#idle = new IdleSessions({ clock, settings, sessions, take: (taken) => this.take(taken), warn: this.#warn });
    this.#opening = new Opening({
      ...parts,
      sessions,
      failed: () => {
        if (this.#open === 0) this.#allClosed?.();
      },
      outdated: (isOutdated) => this.#idle.expire(isOutdated),
    });
    this.handle = createPool(poolOptions(settings, endpoint, () => this.#opening.dial()));
    hideSecrets(this.handle);
    this.handle.on('connection', (connection: PoolConnection) => {
      this.#established(connection);
      tell(events, 'connection', connection);
    });
    this.handle.on('acquire', (connection: PoolConnection) => {
      this.#sessions.get(connection)?.acquired();
      tell(events, 'acquire', connection);
    });
    this.handle.on('release', (connection: PoolConnection) => {
      this.#sessions.get(connection)?.returned();
      tell(events, 'release', connection);
    });
    this.handle.on('enqueue', () => {
      this.#isQueued = true;
    });
  }

  get capacity(): number {
    return this.#cap.capacity;
  }

  get sockets(): number {
    return this.#sessions.size;
  }

  watchCapacity(changed: () => void): void {
    this.#capacityChanged = changed;
  }

  /** Lends a session that is fit for use. */
  borrow(borrower: Borrower): void {
    if (this.#borrowers.hasLeft && this.#idle.count === 0) {
      this.clock.defer(() => this.#borrowers.sendAway(borrower));
      return;
    }
    let wait: Wait | undefined;
    const isAtHand = this.take((error, session) => {
      if (wait !== undefined && !this.#borrowers.end(wait)) session?.release();
      else if (session === undefined) {
        borrower.notLent(error as EvenkeelError, this.#cap.isCapped && this.#open > 0 ? 'full' : 'refused');
      } else if (this.clock.now() - session.idleSinceMs < this.#parts.settings.validateAfterMs) borrower.lent(session);
      else this.#validate(session, borrower);
    });
    if (!isAtHand) wait = this.#borrowers.add(borrower);
  }

  /** The server left the Service: calls that wait here go to another one at once. */
  left(): void {
    this.#borrowers.left();
  }

  /** The server is back in the Service. */
  returned(): void {
    this.#borrowers.hasLeft = false;
  }

  /** Takes an idle session, or opens one. `taken` is called once, later. True if an idle session was there, false if one has to be opened. */
  take(taken: Taken): boolean {
    if (this.#isClosing) this.clock.defer(() => taken(this.#refused(new Error('it is being closed')), undefined));
    else if (!this.#opening.isAsked || this.#idle.count > 0) return this.#takeNow(taken);
    else {
      this.#opening.ask(this.handle, (error) => {
        if (error === undefined) this.#takeNow(taken);
        else taken(this.#refused(error), undefined);
      });
    }
    return false;
  }

  /** Opens a connection if there is none. */
  warm(done: (error: EvenkeelError | undefined) => void): void {
    this.take((error, session) => {
      session?.release();
      done(error);
    });
  }

  /** MySQL's ping, on an idle connection or a new one. */
  ping(signal: AbortSignal): Promise<void> {
    return ping((taken) => this.take(taken), signal);
  }

  close(signal?: AbortSignal): Promise<void> {
    return this.#closing.close(signal);
  }

  isSuperfluous(session: Session): boolean {
    const { connectionLimit, maxIdle } = this.#parts.settings;
    // A question beside the calls may have opened one more than the limit.
    if (this.#isClosing || this.#sessions.size > connectionLimit) return true;
    if (session.expiresAtMs <= this.clock.now()) return this.#idle.hasMoreThanOne;
    return maxIdle < connectionLimit && this.#idle.count >= Math.max(1, maxIdle);
  }

  becameIdle(session: Session): void {
    this.#heardAtMs = session.idleSinceMs;
    this.#idle.watch(session);
  }

  ended(session: Session, error: Error | undefined): void {
    this.#sessions.delete(session.connection);
    if (this.#open > 0) return;
    this.#allClosed?.();
    if (this.#isClosing) return;
    if (session.endedBy === 'limit') this.#cap.hold();
    // If the server has a problem after all, opening another connection shows it.
    if (session.endedBy === 'server') this.#gone(error);
    else this.warm(() => this.#cap.resume());
  }

  /** Open connections and those that are being opened. */
  get #open(): number {
    return this.#sessions.size + this.#opening.size;
  }

  #takeNow(taken: Taken): boolean {
    this.#opening.last = undefined;
    this.#isQueued = false;
    let dialled: PendingConnection | undefined;
    this.handle.getConnection((error, connection) => {
      if (error) {
        // Without an error: mysql2 would report that once more, to nobody.
        dialled?.socket.destroy();
        if (dialled !== undefined) this.#opening.forget(dialled);
        taken(this.#refused(error), undefined);
        return;
      }
      const session = this.#sessions.get(connection);
      session?.acquired();
      if (session?.isAlive) taken(undefined, session);
      else taken(this.#refused(new Error('the connection was lost')), undefined);
    });
    dialled = this.#opening.last;
    return dialled === undefined && !this.#isQueued;
  }

  /** A handshake is done. */
  #established(connection: PoolConnection): void {
    const pending = this.#opening.done(connection);
    if (pending === undefined) return;
    this.#sessions.set(connection, new Session(connection, pending, this.#idle.expiry(this.#parts), this));
    this.#cap.opened(this.#sessions.size);
  }

  /** A connection that was idle for long may be dead without anybody knowing. */
  #validate(session: Session, borrower: Borrower): void {
    if (this.#borrowers.hasLeft) {
      session.release();
      this.#borrowers.sendAway(borrower);
      return;
    }
    const { validateAfterMs, validateTimeoutMs } = this.#parts.settings;
    const wait = this.#borrowers.add(borrower);
    pingWithin(validateTimeoutMs, session, this, (error, late) => {
      const stillWaits = this.#borrowers.end(wait);
      if (error === undefined && session.isAlive) {
        if (stillWaits) borrower.lent(session);
        else session.release();
        return;
      }
      session.kill(error ?? new Error('the connection was lost'));
      // A server that does not respond on one idle connection will not respond on the others.
      if (late) this.#idle.kill(validateAfterMs);
      if (!stillWaits) return;
      if (late) borrower.notLent(error as EvenkeelError, 'unresponsive');
      else this.borrow(borrower);
    });
  }

  /**
   * No connection could be opened. If none is left, the server is gone. If it is merely full, it is held to those it has for a
   * while. Otherwise it is shutting down (its listener is closed, but it finishes its work), or it hangs.
   */
  #refused(cause: Error | undefined): EvenkeelError {
    const what = `no connection to ${this.address}: ${cause?.message ?? 'it was lost'}`;
    const error = new EvenkeelError('EVENKEEL_CONNECT', what, { cause, endpoint: this.address });
    if (this.#isClosing) return error;
    const meaning = meaningOf(cause);
    if (this.sockets === 0 && (meaning !== 'full' || this.#open === 0)) {
      // Those being opened now would hardly do better, and callers with nowhere else to go would open more forever.
      this.#gone(error);
      return error;
    }
    const stillAnswers = this.clock.now() - this.#heardAtMs < this.#parts.settings.connectTimeoutMs;
    if (meaning === 'full' || (meaning === 'silent' && stillAnswers)) {
      this.#cap.refused(this.sockets);
      this.#warn(error);
    } else if (meaning !== 'unknown') this.#settleLeaving();
    return error;
  }

  /** All connections are closed. */
  #gone(error: Error | undefined): void {
    this.#settleClosed(error);
    void this.close();
  }

  /** Opens nothing more. Resolves once every session has been given back and ended. */
  async #finish(): Promise<void> {
    this.#isClosing = true;
    this.#cap.close();
    this.#opening.close();
    this.#idle.close();
    if (this.#open > 0) {
      await new Promise<void>((resolve) => {
        this.#allClosed = resolve;
      });
    }
    this.handle.end(() => {});
    this.#settleClosed(undefined);
  }

  /** Another server is the primary now: what runs here fails, rather than be acknowledged and lost. */
  supersede(by: Endpoint): void {
    this.#cut('EVENKEEL_CONNECT', `${this.address} was cut: it is superseded by ${endpointAddress(by)}`);
  }

  #cut(code: 'EVENKEEL_CLOSED' | 'EVENKEEL_CONNECT', what: string): void {
    for (const session of [...this.#sessions.values()]) {
      session.kill(new EvenkeelError(code, what, { endpoint: this.address }));
    }
  }

  readonly #warn = (error: Error): void => tell(this.#parts.events, 'warn', error);
}
