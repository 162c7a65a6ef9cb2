import {
  type Clock,
  type Connection,
  type Endpoint,
  EvenkeelError,
  endpointAddress,
  type Rng,
  type Timer,
} from '../../index.js';
import { asError, deadline, endpointConnectionAgeMs, jittered, OpenConnection, orAborted } from '../kit/index.js';
import { ConnectionCap } from './connection-cap.js';
import {
  type Borrower,
  connectError,
  type EndedBy,
  type NotLentReason,
  OwnQuery,
  type PooledSession,
  type SessionOwner,
} from './session.js';

/** How many sessions to one database server are kept, and for how long; times are in ms. */
export interface PoolLimits {
  readonly max: number;
  /** How many sessions to a server are kept even if they are idle. At least one. */
  readonly min: number;
  /** How many idle sessions are kept. A session that is given back beyond this number is ended. */
  readonly maxIdle: number;
  readonly idleTimeoutMs: number;
  readonly maxUses: number;
  /** The mean age at which a session is replaced, in ms. */
  readonly maxAgeMs: number;
  /** A session that was idle for this long, in ms, is checked before it is lent. */
  readonly validateAfterMs: number;
  readonly validateTimeoutMs: number;
  /**
   * A server with a session that was given back within this time, in ms, does not count as leaving only because a new connection gets no
   * greeting.
   */
  readonly connectTimeoutMs: number;
}

/**
 * What it means that a server refused a connection while it has others: `full` (it has too many), `stopping` (its listener is closed),
 * `silent` (it accepts connections, but does not greet), or `unknown`.
 */
export type ConnectRefusal = 'full' | 'stopping' | 'silent' | 'unknown';

/** What a `SessionPool` needs to know of one database: how to open a session, check it, and read its errors. */
export interface SessionPoolParts<S extends PooledSession> {
  readonly endpoint: Endpoint;
  readonly clock: Clock;
  readonly rng: Rng;
  readonly limits: PoolLimits;
  /**
   * Opens a connection to the server, and logs in. `done` is called once, later. Returns a function that calls the attempt off. May throw;
   * that counts as a refusal.
   */
  readonly open: (
    owner: SessionOwner<S>,
    done: (error: Error | undefined, session: S | undefined) => void,
  ) => () => void;
  readonly refusalOf: (error: Error) => ConnectRefusal;
  /** Whether the server itself ended a session in order, judged by the error, if any, and by whether the session was idle. */
  readonly isOrderlyEnd: (error: Error | undefined, wasIdle: boolean) => boolean;
  /**
   * A server that ended its last session in order within this time of connecting stays ready: connecting it anew might involve a pause. In
   * ms.
   */
  readonly keepIfYoungerThanMs: number;
  /** The query with which `ping` checks whether a session still works. */
  readonly pingQuery: unknown;
  /** Whether a query of evenkeel's own opens an additional connection while all sessions are in use, even beyond the limit. */
  readonly ownQueriesMayExceedMax: boolean;
  /** Called when an idle session fails. */
  readonly failed?: (error: Error, session: S) => void;
  /** Called with an error that the pool has already dealt with. */
  readonly warned: (error: Error) => void;
  /** Called when the server has ended its last session in order, and the pool goes on with a new one: the server may have been restarted. */
  readonly emptied?: () => void;
  /** Called when the pool has ended and all its sessions are closed. */
  readonly ended?: () => void;
}

/** Milliseconds between two checks for sessions that are old or idle for too long. */
const CHECK_INTERVAL_MS = 1_000;
/** The share by which the maximum age of a session varies, so that sessions opened together do not all end together. */
const AGE_JITTER_RATIO = 0.5;

/**
 * The sessions to one database server: lends them to calls, opens more on demand, and judges by them whether the server is gone, leaving or
 * full. The first session is opened before the first statement, and one is always kept; if the server ends it, another is opened within a
 * second.
 */
