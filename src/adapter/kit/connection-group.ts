import type { Clock, Timer } from '../../runtime/clock.js';
import { jittered, type Rng } from '../../runtime/rng.js';

/** One connection that carries many calls at once, such as an HTTP/2 session. Its adapter creates it, the `ConnectionGroup` counts its calls. */
export interface GroupMember {
  /** Calls that run on this connection; written by its group. */
  streams: number;
  /** Whether a call has begun on this connection; written by its group, which resets it at each check for idle connections. */
  wasUsed: boolean;
  /** When the connection became ready, in ms; written by its group. */
  readyAtMs: number;
  /** How many calls may run on it at once. After a change the adapter calls `countCapacity` of the group. */
  readonly capacity: number;
  /** Gives the connection up: it gets no new call, and closes once the running ones have ended. */
  release(): void;
}

/** Events of one connection of a group; never called before the connection's object was created. */
export interface MemberEvents {
  /** The connection is open: the group gives it calls from now on. */
  ready(): void;
  /** The connection could not be opened, or takes no further call: it is useless from now on. */
  lost(error: Error | undefined): void;
}

/** What a connection group needs to open and count connections. */
export interface ConnectionGroupParts<M extends GroupMember> {
  /** Begins to open a connection to the endpoint. */
  readonly open: (events: MemberEvents) => M;
  /** How many connections are kept open at least, and at most. */
  readonly connections: { readonly min: number; readonly max: number };
  /** The error of a group that was released before its first connection was ready. */
  readonly neverOpened: (reason: string) => Error;
  readonly clock: Clock;
  readonly rng: Rng;
  /** Called when a group that was in use got one more connection, so that it can take more calls. @defaultValue nothing */
  readonly grew?: (() => void) | undefined;
}

/** A connection that was open for longer than this is reopened immediately when lost: its server has a maximum age. In ms. */
const USEFUL_LIFE_MS = 50;
/** The first pause before a lost connection is reopened while others to the same endpoint work, in ms. */
const REOPEN_INITIAL_MS = 1_000;
const REOPEN_MAX_MS = 30_000;
const REOPEN_JITTER_RATIO = 0.2;
/**
 * Milliseconds between two checks for connections beyond `connections.min` that had no call since the last check, which are then closed.
 */
const SHRINK_INTERVAL_MS = 300_000;

/**
 * The connections to one endpoint, each of which carries many calls. The first is opened immediately, the others up to `connections.min` when
 * it is ready. When all have as many calls as they may, another is opened, up to `connections.max` (source: gRFC A105).
 */
export class ConnectionGroup<M extends GroupMember> {
  /** Settles when the group's first connection is ready; rejects when it cannot be opened. */
  readonly opened: Promise<void>;
  /** Settles when no connection of the group takes calls any longer. */
  readonly leaving: Promise<void>;
  /** Settles when the group was given up and its calls have ended. */
  readonly closed: Promise<undefined>;
  readonly #parts: ConnectionGroupParts<M>;
  /** Connections that can carry calls. Those beyond `connections.min` are at the end of the list. */
  readonly #ready: M[] = [];
  /** Connections of the group that are being opened. */
  readonly #opening = new Set<M>();
  /** Calls that run on any connection of the group, including connections that were given up. */
  #streams = 0;
  /** Calls that may run at once on the connections that are ready. */
  #capacity = 0;
  #wasReady = false;
  #reopenTimer: Timer | undefined;
  #reopenMs = REOPEN_INITIAL_MS;
  /** The timer for the check for idle connections; it runs while there are more connections than `connections.min`. */
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

  /** How many calls the group can carry at once now, as `Connection.capacity` says it. */
  get capacity(): number {
    return this.#capacity;
  }

  /** How many connections are open and take calls; those being opened, and those that leave, are not among them. */
  get size(): number {
    return this.#ready.length;
  }

  /** Calls `changed` whenever `capacity` has changed, as for a `Connection`. One watcher; a later one replaces it. */
  watchCapacity(changed: () => void): void {
    this.#capacityChanged = changed;
  }

  /** The capacity of one connection may have changed, so the group's is counted anew. */
  countCapacity(): void {
    let capacity = 0;
    for (const member of this.#ready) capacity += member.capacity;
    if (capacity === this.#capacity) return;
    this.#capacity = capacity;
    this.#capacityChanged?.();
  }

  /**
   * The connection for the next call: of the first `connections.min` the one with the fewest calls, and if they are full, the first of the
   * others that is not. So the last ones have no calls when fewer are needed. Undefined from the loss of the last connection until the pool
   * notices.
   */
  next(): M | undefined {
    const ready = this.#ready;
    const { min } = this.#parts.connections;
    let best = ready[0];
    for (let index = 1; index < ready.length; index++) {
      const chosen = best as M;
      if (index >= min && chosen.streams < chosen.capacity) break;
      const member = ready[index] as M;
      if (index >= min ? member.streams < member.capacity : member.streams < chosen.streams) best = member;
    }
    return best;
  }

  /** A call begins on a connection that `next` returned. Opens another connection if all are full now and there may be more. */
  callStarted(member: M): void {
    member.streams++;
    member.wasUsed = true;
    this.#streams++;
    if (this.#streams >= this.#capacity) this.#grow();
  }

  /** A call that `callStarted` reported has ended, however it ended. The last one lets `close` finish. */
  callEnded(member: M): void {
    member.streams--;
    this.#streams--;
    if (this.#streams === 0 && this.#closing) this.#settleClosed();
  }

  /** Gives all connections of the group up, and waits until the running calls have ended, or `signal` aborts. */
  async close(signal?: AbortSignal): Promise<void> {
    this.release('it is closed');
    if (this.#streams === 0 || signal?.aborted === true) this.#settleClosed();
    this.#closing = true;
    signal?.addEventListener('abort', this.#settleClosed, { once: true });
    await this.closed;
    signal?.removeEventListener('abort', this.#settleClosed);
  }

  /** Gives up every connection now: none takes a new call, and each closes once its running calls have ended. @param reason For the error. */
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

  #isReady(member: M): void {
    this.#opening.delete(member);
    this.#ready.push(member);
    member.readyAtMs = this.#parts.clock.now();
    this.countCapacity();
    this.#reopenMs = REOPEN_INITIAL_MS;
    if (this.#ready.length > this.#parts.connections.min) this.#shrinkLater();
    if (this.#wasReady) {
      this.#parts.grew?.();
      return;
    }
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
      // The pool opens the next group of connections, with its own pauses.
      this.release('the connection was lost');
      this.#settleLeaving();
    } else if (this.#parts.clock.now() - member.readyAtMs >= USEFUL_LIFE_MS) this.#openMissing();
    else this.#reopenLater();
  }

  /** Opens the connections that are missing to `connections.min`, and one more if the others are full. */
  #openMissing(): void {
    const { min } = this.#parts.connections;
    while (this.#ready.length + this.#opening.size < min) this.#openOne();
    if (this.#streams >= this.#capacity) this.#grow();
  }

  /** Opens one more connection because all are full, unless one is being opened or failed to open a short time ago. */
  #grow(): void {
    const { max } = this.#parts.connections;
    if (this.#released || this.#opening.size > 0 || this.#reopenTimer !== undefined || this.#ready.length >= max)
      return;
    this.#openOne();
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
