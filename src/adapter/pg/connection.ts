import { type Connection, type Endpoint, EvenkeelError, endpointAddress, type Timer } from '../../index.js';
import { OpenConnection } from '../kit/index.js';
import { isOrderlyEnd, refusalOf } from './outcome.js';
import { type Borrower, OwnQuery, type Session, type SessionOwner, type SessionParts } from './session.js';

/** The parts of a `PgServer`. */
export interface PgServerParts extends SessionParts {
  /** Opens a connection, and logs in. `done` is called once, later. Returns how it is called off. */
  readonly open: (
    owner: SessionOwner,
    done: (error: Error | undefined, session: Session | undefined) => void,
  ) => () => void;
}

/** How long a server that refused a connection is limited to those it has, in ms. */
const CAPPED_MS = 5_000;
/** How often idle connections are checked, in ms. */
const LOOK_MS = 1_000;
/** A server that has not been connected for this long is not connected anew, which may take a pause, because it ended a session. In ms. */
const YOUNG_MS = 5_000;

/**
 * One server: lends its sessions to calls, opens more on demand, and tells from them whether it is gone, leaving, or full. The first
 * session is opened ahead of the first statement, and one is always kept; if the server ended it, another is opened within a second.
 */
export class PgServer implements Connection<PgServer>, SessionOwner {
  readonly handle: PgServer = this;
  readonly endpoint: Endpoint;
  readonly parts: PgServerParts;
  readonly #open: OpenConnection<PgServer>;
  readonly #sessions = new Set<Session>();
  /** The most recently used one is last, and lent first. */
  readonly #idle: Session[] = [];
  readonly #waiting: Borrower[] = [];
  /** Cancels each connection that is being opened. */
  readonly #opening = new Set<() => void>();
  readonly #openedAtMs: number;
  #hasLeft = false;
  #isSuperseded = false;
  #isClosing = false;
  #capped: Timer | undefined;
  #look: Timer | undefined;

