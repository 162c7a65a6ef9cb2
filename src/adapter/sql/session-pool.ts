import {
  type Clock,
  type Connection,
  type Endpoint,
  EvenkeelError,
  endpointAddress,
  type Rng,
  type Timer,
} from '../../index.js';
import { deadline, endpointConnectionAgeMs, jittered, OpenConnection } from '../kit/index.js';
import { ConnectionCap } from './connection-cap.js';
import {
  type Borrower,
  connectError,
  type EndedBy,
  OwnQuery,
  type PooledSession,
  type SessionOwner,
} from './session.js';

/** How many sessions a server has, and for how long; times in ms. */
export interface PoolLimits {
  readonly max: number;
  /** How many sessions to a server are kept even if they are idle. At least one. */
  readonly min: number;
  /** How many idle sessions are kept; those beyond are ended when they are given back. */
  readonly maxIdle: number;
  readonly idleTimeoutMs: number;
  readonly maxUses: number;
  /** The mean age at which a session is replaced, in ms. */
  readonly maxAgeMs: number;
  /** A session that was idle for this long, in ms, is checked before it is lent. */
  readonly validateAfterMs: number;
  readonly validateTimeoutMs: number;
  /** A server that sent something within this time, in ms, does not count as dead only because it does not greet a new connection. */
  readonly connectTimeoutMs: number;
}

/**
 * What a refused connection means for a server that has others: it is `full`; it is `stopping` (its listener is closed); it is `silent`
 * (it accepts, but does not greet); or nothing is known.
 */
export type ConnectRefusal = 'full' | 'stopping' | 'silent' | 'unknown';

/** The parts of a `SessionPool`: what differs from one database to the next. */
export interface SessionPoolParts<S extends PooledSession, H> {
  readonly endpoint: Endpoint;
  readonly clock: Clock;
  readonly rng: Rng;
  readonly limits: PoolLimits;
  /** Returns what leases give to their callers. */
  readonly handle: (pool: SessionPool<S, H>) => H;
  /** Opens a connection to the server, and logs in. `done` is called once, later. Returns a function that calls it off. */
  readonly open: (
    owner: SessionOwner<S>,
    done: (error: Error | undefined, session: S | undefined) => void,
  ) => () => void;
  readonly refusalOf: (error: Error) => ConnectRefusal;
  /** Whether the server itself ended a session, with this error or without one. */
  readonly isOrderlyEnd: (error: Error | undefined, wasIdle: boolean) => boolean;
  /**
   * A server that ended its last session in order, and has not been connected for this long, keeps its place: it would be connected anew
   * after a pause. In ms.
   */
  readonly youngMs: number;
  /** The query with which `ping` checks a session. */
  readonly pingQuery: unknown;
  /** Whether a query of evenkeel's own opens a connection of its own while all are in use, even beyond the limit. */
  readonly queriesBesideLimit: boolean;
  /** Called when an idle session failed. */
  readonly failed?: (error: Error, session: S) => void;
  /** Called with a problem that was dealt with. */
  readonly warned: (error: Error) => void;
  /** Called when the pool has ended: all its sessions are gone. */
  readonly ended?: () => void;
}

/** Milliseconds between two checks of the idle sessions. */
const LOOK_MS = 1_000;
/** Ages are spread by this much either way, so that sessions opened together do not all end together. */
const AGE_JITTER_RATIO = 0.5;

/**
 * One server: lends its sessions to calls, opens more on demand, and tells from them whether it is gone, leaving, or full. The first
 * session is opened ahead of the first statement, and one is always kept; if the server ended it, another is opened within a second.
 */
