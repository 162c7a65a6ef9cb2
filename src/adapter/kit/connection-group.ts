import type { Clock, Timer } from '../../runtime/clock.js';
import { jittered, type Rng } from '../../runtime/rng.js';

/**
 * One connection that carries many calls at once, such as an HTTP/2 session. An adapter creates the connection; the `ConnectionGroup`
 * counts its calls.
 */
export interface GroupMember {
  /** How many calls run on this connection. The connection's group writes this number. */
  streams: number;
  /** Whether a call has begun on this connection since the group last checked for idle connections. The group writes this flag. */
  wasUsed: boolean;
  /** When the connection became ready, in ms. The connection's group writes this time. */
  readyAtMs: number;
  /** How many calls may run on this connection at once. When the number changes, the adapter calls `countCapacity` of the group. */
  readonly capacity: number;
  /** Gives the connection up: it gets no new call, and closes once its running calls have ended. */
  release(): void;
}

/**
 * What an adapter reports about one connection of a group. The adapter calls neither function before `open` has returned the connection.
 */
export interface MemberEvents {
  /** The connection is open. From now on the group gives it calls. */
  ready(): void;
  /** The connection could not be opened, or takes no further call. The group never uses it again. */
  lost(error: Error | undefined): void;
}

/** What a connection group needs to open and count connections. */
export interface ConnectionGroupParts<M extends GroupMember> {
  /** Begins to open a connection to the endpoint. If it throws, the group goes on with the connections it has, if any. */
  readonly open: (events: MemberEvents) => M;
  /** How many connections the group keeps open at least, and how many it opens at most. */
  readonly connections: { readonly min: number; readonly max: number };
  /** Creates the error for a group that was released before its first connection was ready. */
  readonly neverOpened: (reason: string) => Error;
  readonly clock: Clock;
  readonly rng: Rng;
}

/**
 * A lost connection that had been open for longer than this many ms is reopened at once, because its server probably limits the age of
 * connections.
 */
const USEFUL_LIFE_MS = 50;
/** The first pause before a lost connection is reopened while other connections to its endpoint are open, in ms. */
const REOPEN_INITIAL_MS = 1_000;
const REOPEN_MAX_MS = 30_000;
const REOPEN_JITTER_RATIO = 0.2;
/** How often the group closes connections beyond `connections.min` that had no call since the last check, in ms. */
const SHRINK_INTERVAL_MS = 300_000;

/**
 * The connections to one endpoint, each of which carries many calls. The first connection is opened at once, the others up to
 * `connections.min` when the first is ready. When every connection has as many calls as it may, another is opened, up to `connections.max`
 * (source: gRFC A105).
 */
export class ConnectionGroup<M extends GroupMember> {
  /** Resolves when the group's first connection is ready; rejects when that connection cannot be opened. */
  readonly opened: Promise<void>;
  /** Resolves when no connection of the group takes calls any longer. */
  readonly leaving: Promise<void>;
  /** Resolves when the group was given up and its calls have ended. */
  readonly closed: Promise<undefined>;
  readonly #parts: ConnectionGroupParts<M>;
  /** The connections that can carry calls. Those beyond `connections.min` are at the end of the list. */
  readonly #ready: M[] = [];
  /** The connections of the group that are being opened. */
  readonly #opening = new Set<M>();
  /** How many calls run on all connections of the group, including connections that were given up. */
  #streams = 0;
  /** How many calls may run at once on the connections that are ready. */
  #capacity = 0;
  #wasReady = false;
  #reopenTimer: Timer | undefined;
  #reopenMs = REOPEN_INITIAL_MS;
  /** The timer of the check for idle connections. It runs while there are more connections than `connections.min`. */
  #shrinkTimer: Timer | undefined;
  #capacityChanged: (() => void) | undefined;
  #released = false;
  #closing = false;
  #settleOpened!: () => void;
  #rejectOpened!: (error: Error) => void;
  #settleLeaving!: () => void;
  #settleClosed!: () => void;

  constructor(parts: ConnectionGroupParts<M>) {
    this.#parts = parts;
    this.opened = new Promise((resolve, reject) => {
      this.#settleOpened = resolve;
      this.#rejectOpened = reject;
    });
    this.leaving = new Promise((resolve) => {
      this.#settleLeaving = resolve;
    });
    this.closed = new Promise((resolve) => {
      this.#settleClosed = () => resolve(undefined);
    });
    this.#openOne();
  }

  /** How many calls the group can carry at once now, in the sense of `Connection.capacity`. */
  get capacity(): number {
    return this.#capacity;
  }

  /** How many connections are open and take calls. Connections that are being opened or are leaving do not count. */
  get size(): number {
    return this.#ready.length;
  }

  /** Calls `changed` whenever `capacity` has changed, as a `Connection` does. There is one watcher: a second call replaces the first. */
  watchCapacity(changed: () => void): void {
    this.#capacityChanged = changed;
  }

