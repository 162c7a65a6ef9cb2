import type { Endpoint, EndpointSet, Stage, StageFactory } from '../../index.js';
import { LogPositions, lagObjection, type ServerRank, ServerRanking, type ServerRole } from '../kit/index.js';
import type { PgServer } from './connection.js';
import { type Facts, FollowedServer, type FollowedServerParts } from './server-facts.js';

/** The longest time between two role queries to one server while no server is usable, in ms. */
const HURRY_MS = 250;

/**
 * Queries the role of every PostgreSQL server: when it connects, periodically, and when the role may have changed. As a stage, it ranks
 * servers by their role and by how far their replication is behind.
 */
export class ServerRoles {
  readonly #parts: FollowedServerParts;
  readonly #servers = new Map<string, FollowedServer>();
  /** All open servers, including those whose endpoint already has a newer connection while calls finish on the old one. */
  readonly #open = new Set<FollowedServer>();
  /** The timeline of each endpoint whose latest answer said that it is a primary. It is kept while the endpoint is not connected. */
  readonly #timelines = new Map<string, string>();
  readonly #positions: LogPositions;
  #timeline = '';
  /** The identity of the server that counts as the primary, for when several servers say that they take writes. */
  #primary: string | undefined;
  #isShort = false;
  #invalidate: () => void = () => {};

  constructor(parts: FollowedServerParts) {
    this.#parts = parts;
    const { maxLagMs } = parts.settings;
    this.#positions = new LogPositions(Number.isFinite(maxLagMs) ? 2 * maxLagMs + 10_000 : 0);
  }

  /** Queries the role of a server that has just connected. Rejects if the server does not answer. */
  async connected(server: PgServer, signal: AbortSignal): Promise<void> {
    const { key } = server.endpoint;
    const followed: FollowedServer = new FollowedServer(server, this.#parts, {
      delayMs: () => (this.#isShort ? Math.min(HURRY_MS, this.#parts.settings.probeIntervalMs) : undefined),
      learned: () => this.#learned(followed),
    });
    await followed.query(signal);
    this.#servers.set(key, followed);
    this.#open.add(followed);
    this.#elect();
    this.#invalidate();
    followed.schedule();
    void server.closed.then(() => {
      followed.stop();
      this.#open.delete(followed);
      if (this.#servers.get(key) !== followed) return;
      this.#servers.delete(key);
      this.#elect();
      this.#invalidate();
      // Log positions are forgotten when a server is lost, because log that only an old primary had written may be lost with it.
      this.#positions.forget();
    });
  }

  /** Queries the role of a server now. Resolves when the server's answer has taken effect; rejects if it does not answer. */
  async recheck({ key }: Endpoint): Promise<void> {
    await this.#servers.get(key)?.queryAgain();
  }

  /** Schedules a role query, because a server's answer to a statement suggests that its role has changed. */
  hint({ key }: Endpoint): void {
    this.#servers.get(key)?.hint();
  }

  /** Lets a server get no statements until it has said again what it is: all its sessions have ended, so it may have been restarted. */
  forget(server: PgServer): void {
    const followed = this.#servers.get(server.endpoint.key);
    if (followed?.server !== server) return;
    followed.forget();
    this.#elect();
    this.#invalidate();
  }

  /** Whether a server's role lets it get statements. */
  isUsable({ key }: Endpoint): boolean {
    return this.#rank(this.#servers.get(key)) !== undefined;
  }

  get stage(): StageFactory {
    return ({ observer, invalidate }): Stage => {
      this.#invalidate = invalidate;
      const ranking = new ServerRanking({
        rankOf: ({ key }) => this.#rankOf(this.#servers.get(key)),
        handBack: ({ key }) => this.#servers.get(key)?.server.handBack(),
        observer,
        intervalMs: this.#parts.settings.probeIntervalMs,
      });
      return {
        apply: (set) => {
          this.#forgetGone(set);
          const ranked = ranking.apply(set);
          this.#hurry(ranking.hasNone);
          return ranked;
        },
        close: () => {
          for (const server of this.#servers.values()) server.stop();
        },
      };
    };
  }

  #learned(followed: FollowedServer): void {
    const { facts } = followed;
    if (facts === undefined) return;
    const nowMs = this.#parts.clock.now();
    const { key } = followed.server.endpoint;
    if (facts.timeline === '') this.#timelines.delete(key);
    else this.#timelines.set(key, facts.timeline);
    if (facts.timeline > this.#timeline) {
      this.#timeline = facts.timeline;
      this.#positions.forget();
    }
    if (facts.known !== undefined) this.#positions.reached(facts.known, nowMs);
    const { maxLagMs } = this.#parts.settings;
    followed.isBehind =
      facts.isStandby &&
      facts.replayed !== undefined &&
      this.#positions.lagMs(facts.replayed, facts.commitAgeMs, nowMs) > maxLagMs;
    this.#elect();
    this.#invalidate();
  }

  /**
   * Chooses one primary even if several servers of the newest timeline take writes, because two were promoted or the Service selects two
   * databases. The server with the most log is chosen: all clients agree on it, and their writes keep it ahead.
   */
  #elect(): void {
    let best: FollowedServer | undefined;
    for (const followed of this.#servers.values()) {
      const { facts } = followed;
      if (facts === undefined || facts.isStandby || facts.isReadOnly || this.#isOutdated(facts)) continue;
      if (best === undefined || isAhead(followed, best)) best = followed;
    }
    this.#primary = best && identityOf(best);
    this.#supersede();
  }

  /**
   * Cuts the connections to an outdated primary: what it acknowledges after another server was promoted is lost, so its callers get an
   * error instead.
   */
  #supersede(): void {
    const { role } = this.#parts.settings;
    if (role !== 'primary' && role !== 'prefer-replica') return;
    for (const { facts, server } of this.#open) {
      if (facts !== undefined && facts.timeline !== '' && this.#isOutdated(facts)) server.supersede();
      else server.reinstate();
    }
  }

  /** Forgets the timelines of servers that left the set and are no longer connected, so that they outdate no other server. */
  #forgetGone(set: EndpointSet): void {
    const present = new Set(set.entries.map(({ endpoint }) => endpoint.key));
    for (const key of this.#timelines.keys()) {
      if (!present.has(key) && !this.#servers.has(key)) this.#timelines.delete(key);
    }
    this.#elect();
  }

  /** Returns a server's rank; 0 = first choice. A server without a rank gets no statements. */
  #rank(followed: FollowedServer | undefined): number | undefined {
    const { role } = this.#parts.settings;
    const facts = followed?.facts;
    if (followed === undefined || facts === undefined) return undefined;
    return ranks[role](facts, followed.isBehind, this.#isOutdated(facts) || this.#isRival(followed));
  }

  /**
   * Whether another server was promoted after this one, so that this server's timeline has ended. The promoted server need not be
   * connected, as long as its endpoint is in the set.
   */
  #isOutdated({ isStandby, timeline }: Facts): boolean {
    if (isStandby) return false;
    for (const other of this.#timelines.values()) if (other > timeline) return true;
    return false;
  }

  /** Whether this server takes writes although another server counts as the primary. */
  #isRival(followed: FollowedServer): boolean {
    const { facts } = followed;
    if (facts === undefined || facts.isStandby || facts.isReadOnly) return false;
    return this.#primary !== undefined && identityOf(followed) !== this.#primary;
  }

