import { type Clock, type Endpoint, EvenkeelError, type StageFactory } from '../../index.js';
import {
  asError,
  LogPositions,
  lagObjection,
  type ServerRank,
  type ServerRole,
  ServerWatch,
  type WatchedServer,
} from '../kit/index.js';
import type { PgServer } from './connection.js';
import type { PoolSettings } from './options.js';
import { sqlState } from './outcome.js';

/** The role and the log position that a PostgreSQL server reports. */
interface Facts {
  readonly isStandby: boolean;
  readonly isReadOnly: boolean;
  /** The timeline of a primary's log, empty for a standby; every promotion starts a new timeline. */
  readonly timeline: string;
  /** Identifies the server behind a connection: two pods of PgBouncer in front of one server report the same identity. */
  readonly identity: string | undefined;
  /** The last log position that the server has received or written, in bytes. */
  readonly known: number | undefined;
  /** The last log position that a standby has replayed, in bytes. */
  readonly replayed: number | undefined;
  /** The age of the last commit that a standby has replayed, in ms. */
  readonly commitAgeMs: number | undefined;
}

/** What is kept of a server's answer. */
type Role = Facts & { readonly isBehind: boolean };
type Server = WatchedServer<PgServer, Role>;

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

const TIMEOUT_MS = 1_000;
/** The longest time between two role queries to one server while no server is usable, in ms. */
const HURRY_MS = 250;

export interface ServerRolesParts {
  readonly settings: Pick<PoolSettings, 'role' | 'maxLagMs' | 'probeIntervalMs'>;
  readonly clock: Clock;
  /** @param message Also identifies the kind of warning; of each kind one a minute is reported. */
  readonly warned: (message: string, error: Error) => void;
}

/**
 * Queries the role of every PostgreSQL server: when it connects, periodically, and when the role may have changed. As a stage, it ranks
 * servers by their role and by how far their replication is behind.
 */
export class ServerRoles {
  readonly #parts: ServerRolesParts;
  readonly #watch: ServerWatch<PgServer, Role>;
  /** All open servers, including those whose endpoint already has a newer connection while calls finish on the old one. */
  readonly #open = new Set<PgServer>();
  /** Servers that refused the query for log positions, as some do that are almost PostgreSQL. */
  readonly #basic = new WeakSet<PgServer>();
  readonly #positions: LogPositions;
  #timeline = '';
  /** The identity of the server that counts as the primary, for when several servers say that they take writes. */
  #primary: string | undefined;

