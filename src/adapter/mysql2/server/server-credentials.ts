import type { Clock, Endpoint, Rng, Timer } from '../../../index.js';
import { jittered } from '../../kit/index.js';
import { type AskCredentials, areSameCredentials, type Credentials, credentialsTooLate } from './credentials.js';
import type { Session } from './session.js';

/** The time between two refreshes is spread by this much either way, so that those of many servers do not coincide. */
const JITTER_RATIO = 0.2;

/** What `ServerCredentials` needs. */
export interface ServerCredentialsParts {
  readonly endpoint: Endpoint;
  readonly clock: Clock;
  readonly rng: Rng;
  readonly ask: AskCredentials;
  /** How often the functions are asked while connections are open, in ms, ± 20 %; Infinity = never. */
  readonly refreshMs: number;
  /** Time to open one connection, in ms; the functions may take as long. */
  readonly connectTimeoutMs: number;
  readonly sessions: () => Iterable<Session>;
  /** Logs in to the server and out again; rejects if it refuses. */
  logIn(credentials: Credentials, signal: AbortSignal): Promise<void>;
  /** These logged in with other credentials than the server accepts now. */
  outdated(sessions: readonly Session[]): void;
}

/**
 * What connections to one server log in with, where functions of the application provide it: they are asked before each new
 * connection, and from time to time to find connections that logged in with something else. Those are only replaced once the
 * server has accepted the new credentials: working connections are not given up for credentials that do not work.
 */
export class ServerCredentials {
  readonly #parts: ServerCredentialsParts;
  readonly #closed = new AbortController();
  #current: Credentials | undefined;
  #timer: Timer | undefined;

  constructor(parts: ServerCredentialsParts) {
    this.#parts = parts;
    if (Number.isFinite(parts.refreshMs)) this.#schedule();
  }

  /** What the next connection logs in with. */
  get current(): Credentials | undefined {
    return this.#current;
  }

  /** Asks for the credentials of the next connection. `done` is called once. */
  renew(done: (error: Error | undefined, credentials?: Credentials) => void): void {
    const { endpoint, clock, ask, connectTimeoutMs } = this.#parts;
    let isOver = false;
    const end = (error: Error | undefined, credentials?: Credentials): void => {
      if (isOver) return;
      isOver = true;
      timer.cancel();
      if (credentials !== undefined) this.#current = credentials;
      done(error, credentials);
    };
    const timer = clock.timer(() => end(credentialsTooLate(endpoint, connectTimeoutMs)), connectTimeoutMs);
    ask(endpoint).then((credentials) => end(undefined, credentials), end);
  }

  close(): void {
    this.#timer?.cancel();
    this.#closed.abort(new Error('it is being closed'));
  }

  #schedule(): void {
    const { clock, rng, refreshMs } = this.#parts;
    this.#timer = clock.timer(
      () => {
        this.#schedule();
        // A failure is reported when a connection is opened; until then the open ones do the work.
        this.#refresh().catch(() => {});
      },
      jittered(rng, refreshMs, JITTER_RATIO),
    );
  }

  async #refresh(): Promise<void> {
    const { endpoint, clock, ask, connectTimeoutMs } = this.#parts;
    const credentials = await ask(endpoint);
    if (this.#closed.signal.aborted || this.#openedWithOthers(credentials).length === 0) return;
    const limit = new AbortController();
    const late = clock.timer(() => limit.abort(new Error('it took too long')), connectTimeoutMs);
    try {
      await this.#parts.logIn(credentials, AbortSignal.any([limit.signal, this.#closed.signal]));
    } finally {
      late.cancel();
    }
    if (!this.#closed.signal.aborted) this.#parts.outdated(this.#openedWithOthers(credentials));
  }

  #openedWithOthers(now: Credentials): readonly Session[] {
    return [...this.#parts.sessions()].filter(
      ({ credentials }) => credentials !== undefined && !areSameCredentials(credentials, now),
    );
  }
}
