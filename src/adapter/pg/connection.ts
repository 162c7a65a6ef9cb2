import type { PoolClient } from 'pg';
import {
  type Clock,
  type Connection,
  type Endpoint,
  EvenkeelError,
  endpointAddress,
  type Rng,
  type Timer,
} from '../../index.js';
import { asError, jittered, OpenConnection } from '../kit/index.js';
import type { ServerSettings } from './options.js';
import { isHangUp, refusalOf, sqlState } from './outcome.js';
import { openSession, type Session, type SessionOwner } from './session.js';

/** A call that borrows a session from a server. Either `lent` or `notLent` is called, once. */
export interface Borrower {
  lent(session: Session): void;
  /** It has to wait: a handshake is running, or all sessions are in use. */
  waits(): void;
  /** Nothing was sent. */
  notLent(error: EvenkeelError, why: NotLent): void;
}

/** `full`: the server accepts no further connections but serves those it has. `left`: it is no longer in the Service. */
export type NotLent = 'refused' | 'full' | 'left';

/** Events of clients, for listeners on the pool. */
export interface ClientEvents {
  connected(client: PoolClient): void;
  removed(client: PoolClient): void;
  /** An idle client failed. */
  failed(error: Error, client: PoolClient): void;
  warned(error: Error): void;
}

/** The parts of a `PgServer`. */
export interface PgServerParts {
  readonly endpoint: Endpoint;
  readonly settings: ServerSettings;
  readonly clock: Clock;
  readonly rng: Rng;
  readonly events: ClientEvents;
  /** Its role may have changed: query it again. */
  readonly recheckRole: () => void;
}

/** How long a server that refused a connection is limited to those it has, in ms. */
const CAPPED_MS = 5_000;
/** How often idle connections are checked, in ms. */
const LOOK_MS = 1_000;

/**
 * One server: lends its sessions to calls, opens more on demand, and tells from them whether it is gone, leaving, or full. The first
 * session is opened ahead of the first statement, and one is always kept.
 */
export class PgServer implements Connection<PgServer>, SessionOwner {
  readonly handle: PgServer = this;
  readonly endpoint: Endpoint;
  readonly settings: ServerSettings;
  readonly clock: Clock;
  readonly #parts: PgServerParts;
  readonly #open: OpenConnection<PgServer>;
  readonly #sessions = new Set<Session>();
  /** The most recently used one is last, and lent first. */
  readonly #idle: Session[] = [];
  readonly #waiting: Borrower[] = [];
  /** Cancels each connection that is being opened. */
  readonly #opening = new Set<() => void>();
  #hasLeft = false;
  #isClosing = false;
  #capped: Timer | undefined;
  #look: Timer | undefined;