  /** Adds up the capacity of all connections, after the capacity of one of them may have changed. */
  countCapacity(): void {
    let capacity = 0;
    for (const member of this.#ready) capacity += member.capacity;
    if (capacity === this.#capacity) return;
    this.#capacity = capacity;
    this.#capacityChanged?.();
  }

  /**
   * Returns the connection for the next call: of the first `connections.min` connections that are not full the one with the fewest calls,
   * and if all these are full, the first other connection that is not. So the last connections in the list become idle when fewer are needed. Returns
   * undefined from the loss of the last connection until the pool notices the loss.
   */
  next(): M | undefined {
    const ready = this.#ready;
    const { min } = this.#parts.connections;
    let best = ready[0];
    for (let index = 1; index < ready.length; index++) {
      const chosen = best as M;
      const isFull = chosen.streams >= chosen.capacity;
      if (index >= min && !isFull) break;
      const member = ready[index] as M;
      if (member.streams < member.capacity && (isFull || member.streams < chosen.streams)) best = member;
    }
    return best;
  }

  /**
   * A call begins on a connection that `next` returned. If every connection is full now, another is opened, as far as `connections.max`
   * allows.
   */
  callStarted(member: M): void {
    member.streams++;
    member.wasUsed = true;
    this.#streams++;
    if (this.#streams >= this.#capacity) this.#grow();
  }

  /** A call that was reported with `callStarted` has ended, with any outcome. Once the last call has ended, `close` finishes. */
  callEnded(member: M): void {
    member.streams--;
    this.#streams--;
    if (this.#streams === 0 && this.#closing) this.#settleClosed();
  }

  /** Gives up all connections of the group, and waits until the running calls have ended or `signal` aborts. */
  async close(signal?: AbortSignal): Promise<void> {
    this.release('it is closed');
    if (this.#streams === 0 || signal?.aborted === true) this.#settleClosed();
    this.#closing = true;
    signal?.addEventListener('abort', this.#settleClosed, { once: true });
    await this.closed;
    signal?.removeEventListener('abort', this.#settleClosed);
  }

  /**
   * Gives up every connection now: none takes a new call, and each closes once its running calls have ended. @param reason The text for the
   * error if no connection was ever ready.
   */
  release(reason: string): void {
    if (this.#released) return;
    this.#released = true;
    this.#reopenTimer?.cancel();
    this.#shrinkTimer?.cancel();
    for (const member of this.#opening) member.release();
    for (const member of this.#ready) member.release();
    this.#opening.clear();
    this.#ready.length = 0;
    this.countCapacity();
    if (!this.#wasReady) this.#neverOpened(this.#parts.neverOpened(reason));
  }

  #neverOpened(error: Error): void {
    this.#rejectOpened(error);
    this.#settleClosed();
  }

  #openOne(): void {
    const member: M = this.#parts.open({
      ready: () => this.#isReady(member),
      lost: (error) => this.#isLost(member, error),
    });
    this.#opening.add(member);
  }

  /** Opens one more connection, beside others that are in use. Returns false if it cannot even begin; it is then tried again later. */
  #openAnother(): boolean {
    try {
      this.#openOne();
      return true;
    } catch {
      this.#reopenLater();
      return false;
    }
  }

  #isReady(member: M): void {
    this.#opening.delete(member);
    this.#ready.push(member);
    member.readyAtMs = this.#parts.clock.now();
    this.countCapacity();
    this.#reopenMs = REOPEN_INITIAL_MS;
    if (this.#ready.length > this.#parts.connections.min) this.#shrinkLater();
    if (this.#wasReady) return;
    this.#wasReady = true;
    this.#settleOpened();
    this.#openMissing();
  }

  #isLost(member: M, error: Error | undefined): void {
    this.#opening.delete(member);
    const index = this.#ready.indexOf(member);
    if (index >= 0) {
      this.#ready.splice(index, 1);
      this.countCapacity();
    }
    if (!this.#wasReady) {
      this.#released = true;
      this.#neverOpened(error ?? this.#parts.neverOpened('the connection was lost while it was opened'));
    } else if (this.#ready.length === 0) {
      // The pool opens the next group of connections, after pauses of its own.
      this.release('the connection was lost');
      this.#settleLeaving();
    } else if (this.#parts.clock.now() - member.readyAtMs >= USEFUL_LIFE_MS) this.#openMissing();
    else this.#reopenLater();
  }

  /** Opens the connections that are missing to `connections.min`, and one more if all open connections are full. */
  #openMissing(): void {
    const { min } = this.#parts.connections;
    while (this.#ready.length + this.#opening.size < min) if (!this.#openAnother()) return;
    if (this.#streams >= this.#capacity) this.#grow();
  }

  /** Opens one more connection because all are full, unless one is being opened or one failed to open a short time ago. */
  #grow(): void {
    const { max } = this.#parts.connections;
    if (this.#released || this.#opening.size > 0 || this.#reopenTimer !== undefined || this.#ready.length >= max)
      return;
    this.#openAnother();
  }

  #reopenLater(): void {
    if (this.#reopenTimer !== undefined) return;
    const { clock, rng } = this.#parts;
    const pauseMs = jittered(rng, this.#reopenMs, REOPEN_JITTER_RATIO);
    this.#reopenMs = Math.min(REOPEN_MAX_MS, this.#reopenMs * 1.6);
    this.#reopenTimer = clock.timer(() => {
      this.#reopenTimer = undefined;
      this.#openMissing();
    }, pauseMs);
  }

  #shrinkLater(): void {
    this.#shrinkTimer ??= this.#parts.clock.timer(() => {
      this.#shrinkTimer = undefined;
      this.#shrink();
    }, SHRINK_INTERVAL_MS);
  }

  /** Closes connections beyond `connections.min` that had no call since the last check. */
  #shrink(): void {
    const { min } = this.#parts.connections;
    for (let index = this.#ready.length - 1; index >= min; index--) {
      const member = this.#ready[index] as M;
      if (member.streams === 0 && !member.wasUsed) {
        this.#ready.splice(index, 1);
        member.release();
      }
      member.wasUsed = false;
    }
    this.countCapacity();
    if (this.#ready.length > min) this.#shrinkLater();
  }
}