export class SessionPool<S extends PooledSession> implements Connection<SessionPool<S>>, SessionOwner<S> {
  readonly endpoint: Endpoint;
  readonly #parts: SessionPoolParts<S>;
  readonly #open: OpenConnection<SessionPool<S>>;
  readonly #cap: ConnectionCap;
  readonly #sessions = new Set<S>();
  /** The idle sessions. The session that a call used most recently is last, and is lent first. */
  readonly #idle: S[] = [];
  readonly #waiting: Borrower<S>[] = [];
  /** The borrowers whose session is being pinged before it is lent. */
  readonly #validating = new Set<Borrower<S>>();
  /** Functions that call off the connections being opened, one for each. */
  readonly #opening = new Set<() => void>();
  /**
   * Whether the server refused a connection while no session was open. The connections that are being opened then decide whether the pool
   * ends; if callers could have more opened, that might be put off for ever.
   */
  #awaitsVerdict = false;
  readonly #openedAtMs: number;
  /** When a session of the pool was last given back, on the clock. */
  #returnedAtMs = Number.NEGATIVE_INFINITY;
  #hasLeft = false;
  #supersededBy: string | undefined;
  #isClosing = false;
  #checkTimer: Timer | undefined;

  constructor(parts: SessionPoolParts<S>) {
    const { endpoint, clock, limits } = parts;
    this.#parts = parts;
    this.endpoint = endpoint;
    this.#openedAtMs = clock.now();
    this.#open = new OpenConnection<SessionPool<S>>({
      handle: this,
      capacity: limits.max,
      finish: () => this.#finish(),
      cut: () => this.#cut(),
    });
    this.#cap = new ConnectionCap(clock, limits.max, (capacity) => this.#open.carries(capacity));
    this.#scheduleCheck();
  }

  /** Leases of this server hand out the pool itself. */
  get handle(): this {
    return this;
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

  /** Opens the first session. Rejects with the reason, or with that of `signal`; then no session stays open. */
  async begin(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const opened = new Promise<void>((resolve, reject) => {
      this.open((error) => (error === undefined ? resolve() : reject(error)));
    });
    try {
      await orAborted(opened, signal);
    } catch (error) {
      void this.close(AbortSignal.abort());
      throw error;
    }
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

  /** Lends a session to a borrower, which gives it back with `release`. The call counts as running until then. */
  borrow(borrower: Borrower<S>): void {
    if (!borrower.isOwn) this.#open.callBegins();
    if (this.#supersededBy !== undefined) {
      this.#refuseLater(borrower, this.#supersededError());
      return;
    }
    const session = this.#takeIdle();
    if (session !== undefined) {
      this.#lendValid(session, borrower);
    } else if (this.#hasLeft || this.#isClosing) {
      this.#refuseLater(borrower, this.#gone());
    } else {
      this.#waiting.push(borrower);
      borrower.waits();
      this.#demand();
    }
  }

  /** Removes a borrower that no longer waits for a session. */
  forget(borrower: Borrower<S>): void {
    const index = this.#waiting.indexOf(borrower);
    if (index !== -1) this.#waiting.splice(index, 1);
    else if (!this.#validating.delete(borrower)) return;
    if (!borrower.isOwn) this.#open.callEnds();
  }

  /** The server's endpoint left the set: calls that wait for one of its sessions go to other servers at once. */
  left(): void {
    this.#hasLeft = true;
    this.#sendAway(this.#gone(), 'left', true);
  }

  returned(): void {
    this.#hasLeft = false;
  }

  /**
   * Ends the sessions that calls use, because another server took over and what this one acknowledged would be lost. No session is lent to
   * a call until `reinstate`; queries of evenkeel's own still run.
   */
  supersede(by = 'another server was promoted since'): void {
    if (this.#supersededBy !== undefined) return;
    this.#supersededBy = by;
    const error = this.#supersededError();
    this.#sendAway(error, 'left');
    for (const session of [...this.#sessions]) if (session.isUsed) session.cut(error);
  }

  reinstate(): void {
    this.#supersededBy = undefined;
  }

  /** The server gets no more calls for now: those that wait for one of its sessions go to other servers, or wait for one. */
  handBack(): void {
    const { clock } = this.#parts;
    // Not before the picker was built anew, with which the calls find another server.
    if (this.#validating.size > 0 || this.#waiting.some(({ isOwn }) => !isOwn)) clock.defer(() => this.#handBack());
  }

  #handBack(): void {
    this.#sendAway(connectError(endpointAddress(this.endpoint), new Error('it gets no statements for now')), 'standby');
  }

  /** Refuses all who wait for a session, or for the ping before they get one. @param alsoOwn Whether that includes evenkeel's own queries. */
  #sendAway(error: EvenkeelError, why: NotLentReason, alsoOwn = false): void {
    const waiting = [...this.#validating, ...this.#waiting.splice(0)];
    this.#validating.clear();
    const stays = ({ isOwn }: Borrower<S>): boolean => isOwn && !alsoOwn;
    this.#waiting.push(...waiting.filter(stays));
    for (const borrower of waiting) if (!stays(borrower)) this.#refuse(borrower, error, why);
  }

  /**
   * Runs a query of evenkeel's own, on the session that has been idle longest, so that all sessions are tested in turn. For the order of the
   * idle sessions, and for the time after which an unused one is ended, such a query does not count.
   * @param mayWait Whether the query waits until a session is given back if all are in use, and the limit has no room for another.
   * @defaultValue see `ownQueriesMayExceedMax`
   */
  runOwn(
    query: unknown,
    signal: AbortSignal,
    mayWait: boolean = !this.#parts.ownQueriesMayExceedMax,
  ): Promise<unknown> {
    const ownQuery = new OwnQuery<S>(query, signal, (late) => this.forget(late));
    let longest = 0;
    for (const [index, { idleSinceMs }] of this.#idle.entries()) {
      if (idleSinceMs < (this.#idle[longest] as S).idleSinceMs) longest = index;
    }
    const [idle] = this.#idle.splice(longest, 1);
    if (idle !== undefined) {
      idle.isIdle = false;
      this.#lend(idle, ownQuery);
    } else if (this.#isClosing) {
      ownQuery.notLent(this.#gone());
    } else {
      this.#waiting.unshift(ownQuery);
      const mayOpen = this.size === 0 || (this.#opening.size === 0 && (!mayWait || this.size < this.capacity));
      if (mayOpen) this.open(() => {});
    }
    return ownQuery.answer;
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

  // The sessions of this pool call the methods that follow.

  freed(session: S): void {
    const wasUsed = session.isUsed;
    session.isUsed = false;
    this.#returnedAtMs = this.#parts.clock.now();
    if (wasUsed) session.unusedSinceMs = this.#returnedAtMs;
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

  /** How many sessions are open and have not been told to end. */
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
    // Unless a call waits for the session or the pool is full, another session is opened before an old one is ended.
    const mayGo = isOld && (this.#waiting.length > 0 || this.size >= limits.max || this.#kept > limits.min);
    const isSpent = session.uses >= limits.maxUses || mayGo;
    const most = Math.max(1, this.capacity);
    // A query of evenkeel's own may have opened this session for itself, beyond the limit.
    const isBeyond = this.#sessions.size > most && this.#kept > most && this.#waiting[0]?.isOwn !== true;
    if (isDone || isSpent || isBeyond) {
      session.quit();
      return;
    }
    const borrower = this.#waiting.shift();
    if (borrower !== undefined) this.#lend(session, borrower);
    else if (this.#idle.length >= Math.max(1, limits.maxIdle)) session.quit();
    else {
      session.idleSinceMs = nowMs;
      session.isIdle = true;
      session.unref();
      let place = this.#idle.length;
      while (place > 0 && (this.#idle[place - 1] as S).unusedSinceMs > session.unusedSinceMs) place--;
      // A session that a call gives back is always the last.
      if (place === this.#idle.length) this.#idle.push(session);
      else this.#idle.splice(place, 0, session);
    }
  }

  #afterLoss(error: Error | undefined, endedBy: EndedBy, wasIdle: boolean): void {
    const { clock, isOrderlyEnd, keepIfYoungerThanMs } = this.#parts;
    if (this.#isClosing) {
      this.#endIfEmpty(undefined);
      return;
    }
    if (this.size > 0) this.#demand();
    // The last session ended for a reason other than the server. If the server has a problem after all, opening another connection reveals
    // it.
    else if (endedBy !== 'server') {
      if (endedBy === 'limit') this.#cap.hold();
      this.open(() => this.#cap.resume());
    } else if (!isOrderlyEnd(error, wasIdle)) this.#die(error);
    else if (clock.now() - this.#openedAtMs >= keepIfYoungerThanMs) this.#die(error, true);
    // The server ended its last session in order: another one, which might end as quickly, is opened when a call needs it or at the next
    // check.
    else {
      this.#parts.emptied?.();
      this.#demand();
    }
  }

  /**
   * Takes the idle session that a call used most recently. One that its last user still uses is given back again, as if that user had only
   * now released it: it becomes idle once nothing runs on it, and ends if a transaction is open then.
   */
  #takeIdle(): S | undefined {
    for (;;) {
      const session = this.#idle.pop();
      if (session === undefined) return undefined;
      session.isIdle = false;
      if (!session.isOccupied) return session;
      session.release(() => {});
    }
  }

  /** Lends a session, after a ping if it was idle for long: its connection may be dead without anybody knowing. */
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
      // A server that does not answer a ping on one idle connection will not answer on the others.
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

  /**
   * Lends a session: every loan goes through here. The session keeps the process alive while a call has it, but not for evenkeel's own
   * queries.
   */
  #lend(session: S, borrower: Borrower<S>): void {
    if (borrower.isOwn) session.unref();
    else session.ref();
    session.isUsed = !borrower.isOwn;
    borrower.lent(session);
  }

  #refuse(borrower: Borrower<S>, error: EvenkeelError, why: NotLentReason): void {
    if (!borrower.isOwn) this.#open.callEnds();
    borrower.notLent(error, why);
  }

  #refuseLater(borrower: Borrower<S>, error: EvenkeelError): void {
    this.#parts.clock.defer(() => this.#refuse(borrower, error, 'left'));
  }

  /** Opens a connection for each waiting borrower, up to the limit. */
  #demand(): void {
    if (this.#awaitsVerdict) return;
    while (this.#opening.size < this.#waiting.length && this.size < this.capacity) this.open(() => {});
  }

  /** Opens a connection to the server. Returns a function that calls the attempt off. */
  open(done: (error: Error | undefined) => void): () => void {
    const { clock, rng, limits } = this.#parts;
    const callOff = this.#tryToOpen((error, session) => {
      this.#opening.delete(callOff);
      if (session === undefined) this.#refused(error as Error);
      else {
        const endpointAgeMs = this.endpoint.attributes.get(endpointConnectionAgeMs) ?? Number.POSITIVE_INFINITY;
        const ageMs = Math.min(limits.maxAgeMs, endpointAgeMs);
        if (Number.isFinite(ageMs)) session.expiresAtMs = clock.now() + jittered(rng, ageMs, AGE_JITTER_RATIO);
        session.unusedSinceMs = clock.now();
        this.#sessions.add(session);
        this.#cap.opened(this.#sessions.size);
        this.freed(session);
        if (this.#awaitsVerdict) {
          this.#awaitsVerdict = false;
          this.#demand();
        }
      }
      done(error);
    });
    this.#opening.add(callOff);
    return callOff;
  }

  #tryToOpen(done: (error: Error | undefined, session: S | undefined) => void): () => void {
    const { clock, open } = this.#parts;
    try {
      return open(this, done);
    } catch (thrown) {
      // pg reads the files that a connection string names for each connection. The error must not reach the code that wanted a connection:
      // that may be a timer, or a session that was just lost.
      let isOver = false;
      const fail = (error: Error): void => {
        if (!isOver) done(error, undefined);
        isOver = true;
      };
      clock.defer(() => fail(asError(thrown)));
      return () => fail(new Error('called off'));
    }
  }

  /** A connection could not be opened. If it was the last one, the server is gone; otherwise it is full or shutting down. */
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
      // This refusal does not end the pool, because other connections are still being opened.
      this.#awaitsVerdict = true;
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

  /** Ends the pool. @param isClean Whether the server ended the last session in order. */
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
    this.#checkTimer?.cancel();
    this.#parts.ended?.();
    this.#open.ended(error);
    // No session will be given back any more.
    for (const borrower of this.#waiting.splice(0)) this.#refuse(borrower, this.#gone(), 'left');
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

  #scheduleCheck(): void {
    this.#checkTimer = this.#parts.clock.timer(() => {
      this.#scheduleCheck();
      this.#retire();
    }, CHECK_INTERVAL_MS);
  }

  /** Ends sessions that have been idle for too long, and replaces old ones. A session in use ends when it is given back. */
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
        if (isIdle && (isOld || nowMs - session.unusedSinceMs >= idleTimeoutMs)) this.#quitIdle(session);
      } else if (isOld && this.#opening.size === 0 && !this.#cap.isCapped) {
        const isFull = this.size >= max;
        if (isFull && isIdle) this.#quitIdle(session);
        // An old session that was not ended above is ended once another one is open.
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