  constructor(parts: PgServerParts) {
    const { endpoint, settings, clock } = parts;
    this.#parts = parts;
    this.endpoint = endpoint;
    this.settings = settings;
    this.clock = clock;
    this.#open = new OpenConnection<PgServer>({
      handle: this,
      capacity: settings.max,
      finish: () => this.#finish(),
      cut: () => this.#cut(),
    });
    this.#lookLater();
  }

  get capacity(): number {
    return this.#open.capacity;
  }

  get sockets(): number {
    return this.#sessions.size;
  }

  get closed(): Promise<Error | undefined> {
    return this.#open.closed;
  }

  get leaving(): Promise<void> {
    return this.#open.leaving;
  }

  watchCapacity(changed: () => void): void {
    this.#open.watchCapacity(changed);
  }

  /** Connections that are open or being opened. */
  get size(): number {
    return this.#sessions.size + this.#opening.size;
  }

  get idleCount(): number {
    return this.#idle.length;
  }

  /** Calls waiting for a session of this server. */
  get waitingCount(): number {
    return this.#waiting.length;
  }

  /** Lends a session. The borrower returns it with `session.release`, then calls `ended`. */
  borrow(borrower: Borrower): void {
    this.#open.callBegins();
    const session = this.#idle.pop();
    if (session !== undefined) {
      session.isIdle = false;
      session.ref();
      borrower.lent(session);
    } else if (this.#hasLeft || this.#isClosing) {
      this.clock.defer(() => borrower.notLent(this.#gone(), 'left'));
    } else {
      this.#waiting.push(borrower);
      borrower.waits();
      this.#demand();
    }
  }

  /** A borrower's call is over, whether it got a session or not. */
  ended(): void {
    this.#open.callEnds();
  }

  /** A borrower no longer waits. */
  forget(borrower: Borrower): void {
    const index = this.#waiting.indexOf(borrower);
    if (index !== -1) this.#waiting.splice(index, 1);
  }

  /** Opens the first connection. */
  warm(done: (error: Error | undefined) => void): () => void {
    return this.#openOne(done);
  }

  /** The endpoint left the set: calls waiting here go to other servers at once. */
  left(): void {
    this.#hasLeft = true;
    for (const borrower of this.#waiting.splice(0)) borrower.notLent(this.#gone(), 'left');
  }

  returned(): void {
    this.#hasLeft = false;
  }

  /** Runs a query of our own, which is not a call. Prefers the session that has been idle longest, so that all are tested in turn. */
  ask(query: object, signal: AbortSignal): Promise<unknown> {
    return new Promise((resolve, reject) => {
      let session: Session | undefined;
      const aborted = (): void => {
        this.forget(asking);
        reject(asError(signal.reason));
        // Late answers would belong to this query, and a session that hangs is no use to anyone.
        session?.kill(asError(signal.reason));
      };
      const asking: Borrower = {
        waits: () => {},
        notLent: (error) => reject(error),
        lent: (lent) => {
          session = lent;
          lent.run(query, undefined, (error, result) => {
            signal.removeEventListener('abort', aborted);
            session = undefined;
            // A refusal to answer says nothing about the connection.
            lent.release(() => {}, sqlState(error) === undefined ? error : undefined);
            if (error) reject(error);
            else resolve(result);
          });
        },
      };
      signal.addEventListener('abort', aborted, { once: true });
      const idle = this.#idle.shift();
      if (idle === undefined) this.#waiting.unshift(asking);
      else {
        idle.isIdle = false;
        asking.lent(idle);
      }
    });
  }

  async ping(signal: AbortSignal): Promise<void> {
    await this.ask({ text: 'SELECT 1' }, signal);
  }

  close(signal?: AbortSignal): Promise<void> {
    this.#isClosing = true;
    return this.#open.close(signal);
  }

  // For its sessions.

  freed(session: Session): void {
    const { maxUses } = this.settings;
    const isDone = this.#isClosing && this.#open.running === 0;
    if (isDone || session.uses >= maxUses || this.#sessions.size > this.capacity) {
      session.quit();
      return;
    }
    const next = this.#waiting.shift();
    if (next !== undefined) {
      next.lent(session);
      return;
    }
    session.idleSinceMs = this.clock.now();
    session.isIdle = true;
    session.unref();
    this.#idle.push(session);
  }

  lost(session: Session, error: Error | undefined, byApplication: boolean): void {
    if (!this.#sessions.delete(session)) return;
    const { isIdle } = session;
    if (isIdle) {
      session.isIdle = false;
      const index = this.#idle.indexOf(session);
      if (index !== -1) this.#idle.splice(index, 1);
      if (error !== undefined) this.#parts.events.failed(error, session.client);
    }
    if (this.#isClosing) {
      this.#endIfEmpty(undefined);
      return;
    }
    // If the server does have a problem, opening another connection reveals it.
    if (byApplication && this.size === 0) this.#openOne(() => {});
    else if (this.size === 0) this.#die(error, isIdle && isHangUp(error));
    else this.#demand();
  }

  removed({ client }: Session): void {
    this.#parts.events.removed(client);
  }

  recheckRole(): void {
    this.#parts.recheckRole();
  }

  /** Opens as many connections as callers wait for, up to the limit. */
  #demand(): void {
    while (this.#opening.size < this.#waiting.length && this.size < this.capacity) this.#openOne(() => {});
  }

  #openOne(done: (error: Error | undefined) => void): () => void {
    const callOff = openSession(
      this,
      (client) => this.#parts.events.connected(client),
      (error, session) => {
        this.#opening.delete(callOff);
        if (session === undefined) {
          this.#refused(error as Error);
          done(error);
          return;
        }
        const { maxAgeMs } = this.settings;
        if (Number.isFinite(maxAgeMs))
          session.expiresAtMs = this.clock.now() + jittered(this.#parts.rng, maxAgeMs, 0.5);
        this.#sessions.add(session);
        this.freed(session);
        done(undefined);
      },
    );
    this.#opening.add(callOff);
    return callOff;
  }

  /** No connection could be opened. If none is left, the server is gone; otherwise it is full or shutting down. */
  #refused(cause: Error): void {
    if (this.#isClosing) {
      this.#endIfEmpty(undefined);
      return;
    }
    if (this.size === 0) {
      this.#die(cause);
      return;
    }
    if (this.#sessions.size === 0) return; // another one is being opened
    const refusal = refusalOf(cause);
    const error = this.#connectError(cause);
    this.#parts.events.warned(error);
    if (refusal === 'stopping') this.#open.leaves();
    this.#open.carries(this.#sessions.size);
    this.#capped ??= this.clock.timer(() => {
      this.#capped = undefined;
      this.#open.carries(this.settings.max);
    }, CAPPED_MS);
    const busy = this.#sessions.size - this.#idle.length;
    while (this.#waiting.length > 0 && busy + this.#waiting.length > this.capacity) {
      (this.#waiting.pop() as Borrower).notLent(error, 'full');
    }
  }

  /** All connections are gone. @param isClean The server ended the last one in order. */
  #die(cause: Error | undefined, isClean = false): void {
    this.#isClosing = true;
    const error = this.#connectError(cause);
    const waiting = this.#waiting.splice(0);
    this.#endIfEmpty(isClean ? undefined : cause);
    for (const borrower of waiting) borrower.notLent(error, 'refused');
  }

  #endIfEmpty(error: Error | undefined): void {
    if (this.size > 0) return;
    this.#capped?.cancel();
    this.#look?.cancel();
    this.#open.ended(error);
  }

  #finish(): void {
    for (const callOff of [...this.#opening]) callOff();
    for (const session of [...this.#idle]) session.quit();
    this.#endIfEmpty(undefined);
  }

  #cut(): void {
    const endpoint = endpointAddress(this.endpoint);
    const error = (): Error =>
      new EvenkeelError('EVENKEEL_CLOSED', `the connection to ${endpoint} was cut`, { endpoint });
    for (const callOff of [...this.#opening]) callOff();
    for (const session of [...this.#sessions]) session.kill(error(), true);
    this.#endIfEmpty(undefined);
  }

  #lookLater(): void {
    this.#look = this.clock.timer(() => {
      this.#lookLater();
      this.#retire();
    }, LOOK_MS);
  }

  /** Ends connections that have been idle too long, and replaces old ones. */
  #retire(): void {
    const nowMs = this.clock.now();
    const { idleTimeoutMs, min } = this.settings;
    for (const session of [...this.#idle]) {
      const isSpare = this.#sessions.size > min;
      const isOld = nowMs >= session.expiresAtMs;
      if (isSpare && (isOld || nowMs - session.idleSinceMs >= idleTimeoutMs)) session.quit();
      else if (isOld && this.#opening.size === 0) {
        // The next check ends it, when there is one more.
        this.#openOne(() => {});
      }
    }
  }

  #gone(): EvenkeelError {
    return this.#connectError(new Error('it left the Service before the statement was sent'));
  }

  #connectError(cause: Error | undefined): EvenkeelError {
    const endpoint = endpointAddress(this.endpoint);
    const message = `no connection to ${endpoint}: ${cause?.message ?? 'it was lost'}`;
    return new EvenkeelError('EVENKEEL_CONNECT', message, { cause, endpoint });
  }
}
