import type { PoolClient } from 'pg';
import { type Balancer, type Clock, outcomes } from '../../index.js';
import { type Attempts, asError, type CallFacts, type CallLease } from '../kit/index.js';
import { LentCall, type SessionUse } from '../sql/lent-call.js';
import type { PgServer } from './connection.js';
import type { PoolSettings } from './options.js';
import { isReplayConflict, isWholeChange, READ_ONLY, sqlState, verdictOf } from './outcome.js';
import type { ServerRoles } from './roles.js';
import { isQueryObject, type PgCallback, type PgSession } from './session.js';

/** What the calls of one PostgreSQL pool share: its balancer, its settings and its counters. */
export interface CallOwner {
  readonly balancer: Balancer<PgServer>;
  readonly settings: PoolSettings;
  readonly clock: Clock;
  readonly roles: ServerRoles | undefined;
  /** How many of the pool's calls wait for a server. */
  waiting: number;
  /** A call of the pool stops waiting for a server. */
  waited(): void;
  acquired(client: PoolClient): void;
  released(error: unknown, client: PoolClient): void;
}

/**
 * What a call to PostgreSQL runs: a statement; a query object that reads its answer by itself; or nothing but the checkout of a client,
 * which a caller keeps for a while.
 */
export interface Task {
  readonly kind: 'statement' | 'object' | 'client';
  /** The text and values of a statement as pg gets them. */
  readonly text?: unknown;
  readonly values?: unknown;
  readonly key?: string | undefined;
  readonly idempotent?: boolean | undefined;
  /** Called once with the answer to the statement, or with the client; never before `begin` has returned. */
  readonly done: PgCallback;
}

/** One call of a PostgreSQL pool: what it does with the session it was lent, and what the outcome means for the server. */
export class PgCall implements SessionUse<PgSession> {
  readonly #owner: CallOwner;
  readonly #task: Task;
  readonly #lent: LentCall<PgSession>;

  constructor(owner: CallOwner, task: Task) {
    this.#owner = owner;
    this.#task = task;
    this.#lent = new LentCall(this, task.key);
  }

  begin(): void {
    this.#lent.begin();
  }

  get source(): Balancer<PgServer> {
    return this.#owner.balancer;
  }

  get clock(): Clock {
    return this.#owner.clock;
  }

  get waitLimitMs(): number {
    return this.#owner.settings.waitTimeoutMs;
  }

  facts(): CallFacts {
    return { protocol: 'postgresql', method: this.#task.kind === 'client' ? 'connect' : 'query' };
  }

  waitBegan(): void {
    this.#owner.waiting++;
  }

  waitEnded(): void {
    this.#owner.waiting--;
    this.#owner.waited();
  }

  isIdempotent(): boolean {
    const { kind, text, idempotent } = this.#task;
    return kind === 'statement' && !isQueryObject(text) && (idempotent ?? this.#owner.settings.idempotent);
  }

  settle(error: unknown, result: unknown): void {
    this.#task.done(error === undefined ? undefined : asError(error), result);
  }

  use(session: PgSession): void {
    this.#owner.acquired(session.client);
    const { kind } = this.#task;
    if (kind === 'statement') this.#run(session);
    else if (kind === 'object') this.#submit(session);
    else this.#handOut(session);
  }

  get #attempts(): Attempts<PgServer> {
    return this.#lent.attempts;
  }

  #run(session: PgSession): void {
    const { text, values } = this.#task;
    try {
      session.run(text, values, (error, result) => {
        if (error) this.#refused(session, error);
        else this.#succeeded(session, result);
      });
    } catch (error) {
      this.#notSent(session, error);
    }
  }