  constructor(parts: ServerRolesParts) {
    this.#parts = parts;
    const { maxLagMs, probeIntervalMs } = parts.settings;
    this.#positions = new LogPositions(Number.isFinite(maxLagMs) ? 2 * maxLagMs + 10_000 : 0);
    this.#watch = new ServerWatch<PgServer, Role>({
      intervalMs: probeIntervalMs,
      hurryMs: Math.min(HURRY_MS, probeIntervalMs),
      timeoutMs: TIMEOUT_MS,
      mustAnswer: true,
      ask: async (server, signal) => this.#judged(await this.#facts(server, signal)),
      late: ({ key }) => new EvenkeelError('EVENKEEL_CONNECT', `${key} did not say what it is in time`),
      failed: (error) => parts.warned('a server did not say what it is', error),
      changed: (server) => {
        // Log positions are forgotten when a server is lost, because log that only an old primary had written may be lost with it.
        if (server.connection === undefined) this.#positions.forget();
        this.#elect();
      },
      rankOf: (server) => this.#rankOf(server),
    });
  }

  /** Queries the role of a server that has just connected. Rejects if the server does not answer. */
  async connected(server: PgServer, signal: AbortSignal): Promise<void> {
    await this.#watch.connected(server, signal);
    this.#open.add(server);
    this.#elect();
    void server.closed.then(() => this.#open.delete(server));
  }

  /** Queries the role of a server now. Resolves when the server's answer has taken effect; rejects if it does not answer. */
  recheck(endpoint: Endpoint): Promise<void> {
    return this.#watch.askAgain(this.#watch.get(endpoint));
  }

  /** Schedules a role query, because a server's answer to a statement suggests that its role has changed. */
  hint(endpoint: Endpoint): void {
    this.#watch.hint(endpoint);
  }

  /** Lets a server get no statements until it has said again what it is: all its sessions have ended, so it may have been restarted. */
  forget(server: PgServer): void {
    const watched = this.#watch.get(server.endpoint);
    if (watched?.connection === server) this.#watch.forget(watched);
  }

  /** Whether a server's role lets it get statements. */
  isUsable(endpoint: Endpoint): boolean {
    const server = this.#watch.get(endpoint);
    return server !== undefined && this.#rank(server) !== undefined;
  }

  get stage(): StageFactory {
    return this.#watch.stage;
  }

  async #facts(server: PgServer, signal: AbortSignal): Promise<Facts> {
    const { role, maxLagMs } = this.#parts.settings;
    const query = async (text: string): Promise<Facts> => {
      const config = { text, rowMode: 'array', types: asText };
      const { rows } = (await server.runOwn(config, signal)) as { rows: (string | null)[][] };
      return factsOf(rows[0] ?? []);
    };
    const mayBePrimary = role === 'primary' || role === 'prefer-replica';
    if (this.#basic.has(server) || !(mayBePrimary || Number.isFinite(maxLagMs))) return query(ROLE);
    return query(POSITION).catch((error) => {
      if (!isUnknown(error)) throw error;
      this.#basic.add(server);
      this.#parts.warned('lag and timeline of a server are not known', asError(error));
      return query(ROLE);
    });
  }

  /** Learns from the log position of a server, and says whether the server is too far behind. */
  #judged(facts: Facts): Role {
    const nowMs = this.#parts.clock.now();
    const { known, replayed, commitAgeMs, timeline, isStandby } = facts;
    if (timeline > this.#timeline) {
      this.#timeline = timeline;
      this.#positions.forget();
    }
    if (known !== undefined) this.#positions.reached(known, nowMs);
    const lagMs = isStandby && replayed !== undefined ? this.#positions.lagMs(replayed, commitAgeMs, nowMs) : 0;
    return { ...facts, isBehind: lagMs > this.#parts.settings.maxLagMs };
  }

  /**
   * Chooses one primary even if several servers of the newest timeline take writes, because two were promoted or the Service selects two
   * databases. The server with the most log is chosen: all clients agree on it, and their writes keep it ahead. The connections to an
   * outdated primary are cut: what it acknowledges after another server was promoted is lost, so its callers get an error instead.
   */
  #elect(): void {
    let best: Server | undefined;
    for (const server of this.#watch.servers) {
      const { facts, isKnown } = server;
      if (!isKnown || facts === undefined || !takesWrites(facts) || this.#isOutdated(facts)) continue;
      if (best === undefined || isAhead(server, best)) best = server;
    }
    this.#primary = best && identityOf(best);
    const { role } = this.#parts.settings;
    if (role !== 'primary' && role !== 'prefer-replica') return;
    for (const server of this.#open) {
      const facts = this.#watch.get(server.endpoint)?.facts;
      if (facts !== undefined && facts.timeline !== '' && this.#isOutdated(facts)) server.supersede();
      else server.reinstate();
    }
  }

  /** Returns a server's rank; 0 = first choice. A server without a rank gets no statements. */
  #rank(server: Server): number | undefined {
    const { facts, isKnown } = server;
    if (!isKnown || facts === undefined) return undefined;
    const { role } = this.#parts.settings;
    const isFalse = this.#isOutdated(facts) || this.#isRival(server);
    if (role === 'primary' && facts.isReadOnly && this.#isPrimaryAlone(server)) return 0;
    return ranks[role](facts, isFalse);
  }

  /**
   * Whether this server is the primary although it refuses writes, as managed databases do when their disk is full: every server of the set
   * has answered, none takes writes, and this is the only one that neither replicates nor was superseded. Reads go on there, and a write
   * gets the server's own error.
   */
  #isPrimaryAlone(server: Server): boolean {
    for (const other of this.#watch.servers) {
      const { facts, isKnown } = other;
      if (!isKnown || facts === undefined) return false;
      if (facts.isStandby || this.#isOutdated(facts)) {
        if (other === server) return false;
      } else if (!facts.isReadOnly || identityOf(other) !== identityOf(server)) return false;
    }
    return true;
  }

  /**
   * Whether another server was promoted after this one, so that this server's timeline has ended. The promoted server need not be
   * connected, as long as its endpoint is in the set.
   */
  #isOutdated({ isStandby, timeline }: Facts): boolean {
    if (isStandby) return false;
    for (const { facts } of this.#watch.servers) if (facts !== undefined && facts.timeline > timeline) return true;
    return false;
  }

  /** Whether this server takes writes although another server counts as the primary. */
  #isRival(server: Server): boolean {
    if (server.facts === undefined || !takesWrites(server.facts)) return false;
    return this.#primary !== undefined && identityOf(server) !== this.#primary;
  }

  #rankOf(server: Server): ServerRank | undefined {
    if (server.connection === undefined) return undefined;
    return { rank: this.#rank(server), objection: this.#objection(server), isConnected: true };
  }

  #objection(server: Server): string {
    const { facts, isKnown } = server;
    if (facts === undefined || !isKnown) return 'it does not say what it is';
    if (facts.isBehind) return lagObjection(this.#parts.settings.maxLagMs);
    if (this.#isOutdated(facts)) return 'another server was promoted since';
    if (this.#isRival(server)) return 'another server also takes writes, and gets them';
    if (facts.isStandby) return 'it is a standby';
    return facts.isReadOnly ? 'it is read-only' : 'it is the primary';
  }
}

/**
 * Ranks a server for each role a pool may want: smaller is better, undefined means never used. `isFalse` says that another server is the
 * primary.
 */
const ranks: Readonly<Record<ServerRole, (role: Role, isFalse: boolean) => number | undefined>> = {
  any: ({ isBehind }) => Number(isBehind),
  primary: (role, isFalse) => (takesWrites(role) && !isFalse ? 0 : undefined),
  replica: ({ isStandby, isBehind }) => (isStandby ? Number(isBehind) : undefined),
  'prefer-replica': ({ isStandby, isBehind }, isFalse) => {
    if (isStandby) return isBehind ? 2 : 0;
    return isFalse ? undefined : 1;
  },
};

const takesWrites = ({ isStandby, isReadOnly }: Facts): boolean => !isStandby && !isReadOnly;

const identityOf = ({ facts, endpoint }: Server): string => facts?.identity ?? endpoint.key;

function isAhead(a: Server, b: Server): boolean {
  const knownDifference = (a.facts?.known ?? 0) - (b.facts?.known ?? 0);
  return knownDifference > 0 || (knownDifference === 0 && a.endpoint.key < b.endpoint.key);
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
