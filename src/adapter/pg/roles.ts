import {
  type Clock,
  type Endpoint,
  EvenkeelError,
  type Rng,
  type Stage,
  type StageContext,
  type StageFactory,
  type Timer,
} from '../../index.js';
import { asError, jittered, LogPositions, notify } from '../kit/index.js';
import type { PgServer } from './connection.js';
import type { PoolSettings, Role } from './options.js';
import { sqlState } from './outcome.js';

/** What a server says about itself. */
interface Facts {
  readonly isStandby: boolean;
  readonly isReadOnly: boolean;
  /** The history of a primary: a promotion starts a new timeline. */
  readonly timeline: string;
  /** The last log position it has, in bytes. */
  readonly known: number | undefined;
  /** The last log position it has replayed. */
  readonly replayed: number | undefined;
  /** The age of the last commit it replayed, in ms. */
  readonly commitAgeMs: number | undefined;
}

const ROLE = "SELECT pg_is_in_recovery()::text, current_setting('transaction_read_only')";

/** CASE evaluates only the branch it takes; each function fails on servers of the other role. */
const POSITION = `${ROLE},
  CASE WHEN pg_is_in_recovery() THEN '' ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END,
  (CASE WHEN pg_is_in_recovery() THEN greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())
    ELSE pg_current_wal_lsn() END - '0/0'::pg_lsn)::text,
  (pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::text,
  (extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) * 1000)::text`;

/** Values as text, regardless of the application's type parsers. */
const asText = { getTypeParser: () => (value: unknown) => value };
const question = (text: string): object => ({ text, rowMode: 'array', types: asText });

const TIMEOUT_MS = 1_000;
const JITTER_RATIO = 0.2;
/** Maximum time between queries while no server is usable, in ms. */
const HURRY_MS = 250;

interface ServerRolesParts {
  readonly settings: Pick<PoolSettings, 'role' | 'maxLagMs' | 'probeIntervalMs'>;
  readonly clock: Clock;
  readonly rng: Rng;
  readonly warned: (error: Error) => void;
}

/**
 * Queries every server's role: when it connects, periodically, and when it may have changed. As a stage, it puts servers with the wrong
 * role, and those that are behind, on standby. They stay connected.
 */
export class ServerRoles {
  readonly #parts: ServerRolesParts;
  readonly #servers = new Map<string, AskedServer>();
  readonly #positions: LogPositions;
  #timeline = '';
  #isShort = false;
  #invalidate: () => void = () => {};

  constructor(parts: ServerRolesParts) {
    this.#parts = parts;
    const { maxLagMs } = parts.settings;
    this.#positions = new LogPositions(Number.isFinite(maxLagMs) ? 2 * maxLagMs + 10_000 : 0);
  }

  /** A server has connected: queries it. Rejects if it does not answer. */
  async connected(server: PgServer, signal: AbortSignal): Promise<void> {
    const { key } = server.endpoint;
    const asked: AskedServer = new AskedServer(server, this.#parts, {
      delayMs: () => (this.#isShort ? Math.min(HURRY_MS, this.#parts.settings.probeIntervalMs) : undefined),
      learned: () => this.#learned(asked),
    });
    await asked.ask(signal);
    this.#servers.set(key, asked);
    this.#invalidate();
    asked.schedule();
    void server.closed.then(() => {
      asked.stop();
      if (this.#servers.get(key) !== asked) return;
      this.#servers.delete(key);
      this.#invalidate();
      // What only the old primary had written may be lost.
      this.#positions.forget();
    });
  }

  /** Queries a server now. Resolves when its answer has taken effect; a server that does not answer is not usable. */
  async recheck({ key }: Endpoint): Promise<void> {
    await this.#servers.get(key)?.ask(undefined);
  }

  /** Whether a server may get statements. */
  isUsable({ key }: Endpoint): boolean {
    return this.#rank(this.#servers.get(key)) !== undefined;
  }

  get stage(): StageFactory {
    return (context): Stage => {
      this.#invalidate = () => context.invalidate();
      return {
        apply: (set) => {
          let best = Number.POSITIVE_INFINITY;
          for (const { endpoint, weight } of set.entries) {
            const rank = this.#rank(this.#servers.get(endpoint.key));
            if (weight > 0 && rank !== undefined && rank < best) best = rank;
          }
          this.#tellAll(context, best);
          this.#hurry(best === Number.POSITIVE_INFINITY);
          return set.map((entry) => {
            const asked = this.#servers.get(entry.endpoint.key);
            // Nothing is picked that is not connected; and whether all refuse a log-in is judged by those with a weight.
            return asked === undefined || this.#rank(asked) === best ? entry : { ...entry, weight: 0 };
          });
        },
        close: () => {
          for (const server of this.#servers.values()) server.stop();
        },
      };
    };
  }

  #learned(asked: AskedServer): void {
    const { facts } = asked;
    if (facts === undefined) return;
    const nowMs = this.#parts.clock.now();
    if (facts.timeline > this.#timeline) {
      this.#timeline = facts.timeline;
      this.#positions.forget();
    }
    if (facts.known !== undefined) this.#positions.reached(facts.known, nowMs);
    const { maxLagMs } = this.#parts.settings;
    asked.isBehind =
      facts.isStandby &&
      facts.replayed !== undefined &&
      this.#positions.lagMs(facts.replayed, facts.commitAgeMs, nowMs) > maxLagMs;
    this.#invalidate();
  }

  /** 0 = first choice; a server without a rank gets nothing. */
  #rank(asked: AskedServer | undefined): number | undefined {
    const { role } = this.#parts.settings;
    const facts = asked?.facts;
    if (asked === undefined || facts === undefined) return undefined;
    return ranks[role](facts, asked.isBehind, this.#isOutdated(facts));
  }

  /** Whether another server was promoted after this one: its timeline has ended. */
  #isOutdated({ isStandby, timeline }: Facts): boolean {
    if (isStandby) return false;
    for (const { facts } of this.#servers.values()) if (facts !== undefined && facts.timeline > timeline) return true;
    return false;
  }

  #tellAll({ observer }: StageContext, best: number): void {
    const durationMs = this.#parts.settings.probeIntervalMs;
    for (const asked of this.#servers.values()) {
      const { endpoint } = asked.server;
      const reason = this.#rank(asked) === best ? undefined : this.#objection(asked);
      if (reason === asked.told) continue;
      if (reason !== undefined) notify(observer, 'ejected', { endpoint, reason, cause: 'server', durationMs });
      else notify(observer, 'restored', { endpoint, reason: `no longer: ${asked.told}` });
      asked.told = reason;
    }
  }

