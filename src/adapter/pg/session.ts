import type { PoolClient } from 'pg';
import { type Clock, type Endpoint, type Outcome, outcomes } from '../../index.js';
import type { OwnAnswer, PooledSession, SessionOwner } from '../sql/session.js';
import {
  destroySocket,
  endWithConnection,
  hasNothingRunning,
  isEnded,
  onParameter,
  onReady,
  onServerError,
  setReferenced,
} from './internals.js';
import type { ServerSettings } from './options.js';
import { outcomeOnSession, READ_ONLY, sqlState } from './outcome.js';

/** What a session of PostgreSQL needs from its transport. */
export interface SessionParts {
  readonly endpoint: Endpoint;
  readonly settings: ServerSettings;
  readonly clock: Clock;
  readonly events: ClientEvents;
  /** Called when a server's answer to a statement suggests that its role has changed. */
  readonly recheckRole: () => void;
}

/** The events of pg clients, which the pool emits to its listeners. */
export interface ClientEvents {
  connected(client: PoolClient): void;
  removed(client: PoolClient): void;
  /** An idle client failed. */
  failed(error: Error, client: PoolClient): void;
  /** @param message Also identifies the kind of warning; of each kind one a minute is reported. */
  warned(message: string, error: Error): void;
  /**
   * A connection was given back in the middle of a transaction, and is closed. @param byClient Whether the connection was a checked-out
   * client; otherwise a statement of `pool.query` began the transaction.
   */
  leftOpen(byClient: boolean): void;
}

/** Receives the answer to a statement, with the arguments that pg gives to callbacks. */
export type PgCallback = (error: Error | null | undefined, result?: unknown) => void;

/** A query object of pg, which also emits its rows as events. It gathers the rows of every attempt, so it must not be repeated. */
export interface QueryObject {
  callback?: ((error: Error, result: unknown) => void) | undefined;
}

export function isQueryObject(text: unknown): text is QueryObject {
  return typeof (text as { readonly submit?: unknown } | null | undefined)?.submit === 'function';
}

/** One connection to a PostgreSQL server: a client of pg, lent to one call at a time. */
export class PgSession implements PooledSession {
  readonly client: PoolClient;
  idleSinceMs = 0;
  uses = 0;
  unusedSinceMs = 0;
  expiresAtMs: number = Number.POSITIVE_INFINITY;
  isIdle = false;
  isUsed = false;
  readonly #parts: SessionParts;
  readonly #owner: SessionOwner<PgSession>;
  #isAlive = true;
  /** The state of the session's transaction, as the server reports it: I = none. */
  #transaction = 'I';
  /** Called once nothing runs on the session any more. Set when the session was given back before that. */
  #settled: ((outcome: Outcome) => void) | undefined;
  /** The outcome of the first failure while the session's present user has it. */
  #outcome: Outcome = outcomes.success;
  #endedByApplication = false;
  #isCheckedOut = false;