  #succeeded(session: PgSession, result: unknown): void {
    const lease = this.#attempts.conclude() as CallLease<PgServer>;
    this.#owner.released(undefined, session.client);
    session.release(() => lease.end(outcomes.success));
    this.#attempts.report(lease, ok);
    this.#lent.finish(undefined, result);
  }

  /**
   * The server or pg refused the statement. The error decides whether the server is blamed and whether the connection can be used again.
   */
  #refused(session: PgSession, error: Error): void {
    const verdict = verdictOf(error);
    const lease = this.#attempts.lease as CallLease<PgServer>;
    const { endpoint } = lease;
    this.#owner.released(verdict.usable ? undefined : error, session.client);
    if (!verdict.usable) session.kill(error);
    const mayMove = this.#mayMove(error);
    const isConflict = isReplayConflict(error) && this.#owner.settings.role !== 'primary';
    const release = (isSpoilt: boolean): void => session.release(() => {}, isSpoilt);
    // pg itself raised this error, and reports it before the client is ready for another statement; older versions of pg never end such a
    // statement.
    if (verdict.usable && sqlState(error) === undefined) this.#owner.clock.defer(() => release(!session.isReady));
    else release(this.#isPaged);
    if (mayMove) {
      // If the server takes writes after all, the transaction itself was read-only: that is the application's error.
      const rechecked = this.#owner.roles?.recheck(endpoint) ?? Promise.resolve();
      rechecked
        .catch(() => {})
        .then(() => {
          if (this.#owner.roles?.isUsable(endpoint)) this.#lent.ended(outcomes.success, error);
          else this.#lent.failed(outcomes.success, outcomes.notStarted, error);
        });
    } else if (verdict.unsent) this.#lent.failed(verdict.outcome, outcomes.notStarted, error);
    else if (isConflict && this.isIdempotent()) this.#lent.failed(outcomes.success, outcomes.reset, error);
    else if (verdict.outcome.kind === 'success') this.#lent.ended(verdict.outcome, error);
    else this.#lent.failed(verdict.outcome, verdict.outcome, error);
  }

  /**
   * Whether a refused statement may be sent to another server: it would change data as a whole, the server that refused it takes no writes,
   * and the pool wants a server that does.
   */
  #mayMove(error: Error): boolean {
    const { text } = this.#task;
    if (this.#owner.settings.role !== 'primary' || sqlState(error) !== READ_ONLY) return false;
    return isWholeChange(typeof text === 'string' ? text : (text as { readonly text?: unknown })?.text);
  }

  /** Whether pg reads the answer in pages. When such a statement fails, pg never reports that it has ended. */
  get #isPaged(): boolean {
    const { text } = this.#task;
    return typeof text === 'object' && text !== null && Boolean((text as { readonly rows?: unknown }).rows);
  }

  /** pg could not send the statement (an unsupported value, say), so it would fail at every other server too. */
  #notSent(session: PgSession, error: unknown): void {
    this.#owner.released(undefined, session.client);
    session.release(() => {});
    this.#lent.ended(outcomes.cancelled, error);
  }

  #submit(session: PgSession): void {
    const { text } = this.#task;
    // A stream that its reader destroyed while it waited would never read its answer, and so never give the session back.
    if ((text as { readonly destroyed?: unknown }).destroyed === true) {
      this.#notSent(session, new Error('the stream was destroyed before it was sent'));
      return;
    }
    try {
      session.submit(text as object, () => this.#over(session));
      // The query object itself reports its end to its caller.
      this.#lent.finish(undefined, undefined);
    } catch (error) {
      this.#notSent(session, error);
    }
  }

  /**
   * Hands the client of the session to the caller. The lease lasts until the client is released, also if its connection ends before; its
   * statements are never repeated.
   */
  #handOut(session: PgSession): void {
    const { acquired: _, released } = this.#owner;
    const lease = this.#attempts.conclude(outcomes.success) as CallLease<PgServer>;
    const client = session.checkOut(released.bind(this.#owner), (outcome) => {
      // How long a caller keeps a client does not count as the server's latency.
      lease.end(outcome, null);
      this.#attempts.report(lease, { outcome });
    });
    this.#lent.finish(undefined, client);
  }

  #over(session: PgSession): void {
    const lease = this.#attempts.conclude();
    this.#owner.released(undefined, session.client);
    session.release((outcome) => {
      if (lease === undefined) return;
      lease.end(outcome, null);
      this.#attempts.report(lease, { outcome });
    });
  }
}

const ok = Object.freeze({ outcome: outcomes.success });
