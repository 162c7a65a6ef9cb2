import type { Clock, Rng, Timer } from '../../../index.js';
import { jittered } from '../../kit/index.js';
import type { Session } from './session.js';
import type { ServerSettings } from './settings.js';

/** What the idle reaper needs of the pool. */
export interface IdleReaperOwner {
  readonly clock: Clock;
  /** Whether a session can end without being the last. */
  readonly hasMoreThanOne: boolean;
  /** Replaces the only session. `done`: whether another could be opened. */
  replaceLast(done: (replaced: boolean) => void): void;
}

/** Ages are spread by this much either way, so that connections opened together do not all end together. */
const AGE_JITTER_RATIO = 0.5;
/** At most one connection is ended in this time, in ms, so that replacements are opened one by one, too. */
const PAUSE_MS = 100;

/**
 * Ends connections that are not in use: those past their age, and those idle for long, but never the last without a replacement.
 * A transaction keeps the connection it began on, however long it takes.
 */
export class IdleReaper {
  readonly #owner: IdleReaperOwner;
  readonly #settings: ServerSettings;
  readonly #sessions: () => Iterable<Session>;
  /** It will look at all sessions by itself. */
  isWatching = false;
  #timer: Timer | undefined;
  #closed = false;

  constructor(owner: IdleReaperOwner, settings: ServerSettings, sessions: () => Iterable<Session>) {
    this.#owner = owner;
    this.#settings = settings;
    this.#sessions = sessions;
  }

  /** When a connection that is made now is to be replaced. */
  expiry(maxAgeMs: number, rng: Rng): number {
    return this.#owner.clock.now() + jittered(rng, maxAgeMs, AGE_JITTER_RATIO);
  }

  /** A session became idle: to be called unless it `isWatching`. */
  watch(session: Session): void {
    this.#schedule(this.#dueMs(session));
  }

  /** Sessions expire earlier than they did. */
  hurry(): void {
    this.#timer?.cancel();
    this.#schedule(this.#owner.clock.now());
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  #dueMs(session: Session): number {
    return Math.min(session.expiresAtMs, session.idleSinceMs + this.#settings.idleTimeoutMs);
  }

  #schedule(dueMs: number): void {
    if (this.#closed || !Number.isFinite(dueMs)) return;
    const { clock } = this.#owner;
    this.isWatching = true;
    this.#timer = clock.timer(() => this.#sweep(), Math.max(PAUSE_MS, dueMs - clock.now()));
  }

  #sweep(): void {
    this.isWatching = false;
    const nowMs = this.#owner.clock.now();
    let due: Session | undefined;
    let nextMs = Number.POSITIVE_INFINITY;
    for (const session of this.#sessions()) {
      if (!session.isIdle) continue;
      const dueMs = this.#dueMs(session);
      if (due === undefined && dueMs <= nowMs) due = session;
      else nextMs = Math.min(nextMs, dueMs);
    }
    if (due !== undefined) this.#giveUp(due, nowMs);
    // The last one stays even if it is idle for long, but is replaced when it is old.
    const stays = due?.isIdle === true;
    this.#schedule(stays ? Math.min(nextMs, (due as Session).expiresAtMs) : nextMs);
  }

  #giveUp(session: Session, nowMs: number): void {
    if (this.#owner.hasMoreThanOne) {
      session.quit();
      return;
    }
    if (session.expiresAtMs > nowMs) return;
    // If no other can be opened, the old one still works: it is kept for another span.
    this.#owner.replaceLast((replaced) => {
      if (!replaced) session.expiresAtMs = nowMs + this.#settings.maxConnectionAgeMs;
    });
  }
}