  #rankOf(followed: FollowedServer | undefined): ServerRank | undefined {
    return followed && { rank: this.#rank(followed), objection: this.#objection(followed), isConnected: true };
  }

  #objection(followed: FollowedServer): string {
    const { facts, isBehind } = followed;
    if (facts === undefined) return 'it does not say what it is';
    if (isBehind) return lagObjection(this.#parts.settings.maxLagMs);
    if (this.#isOutdated(facts)) return 'another server was promoted since';
    if (this.#isRival(followed)) return 'another server also takes writes, and gets them';
    if (facts.isStandby) return 'it is a standby';
    return facts.isReadOnly ? 'it is read-only' : 'it is the primary';
  }

  /** Queries the servers' roles more often while no server is usable, because one may be promoted at any moment. */
  #hurry(isShort: boolean): void {
    if (isShort === this.#isShort) return;
    this.#isShort = isShort;
    if (isShort) for (const followed of this.#servers.values()) followed.schedule();
  }
}

/**
 * Ranks a server for each role a pool may want: smaller is better, undefined means never used. `isFalse` says that another server is the
 * primary.
 */
const ranks: Readonly<Record<ServerRole, (facts: Facts, isBehind: boolean, isFalse: boolean) => number | undefined>> = {
  any: (_, isBehind) => (isBehind ? 1 : 0),
  primary: ({ isStandby, isReadOnly }, _, isFalse) => (isStandby || isReadOnly || isFalse ? undefined : 0),
  replica: ({ isStandby }, isBehind) => (isStandby ? Number(isBehind) : undefined),
  'prefer-replica': ({ isStandby }, isBehind, isFalse) => {
    if (isStandby) return isBehind ? 2 : 0;
    return isFalse ? undefined : 1;
  },
};

const identityOf = ({ facts, server }: FollowedServer): string => facts?.identity ?? server.endpoint.key;

function isAhead(a: FollowedServer, b: FollowedServer): boolean {
  const knownDifference = (a.facts?.known ?? 0) - (b.facts?.known ?? 0);
  return knownDifference > 0 || (knownDifference === 0 && a.server.endpoint.key < b.server.endpoint.key);
}