  #objection(asked: AskedServer): string {
    const { facts, isBehind } = asked;
    if (facts === undefined) return 'it does not say what it is';
    if (isBehind) return `it is more than ${this.#parts.settings.maxLagMs} ms behind`;
    if (this.#isOutdated(facts)) return 'another server was promoted since';
    if (facts.isStandby) return 'it is a standby';
    return facts.isReadOnly ? 'it is read-only' : 'it is the primary';
  }

  /** While no server is usable, all are queried more often: one may be promoted at any moment. */
  #hurry(isShort: boolean): void {
    if (isShort === this.#isShort) return;
    this.#isShort = isShort;
    if (isShort) for (const asked of this.#servers.values()) asked.schedule();
  }
}

/** Smaller is better; undefined: never. */
const ranks: Readonly<Record<Role, (facts: Facts, isBehind: boolean, isOutdated: boolean) => number | undefined>> = {
  any: (_, isBehind) => (isBehind ? 1 : 0),
  primary: ({ isStandby, isReadOnly }, _, isOutdated) => (isStandby || isReadOnly || isOutdated ? undefined : 0),
  replica: ({ isStandby }, isBehind) => (isStandby ? Number(isBehind) : undefined),
  'prefer-replica': ({ isStandby }, isBehind, isOutdated) => {
    if (isStandby) return isBehind ? 2 : 0;
    return isOutdated ? undefined : 1;
  },
};

interface AskedEvents {
  /** The time until the next query, if not the usual interval. */
  delayMs(): number | undefined;
  learned(): void;
}

/** One server and its latest answer. */
class AskedServer {
  readonly server: PgServer;
  facts: Facts | undefined;
  isBehind = false;
  /** The reason last reported to the observer. */
  told: string | undefined;
  readonly #parts: ServerRolesParts;
  readonly #events: AskedEvents;
  #timer: Timer | undefined;
  #running: Promise<void> | undefined;
  #isStopped = false;
  /** The server lacks some functions, like some that are almost PostgreSQL. */
  #isBasic = false;

  constructor(server: PgServer, parts: ServerRolesParts, events: AskedEvents) {
    this.server = server;
    this.#parts = parts;
    this.#events = events;
  }

  schedule(): void {
    const { clock, rng, settings } = this.#parts;
    this.#timer?.cancel();
    if (this.#isStopped) return;
    const delayMs = this.#events.delayMs() ?? settings.probeIntervalMs;
    this.#timer = clock.timer(
      () => {
        this.ask(undefined)
          // Its previous answer still counts: a server that is merely busy must not lose its role.
          .catch((error) => this.#parts.warned(asError(error)))
          .finally(() => this.schedule());
      },
      jittered(rng, delayMs, JITTER_RATIO),
    );
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  /** Queries it, unless a query is running. */
  ask(signal: AbortSignal | undefined): Promise<void> {
    this.#running ??= this.#ask(signal).finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #ask(signal: AbortSignal | undefined): Promise<void> {
    const { role, maxLagMs } = this.#parts.settings;
    const needsPosition = !this.#isBasic && (role === 'primary' || Number.isFinite(maxLagMs));
    try {
      this.facts = factsOf(await this.#answer(needsPosition ? POSITION : ROLE, signal));
    } catch (error) {
      if (!needsPosition || sqlState(error) === undefined) throw error;
      this.#isBasic = true;
      this.#parts.warned(new Error(`lag and timeline are not known: ${asError(error).message}`, { cause: error }));
      this.facts = factsOf(await this.#answer(ROLE, signal));
    }
    this.#events.learned();
  }

  async #answer(text: string, signal: AbortSignal | undefined): Promise<readonly (string | null)[]> {
    const limit = new AbortController();
    const aborted = (): void => limit.abort(signal?.reason);
    const late = new EvenkeelError('EVENKEEL_CONNECT', `${this.server.endpoint.key} did not say what it is in time`);
    const timer = this.#parts.clock.timer(() => limit.abort(late), TIMEOUT_MS);
    signal?.addEventListener('abort', aborted, { once: true });
    if (signal?.aborted) aborted();
    try {
      const { rows } = (await this.server.ask(question(text), limit.signal)) as { rows: (string | null)[][] };
      return rows[0] ?? [];
    } finally {
      timer.cancel();
      signal?.removeEventListener('abort', aborted);
    }
  }
}

function factsOf([standby, readOnly, timeline, known, replayed, commitAge]: readonly (string | null)[]): Facts {
  const number = (text: string | null | undefined): number | undefined =>
    text === null || text === undefined ? undefined : Number(text);
  return {
    isStandby: standby === 'true',
    isReadOnly: readOnly === 'on',
    timeline: timeline ?? '',
    known: number(known),
    replayed: number(replayed),
    commitAgeMs: number(commitAge),
  };
}
