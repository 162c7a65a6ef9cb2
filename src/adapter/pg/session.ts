import type { PoolClient } from 'pg';
import { type Clock, type Endpoint, type Outcome, outcomes } from '../../index.js';
import type { OwnAnswer, PooledSession, SessionOwner } from '../sql/session.js';
import {
  destroySocket,
  hasNothingRunning,
  isEnded,
  onErrorState,
  onParameter,
  onReady,
  setReferenced,
} from './internals.js';
import type { ServerSettings } from './options.js';
import { READ_ONLY, sqlState } from './outcome.js';

/** What sessions of PostgreSQL need to know. */
export interface SessionParts {
  readonly endpoint: Endpoint;
  readonly settings: ServerSettings;
  readonly clock: Clock;
  readonly events: ClientEvents;
  /** The server's answer to a statement suggests that its role has changed. */
  readonly recheckRole: () => void;
}

/** Events of clients, for listeners on the pool. */
export interface ClientEvents {
  connected(client: PoolClient): void;
  removed(client: PoolClient): void;
  /** An idle client failed. */
  failed(error: Error, client: PoolClient): void;
  /** @param message Also its kind, of which one a minute is reported. */
  warned(message: string, error: Error): void;
  /** The connection was given back in a transaction, and is closed. @param byClient It had been checked out; otherwise a statement began it. */
  leftOpen(byClient: boolean): void;
}

/** The answer to a statement, as pg gives it to callbacks. */
export type PgCallback = (error: Error | null | undefined, result?: unknown) => void;

/** One connection to a server: a client of pg's. Lent to one call at a time. */
export class PgSession implements PooledSession {
  readonly client: PoolClient;
  idleSinceMs = 0;
  uses = 0;
  expiresAtMs: number = Number.POSITIVE_INFINITY;
  isIdle = false;
  isUsed = false;
  readonly #parts: SessionParts;
  readonly #owner: SessionOwner<PgSession>;
  #isAlive = true;
  /** The state of the session's transaction: I = none. */
  #transaction = 'I';
  /** To be called when nothing runs on the session any more; set if it was given back before that. */
  #settled: (() => void) | undefined;
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
      if (this.#settled !== undefined) clock.defer(() => this.#settle());
    });
    onErrorState(client, (state) => {
      if (state === READ_ONLY) recheckRole();
    });
    onParameter(client, (name) => {
      if (name === 'in_hot_standby' || name === 'default_transaction_read_only') recheckRole();
    });
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  /** Makes the session keep the process alive, while a call uses it. */
  ref(): void {
    setReferenced(this.client, true);
  }

  unref(): void {
    setReferenced(this.client, false);
  }

  /** Sends a statement. `answer` is called once, later. Throws as pg does; then nothing was sent. */
  run(text: unknown, values: unknown, answer: PgCallback): void {
    let isOver = false;
    // pg calls back twice if a value cannot be sent.
    const once = (error: Error, result: unknown): void => {
      if (isOver) return;
      isOver = true;
      answer(error, result);
    };
    // Older versions of pg find the callback of a query object in second place only.
    if (values === undefined) void this.client.query(text as string, once);
    else this.client.query(text as string, values as unknown[], once);
  }

  runOwn(query: unknown, answer: OwnAnswer): void {
    // That a server refuses to answer a check says nothing about the connection.
    this.run(query, undefined, (error, result) =>
      answer(error, result, Boolean(error) && sqlState(error) === undefined),
    );
  }

  /** Sends a query object, which reads its answer by itself. `over` is called when the connection is free, or gone. */
  submit(query: object, over: () => void): void {
    const { client } = this;
    const ended = (): void => {
      client.removeListener('drain', ended);
      client.removeListener('end', ended);
      over();
    };
    client.query(query as never);
    client.once('drain', ended);
    client.once('end', ended);
  }

  /** Hands the client out. `ended`: it is free, or gone. */
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
        this.release(() => ended(outcomes.success), error);
      }
    };
    return client;
  }

  /**
   * The caller does not need it any longer. `free` is called when nothing runs on it any more, at once if nothing does.
   * @param error Whatever is truthy ends the connection.
   */
  release(free: () => void, error?: unknown): void {
    this.#settled = free;
    if (error) this.quit();
    this.#settle();
  }

  /** Ends the session's connection once nothing runs on it. */
  quit(): void {
    if (!this.#isAlive) return;
    this.#endedByApplication = true;
    // The socket no longer keeps the process alive, because the server may never close its side.
    this.unref();
    // `end` would wait for a running statement, or for a server that does not answer.
    if (this.isReady) this.client.end(() => {});
    else this.#destroy();
    this.#ended(undefined);
  }

  /** Ends the connection now. */
  kill(error: Error, byApplication = false): void {
    if (!this.#isAlive) return;
    this.#endedByApplication = byApplication;
    this.#destroy();
    this.#ended(error);
  }

  /** Ends the connection now, though its server may be well. What runs on it fails with `error`. */
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
    // The application may have ended the client.
    if (isEnded(this.client)) this.kill(new Error('the client was ended'), true);
    if (this.#isAlive && !this.isReady) return;
    if (this.#settled === undefined) return;
    this.#settled = undefined;
    // The next caller must not find itself in a transaction somebody else began.
    if (this.#isAlive && this.#transaction !== 'I') {
      this.#parts.events.leftOpen(this.#isCheckedOut);
      this.quit();
    }
    this.#isCheckedOut = false;
    if (this.#isAlive) {
      this.uses++;
      this.#owner.freed(this);
    }
    free();
  }

  #destroy(): void {
    destroySocket(this.client);
  }

  #ended(error: Error | undefined): void {
    if (!this.#isAlive) return;
    this.#isAlive = false;
    if (error !== undefined) this.#destroy();
    this.#owner.lost(this, error, this.#endedByApplication ? 'application' : 'server');
    this.#settle();
  }
}