  constructor(client: PoolClient, parts: SessionParts, owner: SessionOwner<PgSession>) {
    this.client = client;
    this.#parts = parts;
    this.#owner = owner;
    const { clock, events, recheckRole } = parts;
    client.on('error', (error: Error) => this.#ended(error));
    client.once('end', () => {
      this.#ended(undefined);
      events.removed(client);
    });
    onReady(client, (status) => {
      this.#transaction = status;
      // Somebody uses the client after its release. The next caller's statement would be part of that transaction, and be lost with it.
      if (this.isIdle && status !== 'I') {
        events.leftOpen(true);
        this.quit();
      }
      if (this.#settled !== undefined) clock.defer(() => this.#settle());
    });
    onServerError(client, (error) => {
      this.#note(error);
      if (sqlState(error) === READ_ONLY) recheckRole();
    });
    onParameter(client, (name) => {
      if (name === 'in_hot_standby' || name === 'default_transaction_read_only') recheckRole();
    });
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  get isOccupied(): boolean {
    return !this.isReady || this.#transaction !== 'I';
  }

  /** Makes the session keep the process alive, while a call uses it. */
  ref(): void {
    setReferenced(this.client, true);
  }

  unref(): void {
    setReferenced(this.client, false);
  }

  /** Sends a statement. `answer` is called once, later. Throws what pg throws; then nothing was sent. */
  run(text: unknown, values: unknown, answer: PgCallback): void {
    let isOver = false;
    // pg calls back twice if a value of the statement cannot be sent.
    const once = (error: Error, result: unknown): void => {
      if (isOver) return;
      isOver = true;
      answer(error, result);
    };
    // A query object keeps its first callback, but an earlier attempt may have set that one.
    if (isQueryObject(text)) text.callback = once;
    // Older versions of pg look for the callback of a query object only in the second argument.
    if (values === undefined) void this.client.query(text as string, once);
    else this.client.query(text as string, values as unknown[], once);
  }

  runOwn(query: unknown, answer: OwnAnswer): void {
    // A server that refuses to answer a query of evenkeel's own may still have a working connection.
    this.run(query, undefined, (error, result) =>
      answer(error, result, Boolean(error) && sqlState(error) === undefined),
    );
  }

  /** Sends a query object, which reads its answer by itself. `over` is called when the connection is free again or has ended. */
  submit(query: object, over: () => void): void {
    const { client } = this;
    const ended = (): void => {
      client.removeListener('drain', ended);
      client.removeListener('end', lost);
      over();
    };
    const lost = (): void => {
      endWithConnection(client, query);
      ended();
    };
    client.query(query as never);
    client.once('drain', ended);
    client.once('end', lost);
  }

  /** Hands the client to a caller. `ended` is called once the caller has released the client, and it is free or its connection has ended. */
  checkOut(released: (error: unknown, client: PoolClient) => void, ended: (outcome: Outcome) => void): PoolClient {
    const { client } = this;
    let isReleased = false;
    this.#isCheckedOut = true;
    client.release = (error?: unknown): void => {
      if (isReleased) throw new Error('Release called on client which has already been released to the pool.');
      isReleased = true;
      try {
        released(error, client);
      } finally {
        this.release(ended, error);
      }
    };
    return client;
  }

  /**
   * Called when the borrower no longer needs the session. `free` is called once nothing runs on the session, at once if nothing does, with
   * what the session has shown of its server.
   * @param error Any truthy value ends the connection.
   */
  release(free: (outcome: Outcome) => void, error?: unknown): void {
    this.#settled = free;
    if (error) this.quit();
    this.#settle();
  }

  /** Ends the session's connection: in an orderly way if nothing runs on it, else at once. */
  quit(): void {
    if (!this.#isAlive) return;
    this.#endedByApplication = true;
    // The socket no longer keeps the process alive, because the server may never close its side of the connection.
    this.unref();
    // pg's `end` would wait for a running statement, or for a server that does not respond.
    if (this.isReady) this.client.end(() => {});
    else this.#destroy();
    this.#ended(undefined);
  }

  /** Ends the session's connection at once, because of what its server or its user did. */
  kill(error: Error, byApplication = false): void {
    if (!this.#isAlive) return;
    this.#endedByApplication = byApplication;
    this.#destroy();
    this.#ended(error);
  }

  /** Ends the session's connection at once, though the server may be well. A statement that runs on it fails with `error`. */
  cut(error: Error): void {
    if (!this.#isAlive) return;
    this.#endedByApplication = true;
    destroySocket(this.client, error);
    this.#ended(error);
  }

  /** Whether nothing runs on the session. */
  get isReady(): boolean {
    return hasNothingRunning(this.client);
  }

  #settle(): void {
    const free = this.#settled;
    if (free === undefined) return;
    // The application may have ended the client while it was checked out.
    if (isEnded(this.client)) this.kill(new Error('the client was ended'), true);
    if (this.#isAlive && !this.isReady) return;
    if (this.#settled === undefined) return;
    this.#settled = undefined;
    // The next caller must not get a session in the middle of a transaction that another caller began.
    if (this.#isAlive && this.#transaction !== 'I') {
      this.#parts.events.leftOpen(this.#isCheckedOut);
      this.quit();
    }
    this.#isCheckedOut = false;
    const outcome = this.#outcome;
    this.#outcome = outcomes.success;
    if (this.#isAlive) {
      this.uses++;
      this.#owner.freed(this);
    }
    free(outcome);
  }

  #note(error: unknown): void {
    if (this.#outcome === outcomes.success) this.#outcome = outcomeOnSession(error);
  }

  #destroy(): void {
    destroySocket(this.client);
  }

  #ended(error: Error | undefined): void {
    if (!this.#isAlive) return;
    this.#isAlive = false;
    if (error !== undefined) {
      if (!this.#endedByApplication) this.#note(error);
      this.#destroy();
    }
    this.#owner.lost(this, error, this.#endedByApplication ? 'application' : 'server');
    this.#settle();
  }
}
