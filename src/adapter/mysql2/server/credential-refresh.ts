import type { Socket } from 'node:net';
import type { Clock, Rng, Timer } from '../../../index.js';
import { isSameIdentity, jittered } from '../../kit/index.js';
import type { Credentials } from './credentials.js';
import type { Session } from './session.js';

/** The time between two questions is spread by this much either way, so that those for many servers do not come together. */
const JITTER_RATIO = 0.2;

/** What it needs of a server connection. */
export interface CredentialRefreshOwner {
  readonly clock: Clock;
  readonly rng: Rng;
  /** How often the functions are asked, in ms, ± 20 %; Infinity = never. */
  readonly refreshMs: number;
  /** Time to open one connection, in ms. */
  readonly connectTimeoutMs: number;
  readonly sessions: () => Iterable<Session>;
  ask(): Promise<Credentials>;
  /** Whether the server takes them: logs in and out again. */
  logIn(credentials: Credentials, signal: AbortSignal): Promise<void>;
  /** These were opened with others than the server takes now. */
  outdated(sessions: readonly Session[]): void;
}

/**
 * Asks the functions that say who we are from time to time, and has sessions replaced that were opened with something else. A
 * session is given up only for credentials the server has taken: what works is not given up for what does not.
 */
export class CredentialRefresh {
  readonly #owner: CredentialRefreshOwner;
  readonly #openedWith = new WeakMap<Socket, Credentials>();
  readonly #ofSession = new WeakMap<Session, Credentials>();
  readonly #closed = new AbortController();
  #timer: Timer | undefined;

  constructor(owner: CredentialRefreshOwner) {
    this.#owner = owner;
    if (Number.isFinite(owner.refreshMs)) this.#schedule();
  }

  /** A socket that connects, for a session with these. */
  dialled(socket: Socket, credentials: Credentials | undefined): void {
    if (credentials !== undefined) this.#openedWith.set(socket, credentials);
  }

  /** It became this session. */
  established(socket: Socket, session: Session): void {
    const credentials = this.#openedWith.get(socket);
    if (credentials !== undefined) this.#ofSession.set(session, credentials);
  }

  close(): void {
    this.#timer?.cancel();
    this.#closed.abort(new Error('it is being closed'));
  }

  #schedule(): void {
    const { clock, rng, refreshMs } = this.#owner;
    this.#timer = clock.timer(
      () => {
        this.#schedule();
        // What fails is told when a connection is opened; until then those there are do the work.
        this.#look().catch(() => {});
      },
      jittered(rng, refreshMs, JITTER_RATIO),
    );
  }

  async #look(): Promise<void> {
    const { clock, connectTimeoutMs } = this.#owner;
    const credentials = await this.#owner.ask();
    const isOutdated = (session: Session): boolean => {
      const before = this.#ofSession.get(session);
      return before !== undefined && !isSameIdentity(identityOf(before), identityOf(credentials));
    };
    const outdated = (): Session[] => [...this.#owner.sessions()].filter(isOutdated);
    if (this.#closed.signal.aborted || outdated().length === 0) return;
    const limit = new AbortController();
    const late = clock.timer(() => limit.abort(new Error('it took too long')), connectTimeoutMs);
    try {
      await this.#owner.logIn(credentials, AbortSignal.any([limit.signal, this.#closed.signal]));
    } finally {
      late.cancel();
    }
    if (!this.#closed.signal.aborted) this.#owner.outdated(outdated());
  }
}

function identityOf({ user, password, ssl }: Credentials): object {
  return { ...ssl, user, password };
}