export class SessionPool<S extends PooledSession, H> implements Connection<H>, SessionOwner<S> {
  readonly handle: H;
  readonly endpoint: Endpoint;
  readonly #parts: SessionPoolParts<S, H>;
  readonly #open: OpenConnection<H>;
  readonly #cap: ConnectionCap;
  readonly #sessions = new Set<S>();
  /** The idle sessions. The most recently used one is last, and lent first. */
  readonly #idle: S[] = [];
  readonly #waiting: Borrower<S>[] = [];
  /** The borrowers whose session is being checked. */
  readonly #validating = new Set<Borrower<S>>();
  /** Functions that cancel each connection that is being opened. */
  readonly #opening = new Set<() => void>();
  readonly #openedAtMs: number;
  /** When a session of the pool was last given back, on the clock. */
  #returnedAtMs = Number.NEGATIVE_INFINITY;
  #hasLeft = false;
  #supersededBy: string | undefined;
  #isClosing = false;
  #look: Timer | undefined;

  constructor(parts: SessionPoolParts<S, H>) {
    const { endpoint, clock, limits } = parts;
    this.#parts = parts;
    this.endpoint = endpoint;
    this.#openedAtMs = clock.now();
    this.handle = parts.handle(this);
    this.#open = new OpenConnection<H>({
      handle: this.handle,
      capacity: limits.max,
      finish: () => this.#finish(),
      cut: () => this.#cut(),
    });
    this.#cap = new ConnectionCap(clock, limits.max, (capacity) => this.#open.carries(capacity));
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

  /** How many sessions are open or being opened. */
  get size(): number {
    return this.#sessions.size + this.#opening.size;
  }

  get idleCount(): number {
    return this.#idle.length;
  }

  /** How many borrowers wait for a session of this server. */
  get waitingCount(): number {
    return this.#waiting.length;
  }

  /** Lends a session, which the borrower gives back with `release`. The call lasts until then. */
  borrow(borrower: Borrower<S>): void {
    if (!borrower.isOwn) this.#open.callBegins();
    if (this.#supersededBy !== undefined) {
      this.#refuseLater(borrower, this.#supersededError());
      return;
    }
    const session = this.#idle.pop();
    if (session !== undefined) {
      session.isIdle = false;
      this.#lendValid(session, borrower);
    } else if (this.#hasLeft || this.#isClosing) {
      this.#refuseLater(borrower, this.#gone());
    } else {
      this.#waiting.push(borrower);
      borrower.waits();
      this.#demand();
    }
  }

  /** A borrower no longer waits. */
  forget(borrower: Borrower<S>): void {
    const index = this.#waiting.indexOf(borrower);
    if (index !== -1) this.#waiting.splice(index, 1);
    else if (!this.#validating.delete(borrower)) return;
    if (!borrower.isOwn) this.#open.callEnds();
  }

  /** The server's endpoint left the set: calls waiting here go to other servers at once. */
  left(): void {
    this.#hasLeft = true;
    const waiting = [...this.#validating, ...this.#waiting.splice(0)];
    this.#validating.clear();
    for (const borrower of waiting) this.#refuse(borrower, this.#gone(), 'left');
  }

  returned(): void {
    this.#hasLeft = false;
  }

  /**
   * Another server took over: ends the sessions that calls have, rather than acknowledge what would be lost, and lends none until
   * `reinstate`. Queries of evenkeel's own still run.
   */
  supersede(by = 'another server was promoted since'): void {
    if (this.#supersededBy !== undefined) return;
    this.#supersededBy = by;
    const error = this.#supersededError();
    const waiting = this.#waiting.splice(0);
    this.#waiting.push(...waiting.filter(({ isOwn }) => isOwn));
    for (const borrower of waiting) if (!borrower.isOwn) this.#refuse(borrower, error, 'left');
    for (const session of [...this.#sessions]) if (session.isUsed) session.cut(error);
  }

  reinstate(): void {
    this.#supersededBy = undefined;
  }

  /** Runs a query of evenkeel's own. Prefers the session that has been idle longest, so that all are tested in turn. */
  runOwn(query: unknown, signal: AbortSignal): Promise<unknown> {
    const own = new OwnQuery<S>(query, signal, (late) => this.forget(late));
    const idle = this.#idle.shift();
    if (idle !== undefined) {
      idle.isIdle = false;
      this.#lend(idle, own);
    } else if (this.#isClosing) {
      own.notLent(this.#gone());
    } else {
      this.#waiting.unshift(own);
      if (this.size === 0 || (this.#parts.queriesBesideLimit && this.#opening.size === 0)) this.open(() => {});
    }
    return own.answer;
  }

  async ping(signal: AbortSignal): Promise<void> {
    await this.runOwn(this.#parts.pingQuery, signal);
  }

  /** Replaces the sessions for which `isOutdated` returns true, one by one, as soon as they are idle. */
  expire(isOutdated: (session: S) => boolean): void {
    const nowMs = this.#parts.clock.now();
    for (const session of this.#sessions) if (isOutdated(session)) session.expiresAtMs = nowMs;
    this.#retire();
  }

  close(signal?: AbortSignal): Promise<void> {
    this.#isClosing = true;
    return this.#open.close(signal);
  }

  // The methods that follow are called by the sessions of this pool.

  freed(session: S): void {
    const wasUsed = session.isUsed;
    session.isUsed = false;
    this.#returnedAtMs = this.#parts.clock.now();
    this.#keepOrEnd(session, this.#open.running - Number(wasUsed));
    if (wasUsed) this.#open.callEnds();
  }

  lost(session: S, error: Error | undefined, endedBy: EndedBy): void {
    if (!this.#sessions.delete(session)) return;
    const { isIdle, isUsed } = session;
    session.isUsed = false;
    if (isIdle) {
      session.isIdle = false;
      const index = this.#idle.indexOf(session);
      if (index !== -1) this.#idle.splice(index, 1);
      if (error !== undefined) this.#parts.failed?.(error, session);
    }
    this.#afterLoss(error, endedBy, isIdle);
    if (isUsed) this.#open.callEnds();
  }

  /** How many sessions are open, without those that were told to end. */
  get #kept(): number {
    let count = 0;
    for (const session of this.#sessions) if (session.isAlive) count++;
    return count;
  }

  #quitIdle(session: S): void {
    const index = this.#idle.indexOf(session);
    if (index !== -1) this.#idle.splice(index, 1);
    session.quit();
    session.isIdle = false;
  }

  #keepOrEnd(session: S, running: number): void {
    const { limits } = this.#parts;
    const nowMs = this.#returnedAtMs;
    const isDone = this.#isClosing && running === 0;
    const isOld = nowMs >= session.expiresAtMs && !this.#cap.isCapped;
    // If no call waits for it and there is room, another session is opened before the old one goes.
    const mayGo = isOld && (this.#waiting.length > 0 || this.size >= limits.max || this.#kept > limits.min);
    const isSpent = session.uses >= limits.maxUses || mayGo;
    const most = Math.max(1, this.capacity);
    // A query of evenkeel's own may have opened it for itself.
    const isBeyond = this.#sessions.size > most && this.#kept > most && this.#waiting[0]?.isOwn !== true;
    if (isDone || isSpent || isBeyond) {
      session.quit();
      return;
    }
    const next = this.#waiting.shift();
    if (next !== undefined) this.#lend(session, next);
    else if (this.#idle.length >= Math.max(1, limits.maxIdle)) session.quit();
    else {
      session.idleSinceMs = nowMs;
      session.isIdle = true;
      session.unref();
      this.#idle.push(session);
    }
  }

  #afterLoss(error: Error | undefined, endedBy: EndedBy, wasIdle: boolean): void {
    const { clock, isOrderlyEnd, youngMs } = this.#parts;
    if (this.#isClosing) {
      this.#endIfEmpty(undefined);
      return;
    }
    if (this.size > 0) this.#demand();
    // If the server does have a problem, opening another connection reveals it.
    else if (endedBy !== 'server') {
      if (endedBy === 'limit') this.#cap.hold();
      this.open(() => this.#cap.resume());
    } else if (!isOrderlyEnd(error, wasIdle)) this.#die(error);
    else if (clock.now() - this.#openedAtMs >= youngMs) this.#die(error, true);
    // Another session is not opened at once, because it may end as soon: when one is needed, or at the next look.
    else this.#demand();
  }

  /** Checks a session and lends it: a connection that was idle for long may be dead without anybody knowing. */
  #lendValid(session: S, borrower: Borrower<S>): void {
    const { clock, limits } = this.#parts;
    if (clock.now() - session.idleSinceMs < limits.validateAfterMs) this.#lend(session, borrower);
    else this.#validate(session, borrower);
  }

  #validate(session: S, borrower: Borrower<S>): void {
    const { clock, limits, pingQuery } = this.#parts;
    const { validateAfterMs, validateTimeoutMs } = limits;
    const address = endpointAddress(this.endpoint);
    this.#validating.add(borrower);
    borrower.waits();
    let isOver = false;
    const end = (error: Error | undefined, isLate: boolean): void => {
      if (isOver) return;
      isOver = true;
      timer.cancel();
      const stillWaits = this.#validating.delete(borrower);
      if (error === undefined && session.isAlive) {
        if (stillWaits) this.#lend(session, borrower);
        else this.freed(session);
        return;
      }
      if (session.isAlive) session.kill(error ?? new Error('the connection was lost'));
      // A server that does not respond on one idle connection will not respond on the others.
      if (isLate) this.#killIdle(validateAfterMs, error as Error);
      if (!stillWaits) return;
      if (isLate) this.#refuse(borrower, error as EvenkeelError, 'unresponsive');
      else {
        this.#open.callEnds();
        this.borrow(borrower);
      }
    };
    const late = (): void => {
      const message = `${address} did not answer a ping within ${validateTimeoutMs} ms`;
      end(new EvenkeelError('EVENKEEL_DEADLINE', message, { endpoint: address }), true);
    };
    const timer = deadline(clock, late, validateTimeoutMs);
    session.ref();
    session.runOwn(pingQuery, (error) => end(error ?? undefined, false));
  }

  #killIdle(idleMs: number, error: Error): void {
    const sinceMs = this.#parts.clock.now() - idleMs;
    for (const session of [...this.#idle]) if (session.idleSinceMs <= sinceMs) session.kill(error);
  }

  /** Every session is lent here. While a call has it, it keeps the process alive; evenkeel's own queries do not. */
  #lend(session: S, borrower: Borrower<S>): void {
    if (borrower.isOwn) session.unref();
    else session.ref();
    session.isUsed = !borrower.isOwn;
    borrower.lent(session);
  }

  #refuse(borrower: Borrower<S>, error: EvenkeelError, why: Parameters<Borrower<S>['notLent']>[1]): void {
    if (!borrower.isOwn) this.#open.callEnds();
    borrower.notLent(error, why);
  }

  #refuseLater(borrower: Borrower<S>, error: EvenkeelError): void {
    this.#parts.clock.defer(() => this.#refuse(borrower, error, 'left'));
  }

  /** Opens as many connections as borrowers wait for, up to the limit. */
  #demand(): void {
    while (this.#opening.size < this.#waiting.length && this.size < this.capacity) this.open(() => {});
  }

  /** Opens a connection to the server. Returns a function that calls it off. */
  open(done: (error: Error | undefined) => void): () => void {
    const { clock, rng, limits, open } = this.#parts;
    const callOff = open(this, (error, session) => {
      this.#opening.delete(callOff);
      if (session === undefined) this.#refused(error as Error);
      else {
        const endpointAgeMs = this.endpoint.attributes.get(endpointConnectionAgeMs) ?? Number.POSITIVE_INFINITY;
        const ageMs = Math.min(limits.maxAgeMs, endpointAgeMs);
        if (Number.isFinite(ageMs)) session.expiresAtMs = clock.now() + jittered(rng, ageMs, AGE_JITTER_RATIO);
        this.#sessions.add(session);
        this.#cap.opened(this.#sessions.size);
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
    const { clock, limits, refusalOf, warned } = this.#parts;
    const refusal = refusalOf(cause);
    if (this.#sessions.size === 0) {
      // This refusal alone does not end the pool: other connections are being opened.
      if (refusal === 'full') this.#cap.refused(0);
      return;
    }
    const error = connectError(endpointAddress(this.endpoint), cause);
    warned(error);
    const isSilent = clock.now() - this.#returnedAtMs >= limits.connectTimeoutMs;
    if (refusal === 'stopping' || (refusal === 'silent' && isSilent)) this.#open.leaves();
    this.#cap.refused(this.#sessions.size);
    const busy = this.#kept - this.#idle.length;
    while (this.#waiting.length > 0 && busy + this.#waiting.length > this.capacity) {
      this.#refuse(this.#waiting.pop() as Borrower<S>, error, 'full');
    }
  }

  /** Ends the pool. @param isClean The server ended the last session in order. */
  #die(cause: Error | undefined, isClean = false): void {
    this.#isClosing = true;
    const error = connectError(endpointAddress(this.endpoint), cause);
    const waiting = this.#waiting.splice(0);
    this.#endIfEmpty(isClean ? undefined : cause);
    for (const borrower of waiting) this.#refuse(borrower, error, 'refused');
  }

  #endIfEmpty(error: Error | undefined): void {
    if (this.size > 0) return;
    this.#cap.close();
    this.#look?.cancel();
    this.#parts.ended?.();
    this.#open.ended(error);
  }

  #finish(): void {
    for (const callOff of [...this.#opening]) callOff();
    for (const session of [...this.#idle]) this.#quitIdle(session);
    this.#endIfEmpty(undefined);
  }

  #cut(): void {
    const endpoint = endpointAddress(this.endpoint);
    const message = `the connection to ${endpoint} was cut`;
    for (const callOff of [...this.#opening]) callOff();
    for (const session of [...this.#sessions]) session.cut(new EvenkeelError('EVENKEEL_CLOSED', message, { endpoint }));
    this.#endIfEmpty(undefined);
  }

  #lookLater(): void {
    this.#look = this.#parts.clock.timer(() => {
      this.#lookLater();
      this.#retire();
    }, LOOK_MS);
  }

  /** Ends sessions that have been idle too long, and replaces old ones. Those in use end when they are given back. */
  #retire(): void {
    if (this.size === 0) this.open(() => {});
    const nowMs = this.#parts.clock.now();
    const { idleTimeoutMs, min, max } = this.#parts.limits;
    for (const session of [...this.#sessions]) {
      if (!session.isAlive) continue;
      const { isIdle } = session;
      const isSpare = this.#kept > min;
      const isOld = nowMs >= session.expiresAtMs;
      if (isSpare) {
        if (isIdle && (isOld || nowMs - session.idleSinceMs >= idleTimeoutMs)) this.#quitIdle(session);
      } else if (isOld && this.#opening.size === 0 && !this.#cap.isCapped) {
        const isFull = this.size >= max;
        if (isFull && isIdle) this.#quitIdle(session);
        // An old session that was not ended above ends once another one is open.
        if ((isIdle || !isFull) && this.#opening.size === 0) this.open(() => this.#retire());
      }
    }
  }

  #supersededError(): EvenkeelError {
    const endpoint = endpointAddress(this.endpoint);
    const message = `the connection to ${endpoint} was cut: ${this.#supersededBy}`;
    return new EvenkeelError('EVENKEEL_CONNECT', message, { endpoint });
  }

  #gone(): EvenkeelError {
    return connectError(endpointAddress(this.endpoint), new Error('it left the Service before the statement was sent'));
  }
}
