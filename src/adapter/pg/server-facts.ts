import { type Clock, EvenkeelError, type Rng, type Timer } from '../../index.js';
import { asError, deadline, jittered } from '../kit/index.js';
import type { PgServer } from './connection.js';
import type { PoolSettings } from './options.js';
import { sqlState } from './outcome.js';

/** The role and the log position that a PostgreSQL server reports. */
export interface Facts {
  readonly isStandby: boolean;
  readonly isReadOnly: boolean;
  /** The timeline of a primary's log, empty for a standby; every promotion starts a new timeline. */
  readonly timeline: string;
  /**
   * Identifies the server behind a connection: two pods of PgBouncer in front of one server report the same identity. Undefined if it is
   * not known.
   */
  readonly identity: string | undefined;
  /** The last log position that the server has received or written, in bytes. */
  readonly known: number | undefined;
  /** The last log position that a standby has replayed, in bytes. */
  readonly replayed: number | undefined;
  /** The age of the last commit that a standby has replayed, in ms. */
  readonly commitAgeMs: number | undefined;
}

const ROLE = "SELECT pg_is_in_recovery()::text, current_setting('transaction_read_only')";

/**
 * The query for a server's role and log position. CASE evaluates only the branch it takes, because each function fails on servers of the
 * other role.
 */
const POSITION = `${ROLE},
  CASE WHEN pg_is_in_recovery() THEN '' ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END,
  (CASE WHEN pg_is_in_recovery() THEN greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())
    ELSE pg_current_wal_lsn() END - '0/0'::pg_lsn)::text,
  (pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::text,
  (extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) * 1000)::text,
  extract(epoch FROM pg_postmaster_start_time())::text`;

/** Makes pg return values as text, whatever type parsers the application has set. */
const asText = { getTypeParser: () => (value: unknown) => value };
const queryConfig = (text: string): object => ({ text, rowMode: 'array', types: asText });

const TIMEOUT_MS = 1_000;
const JITTER_RATIO = 0.2;
/**
 * The shortest time between role queries that answers to statements suggest, in ms, because an application may cause such answers all the
 * time.
 */
const HINT_MS = 100;

export interface FollowedServerParts {
  readonly settings: Pick<PoolSettings, 'role' | 'maxLagMs' | 'probeIntervalMs'>;
  readonly clock: Clock;
  readonly rng: Rng;
  /** @param message Also identifies the kind of warning; of each kind one a minute is reported. */
  readonly warned: (message: string, error: Error) => void;
}

interface FollowedServerEvents {
  /** The time until the server's role is queried again, in ms; undefined means the usual interval. */
  delayMs(): number | undefined;
  learned(): void;
}

/** One PostgreSQL server and its latest answer about its role. The server is queried periodically, with one query at a time. */
export class FollowedServer {
  readonly server: PgServer;
  facts: Facts | undefined;
  isBehind = false;
  readonly #parts: FollowedServerParts;
  readonly #events: FollowedServerEvents;
  #timer: Timer | undefined;
  #running: Promise<void> | undefined;
  #queriedAtMs = Number.NEGATIVE_INFINITY;
  #isStopped = false;
  /** Whether something has suggested, while a query was running, that the role has changed. */
  #isHinted = false;
  /** Counts how often the server was forgotten. An answer to a query from before that is ignored. */
  #era = 0;
  /** Whether the server refused the query for log positions, as some do that are almost PostgreSQL. */
  #isBasic = false;

  constructor(server: PgServer, parts: FollowedServerParts, events: FollowedServerEvents) {
    this.server = server;
    this.#parts = parts;
    this.#events = events;
  }

  schedule(): void {
    const { rng, settings } = this.#parts;
    const isHinted = this.#isHinted;
    this.#isHinted = false;
    if (isHinted) this.#queryIn(HINT_MS);
    else this.#queryIn(jittered(rng, this.#events.delayMs() ?? settings.probeIntervalMs, JITTER_RATIO));
  }