  constructor(parts: PgServerParts) {
    this.parts = parts;
    this.endpoint = parts.endpoint;
    this.#openedAtMs = parts.clock.now();
    this.#open = new OpenConnection<PgServer>({
      handle: this,
      capacity: parts.settings.max,
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
    if (this.#isSuperseded) {
      this.parts.clock.defer(() => borrower.notLent(this.#supersededError(), 'left'));
      return;
    }
    const session = this.#idle.pop();
    if (session !== undefined) {
      session.isIdle = false;
      this.#lend(session, borrower);
    } else if (this.#hasLeft || this.#isClosing) {
      this.parts.clock.defer(() => borrower.notLent(this.#gone(), 'left'));
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

  /** The endpoint left the set: calls waiting here go to other servers at once. */
  left(): void {
    this.#hasLeft = true;
    for (const borrower of this.#waiting.splice(0)) borrower.notLent(this.#gone(), 'left');
  }

  returned(): void {
    this.#hasLeft = false;
  }

  /** Another server took over: ends the sessions that calls have, and lends none until `reinstate`. Its role can still be asked for. */
  supersede(): void {
    if (this.#isSuperseded) return;
    this.#isSuperseded = true;
    const error = this.#supersededError();
    const waiting = this.#waiting.splice(0);
    this.#waiting.push(...waiting.filter(({ isOwn }) => isOwn));
    for (const borrower of waiting) if (!borrower.isOwn) borrower.notLent(error, 'left');
    for (const session of [...this.#sessions]) if (session.isUsed) session.cut(error);
  }

  reinstate(): void {
    this.#isSuperseded = false;
  }

  /** Runs a query of our own, which is not a call. Prefers the session that has been idle longest, so that all are tested in turn. */
  ask(query: object, signal: AbortSignal): Promise<unknown> {
    const own = new OwnQuery(query, signal, (late) => this.forget(late));
    const idle = this.#idle.shift();
    if (idle === undefined) {
      this.#waiting.unshift(own);
      if (this.size === 0) this.open(() => {});
    } else {
      idle.isIdle = false;
      this.#lend(idle, own);
    }
    return own.answer;
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
    const { settings, clock } = this.parts;
    const nowMs = clock.now();
    const isDone = this.#isClosing && this.#open.running === 0;
    const isOld = nowMs >= session.expiresAtMs && this.#capped === undefined;
    // If it is not waited for and there is room, another one is opened first.
    const mayGo = this.#sessions.size > settings.min || this.#waiting.length > 0 || this.size >= settings.max;
    const isSpent = session.uses >= settings.maxUses || (isOld && mayGo);
    if (isDone || isSpent || this.#sessions.size > this.capacity) {
      session.quit();
      return;
    }
    const next = this.#waiting.shift();
    session.isUsed = false;
    if (next !== undefined) {
      this.#lend(session, next);
      return;
    }
    session.idleSinceMs = nowMs;
    session.isIdle = true;
    session.unref();
    this.#idle.push(session);
  }

  /** Every session is lent here. While a call has it, it keeps the process alive; our own queries do not. */
  #lend(session: Session, borrower: Borrower): void {
    if (borrower.isOwn) session.unref();
    else session.ref();
    session.isUsed = !borrower.isOwn;
    borrower.lent(session);
  }

  lost(session: Session, error: Error | undefined, byApplication: boolean): void {
    if (!this.#sessions.delete(session)) return;
    const { isIdle } = session;
    if (isIdle) {
      session.isIdle = false;
      const index = this.#idle.indexOf(session);
      if (index !== -1) this.#idle.splice(index, 1);
      if (error !== undefined) this.parts.events.failed(error, session.client);
    }
    if (this.#isClosing) {
      this.#endIfEmpty(undefined);
      return;
    }
    if (this.size > 0) this.#demand();
    // If the server does have a problem, opening another connection reveals it.
    else if (byApplication) this.open(() => {});
    else if (!isOrderlyEnd(error, isIdle)) this.#die(error);
    else if (this.parts.clock.now() - this.#openedAtMs >= YOUNG_MS) this.#die(error, true);
    // Not at once, because the next may end as soon: when it is needed, or at the next look.
    else this.#demand();
  }

  /** Opens as many connections as callers wait for, up to the limit. */
  #demand(): void {
    while (this.#opening.size < this.#waiting.length && this.size < this.capacity) this.open(() => {});
  }

  /** Opens a connection. Returns how that is called off. */
  open(done: (error: Error | undefined) => void): () => void {
    const callOff = this.parts.open(this, (error, session) => {
      this.#opening.delete(callOff);
      if (session === undefined) this.#refused(error as Error);
      else {
        this.#sessions.add(session);
        this.freed(session);
      }
      done(error);
    });
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
    const error = this.#connectError(cause);
    this.parts.events.warned(error);
    if (refusalOf(cause) === 'stopping') this.#open.leaves();
    this.#open.carries(this.#sessions.size);
    this.#capped ??= this.parts.clock.timer(() => {
      this.#capped = undefined;
      this.#open.carries(this.parts.settings.max);
    }, CAPPED_MS);
    const busy = this.#sessions.size - this.#idle.length;
    while (this.#waiting.length > 0 && busy + this.#waiting.length > this.capacity) {
      (this.#waiting.pop() as Borrower).notLent(error, 'full');
    }
  }

  /** @param isClean The server ended the last one in order. */
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
    const message = `the connection to ${endpoint} was cut`;
    for (const callOff of [...this.#opening]) callOff();
    for (const session of [...this.#sessions])
      session.kill(new EvenkeelError('EVENKEEL_CLOSED', message, { endpoint }), true);
    this.#endIfEmpty(undefined);
  }

  #lookLater(): void {
    this.#look = this.parts.clock.timer(() => {
      this.#lookLater();
      this.#retire();
    }, LOOK_MS);
  }

  /** Ends connections that have been idle too long, and replaces old ones. Those in use end when they are given back. */
  #retire(): void {
    if (this.size === 0) this.open(() => {});
    const nowMs = this.parts.clock.now();
    const { idleTimeoutMs, min, max } = this.parts.settings;
    for (const session of [...this.#sessions]) {
      const { isIdle } = session;
      const isSpare = this.#sessions.size > min;
      const isOld = nowMs >= session.expiresAtMs;
      if (isSpare) {
        if (isIdle && (isOld || nowMs - session.idleSinceMs >= idleTimeoutMs)) session.quit();
      } else if (isOld && this.#opening.size === 0 && this.#capped === undefined) {
        const isFull = this.size >= max;
        if (isFull && isIdle) session.quit();
        // Otherwise the old one ends once there is another.
        if ((isIdle || !isFull) && this.#opening.size === 0) this.open(() => {});
      }
    }
  }

  #supersededError(): EvenkeelError {
    const endpoint = endpointAddress(this.endpoint);
    const message = `the connection to ${endpoint} was cut: another server was promoted since`;
    return new EvenkeelError('EVENKEEL_CONNECT', message, { endpoint });
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
