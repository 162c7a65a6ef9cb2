import { EvenkeelError } from '../../index.js';
import { asError } from '../kit/index.js';

/** One connection to a database server, which its pool lends to one borrower at a time. */
export interface PooledSession {
  readonly isAlive: boolean;
  /** Whether a statement runs on the session, or a transaction is open. An idle session is occupied if its last user still uses it. */
  readonly isOccupied: boolean;
  /** How often the session was lent to a borrower and given back. */
  readonly uses: number;
  /** Whether the session is lent to no borrower; set by the pool. */
  isIdle: boolean;
  /** Whether a call uses the session, or left a statement running on it; set by the pool. */
  isUsed: boolean;
  /** When the session last became idle, a time of the injected clock: its connection worked then. */
  idleSinceMs: number;
  /** When a call last gave the session back, or it was opened, a time of the injected clock; set by the pool. */
  unusedSinceMs: number;
  /** When the session is to be replaced, a time of the injected clock. */
  expiresAtMs: number;
  /** Makes the session keep the process alive, while a call uses it. */
  ref(): void;
  unref(): void;
  /** Runs a query of evenkeel's own on the session. `answer` is called once, later. */
  runOwn(query: unknown, answer: OwnAnswer): void;
  /** Called when the borrower no longer needs the session. `free` is called once nothing runs on the session, at once if nothing does. */
  release(free: () => void, spoilt?: unknown): void;
  /** Ends the session in an orderly way. Called only while no statement runs on it. */
  quit(): void;
  /** Ends the session at once, because of what its server or its user did. A statement that runs on it fails. */
  kill(error: Error): void;
  /** Ends the session at once, though its server may be well. A statement that runs on it fails with `error`. */
  cut(error: Error): void;
}

/** Receives the answer to a query of evenkeel's own. @param isSpoilt Whether the session cannot be used again. */
export type OwnAnswer = (error: Error | null | undefined, result?: unknown, isSpoilt?: boolean) => void;

/**
 * What ended a session: the `server`; the `application`, which says nothing about the server; or a time `limit`, because a statement took
 * so long that the server may hang.
 */
export type EndedBy = 'server' | 'application' | 'limit';

/** What sessions report to their pool. */
export interface SessionOwner<S> {
  /** The session is free and can be lent again. */
  freed(session: S): void;
  /** The session has ended. Called once. @param error Why, unless the session ended in an orderly way. */
  lost(session: S, error: Error | undefined, endedBy: EndedBy): void;
}

/** A call or a query that borrows a session from a server. Either `lent` or `notLent` is called, once. */
export interface Borrower<S> {
  /** Whether the borrower is a query of evenkeel's own, which is not balanced and must not keep the process alive. */
  readonly isOwn: boolean;
  lent(session: S): void;
  /** The borrower has to wait for a handshake, a ping, or a session that is in use. May be called more than once. */
  waits(): void;
  /** No session is lent to the borrower, so nothing was sent. */
  notLent(error: EvenkeelError, why: NotLentReason): void;
}

/**
 * Why no session was lent. `refused`: no connection could be opened. `full`: the server accepts no further connections, but serves those it
 * has. `unresponsive`: the server does not answer pings. `left`: the server left the Service, or another server took over. `standby`: the
 * server's role or lag no longer lets it get calls.
 */
export type NotLentReason = 'refused' | 'full' | 'unresponsive' | 'left' | 'standby';

/** A query of evenkeel's own. If its signal aborts while it runs, its session is ended. */
export class OwnQuery<S extends PooledSession> implements Borrower<S> {
  readonly isOwn = true;
  readonly answer: Promise<unknown>;
  readonly #query: unknown;
  readonly #signal: AbortSignal;
  readonly #aborted: () => void;
  #resolve!: (result: unknown) => void;
  #reject!: (error: unknown) => void;
  #session: S | undefined;

  /** @param forget Called when the signal aborts while the query waits for a session. */
  constructor(query: unknown, signal: AbortSignal, forget: (own: OwnQuery<S>) => void) {
    this.#query = query;
    this.#signal = signal;
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#aborted = () => {
      const reason = asError(signal.reason);
      this.#reject(reason);
      // The session is ended, because a late answer on it would be taken for that of the next query, and a session that hangs is of no use.
      if (this.#session === undefined) forget(this);
      else this.#session.kill(reason);
    };
    signal.addEventListener('abort', this.#aborted, { once: true });
  }

  waits(): void {}

  notLent(error: EvenkeelError): void {
    this.#signal.removeEventListener('abort', this.#aborted);
    this.#reject(error);
  }

  lent(session: S): void {
    this.#session = session;
    session.runOwn(this.#query, (error, result, isSpoilt) => {
      this.#signal.removeEventListener('abort', this.#aborted);
      this.#session = undefined;
      session.release(() => {}, isSpoilt === true ? error : undefined);
      if (error) this.#reject(error);
      else this.#resolve(result);
    });
  }
}

/** Creates the error for a call to which a server could lend no session. */
export function connectError(endpoint: string, cause: Error | undefined): EvenkeelError {
  const message = `no connection to ${endpoint}: ${cause?.message ?? 'it was lost'}`;
  return new EvenkeelError('EVENKEEL_CONNECT', message, { cause, endpoint });
}