  /** Queries the server's role soon, because something suggests that the role has changed. */
  hint(): void {
    const agoMs = this.#parts.clock.now() - this.#queriedAtMs;
    if (this.#running === undefined) this.#queryIn(Math.max(0, HINT_MS - agoMs));
    else this.#isHinted = true;
  }

  #queryIn(delayMs: number): void {
    this.#timer?.cancel();
    if (this.#isStopped) return;
    this.#timer = this.#parts.clock.timer(() => this.#report(this.query(undefined)), delayMs);
  }

  /** Schedules the next query for when this one has ended, and reports its failure. */
  #report(query: Promise<void>): void {
    query
      // A server that does not answer keeps the role it last reported: a server that is merely busy must not lose its role.
      .catch((error) => this.#parts.warned('a server did not say what it is', asError(error)))
      .finally(() => this.schedule());
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  /** Queries the role of the server, unless a query for it is already running. */
  query(signal: AbortSignal | undefined): Promise<void> {
    this.#running ??= this.#query(signal).finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Forgets what the server has reported, and queries its role at once. */
  forget(): void {
    this.facts = undefined;
    this.#era++;
    this.#timer?.cancel();
    this.#report(this.queryAgain());
  }

  /** Queries the role of the server, even if a query is running: the server may have answered that one before it refused a statement. */
  async queryAgain(): Promise<void> {
    await this.#running?.catch(() => {});
    await this.query(undefined);
  }

  async #query(signal: AbortSignal | undefined): Promise<void> {
    this.#queriedAtMs = this.#parts.clock.now();
    const { role, maxLagMs } = this.#parts.settings;
    const mayBePrimary = role === 'primary' || role === 'prefer-replica';
    const needsPosition = !this.#isBasic && (mayBePrimary || Number.isFinite(maxLagMs));
    const era = this.#era;
    let facts: Facts;
    try {
      facts = factsOf(await this.#answer(needsPosition ? POSITION : ROLE, signal));
    } catch (error) {
      if (!needsPosition || !isUnknown(error)) throw error;
      this.#isBasic = true;
      this.#parts.warned('lag and timeline of a server are not known', asError(error));
      facts = factsOf(await this.#answer(ROLE, signal));
    }
    if (era !== this.#era) return;
    this.facts = facts;
    this.#events.learned();
  }

  async #answer(text: string, signal: AbortSignal | undefined): Promise<readonly (string | null)[]> {
    const limit = new AbortController();
    const aborted = (): void => limit.abort(signal?.reason);
    const late = new EvenkeelError('EVENKEEL_CONNECT', `${this.server.endpoint.key} did not say what it is in time`);
    const timer = deadline(this.#parts.clock, () => limit.abort(late), TIMEOUT_MS);
    signal?.addEventListener('abort', aborted, { once: true });
    if (signal?.aborted) aborted();
    try {
      const { rows } = (await this.server.runOwn(queryConfig(text), limit.signal)) as { rows: (string | null)[][] };
      return rows[0] ?? [];
    } finally {
      timer.cancel();
      signal?.removeEventListener('abort', aborted);
    }
  }
}

/**
 * The classes of SQLSTATEs with which a server refuses a query that it knows: the session ends, the query took longer than
 * `statement_timeout`, resources are short.
 */
const PASSING: ReadonlySet<string> = new Set(['08', '25', '40', '53', '57', '58']);

/** Whether a server's error says that it does not know the query, so that it would refuse the query again. */
function isUnknown(error: unknown): boolean {
  const state = sqlState(error);
  return state !== undefined && !PASSING.has(state.slice(0, 2));
}

function factsOf([standby, readOnly, timeline, known, replayed, commitAge, identity]: readonly (
  | string
  | null
)[]): Facts {
  const number = (text: string | null | undefined): number | undefined =>
    text === null || text === undefined ? undefined : Number(text);
  return {
    isStandby: standby === 'true',
    isReadOnly: readOnly === 'on',
    timeline: timeline ?? '',
    known: number(known),
    replayed: number(replayed),
    commitAgeMs: number(commitAge),
    identity: identity ?? undefined,
  };
}
