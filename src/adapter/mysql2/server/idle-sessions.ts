import type { Clock, Endpoint, EvenkeelError, Rng, Timer } from '../../../index.js';
import { endpointConnectionAgeMs, jittered } from '../../kit/index.js';
import type { Session } from './session.js';
import type { ServerSettings } from './settings.js';

/** Gets a session, or the reason why there is none. */
export type Taken = (error: EvenkeelError | undefined, session: Session | undefined) => void;

/** What `IdleSessions` needs. */
export interface IdleSessionsParts {
  readonly clock: Clock;
  readonly settings: ServerSettings;
  /** All sessions, idle or not. */
  readonly sessions: () => Iterable<Session>;
  /** Takes an idle session, or opens one. */
  readonly take: (taken: Taken) => void;
  /** A problem that was dealt with. */
  readonly warn: (error: Error) => void;
}

/** Ages are spread by this much either way, so that connections opened together do not all end together. */
const AGE_JITTER_RATIO = 0.5;
/** At most one connection is ended in this time, in ms, so that replacements are opened one by one, too. */
const PAUSE_MS = 100;

/**
 * The sessions of a server that are not in use. Those past their age are ended, and those idle for long, but never the last without a
 * replacement. A transaction keeps the connection it began on, however long it takes.
 */
export class IdleSessions {
  readonly #parts: IdleSessionsParts;
  /** It will look at all sessions by itself. */
  #isWatching = false;
  #timer: Timer | undefined;
  #closed = false;

  constructor(parts: IdleSessionsParts) {
    this.#parts = parts;
  }

  get count(): number {
    let count = 0;
    for (const session of this.#parts.sessions()) if (session.isIdle) count++;
    return count;
  }

  /** Whether a session, idle or not, can end without being the last. */
  get hasMoreThanOne(): boolean {
    let alive = 0;
    for (const session of this.#parts.sessions()) if (session.isAlive) alive++;
    return alive > 1;
  }

  /** When a connection that is made now is to be replaced. */
  expiry({ endpoint, rng }: { readonly endpoint: Endpoint; readonly rng: Rng }): number {
    const { clock, settings } = this.#parts;
    const given = endpoint.attributes.get(endpointConnectionAgeMs) ?? Number.POSITIVE_INFINITY;
    return clock.now() + jittered(rng, Math.min(settings.maxConnectionAgeMs, given), AGE_JITTER_RATIO);
  }

  /** A session became idle. */
  watch(session: Session): void {
    if (!this.#isWatching) this.#schedule(this.#dueMs(session));
  }

  /** Replaces sessions that expire later, as soon as they are idle. */
  expire(isOutdated: (session: Session) => boolean): void {
    const nowMs = this.#parts.clock.now();
    for (const session of this.#parts.sessions()) {
      if (isOutdated(session)) session.expiresAtMs = Math.min(session.expiresAtMs, nowMs);
    }
    this.#timer?.cancel();
    this.#schedule(nowMs);
  }

  /** Ends those that have been idle for `idleMs` or longer: their server does not answer. */
  kill(idleMs: number): void {
    const sinceMs = this.#parts.clock.now() - idleMs;
    for (const session of [...this.#parts.sessions()]) {
      if (session.isIdle && session.idleSinceMs <= sinceMs) session.kill(new Error('the server does not answer'));
    }
  }

  /** Ends all of them in an orderly way. */
  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    for (const session of [...this.#parts.sessions()]) if (session.isIdle) session.quit();
  }

  #dueMs(session: Session): number {
    return Math.min(session.expiresAtMs, session.idleSinceMs + this.#parts.settings.idleTimeoutMs);
  }

  #schedule(dueMs: number): void {
    if (this.#closed || !Number.isFinite(dueMs)) return;
    const { clock } = this.#parts;
    this.#isWatching = true;
    this.#timer = clock.timer(() => this.#sweep(), Math.max(PAUSE_MS, dueMs - clock.now()));
  }

  #sweep(): void {
    this.#isWatching = false;
    const nowMs = this.#parts.clock.now();
    let due: Session | undefined;
    let nextMs = Number.POSITIVE_INFINITY;
    for (const session of this.#parts.sessions()) {
      if (!session.isIdle) continue;
      const dueMs = this.#dueMs(session);
      if (due === undefined && dueMs <= nowMs) due = session;
      else nextMs = Math.min(nextMs, dueMs);
    }
    if (due !== undefined) {
      if (this.hasMoreThanOne) due.quit();
      else if (due.expiresAtMs <= nowMs) this.#replaceLast(due, nowMs);
    }
    // The last one stays even if it is idle for long, but is replaced when it is old.
    const stays = due?.isIdle === true;
    this.#schedule(stays ? Math.min(nextMs, (due as Session).expiresAtMs) : nextMs);
  }

  /** Replaces the only session. If no other can be opened, it still works: it is kept for another span. */
  #replaceLast(session: Session, nowMs: number): void {
    const { take, warn, settings } = this.#parts;
    take((_, old) => {
      // Somebody else took it: by now there is more than one, or none.
      if (old === undefined) return;
      take((error, fresh) => {
        if (fresh === undefined) {
          warn(error as EvenkeelError);
          session.expiresAtMs = nowMs + settings.maxConnectionAgeMs;
          old.release();
        } else {
          old.quit();
          fresh.release();
        }
      });
    });
  }
}
