import type { Endpoint, EndpointSet, Stage, StageFactory } from '../../index.js';
import { LogPositions, lagObjection, type ServerRank, ServerRanking, type ServerRole } from '../kit/index.js';
import type { PgServer } from './connection.js';
import { type Facts, FollowedServer, type FollowedServerParts } from './server-facts.js';

/** The longest time between two queries of a server while no server is usable, in ms. */
const HURRY_MS = 250;

/**
 * Queries every server's role: when it connects, periodically, and when it may have changed. As a stage, it ranks servers by their role,
 * and by whether they are behind.
 */
export class ServerRoles {
  readonly #parts: FollowedServerParts;
  readonly #servers = new Map<string, FollowedServer>();
  /** All open servers, also those whose address has a newer connection while calls finish on them. */
  readonly #open = new Set<FollowedServer>();
  /** The timeline of each endpoint that was a primary when it last answered, also while it is not connected. */
  readonly #timelines = new Map<string, string>();
  readonly #positions: LogPositions;
  #timeline = '';
  /** The identity of the one server that takes writes, while several servers say that they do. */
  #primary: string | undefined;
  #isShort = false;
  #invalidate: () => void = () => {};

  constructor(parts: FollowedServerParts) {
    this.#parts = parts;
    const { maxLagMs } = parts.settings;
    this.#positions = new LogPositions(Number.isFinite(maxLagMs) ? 2 * maxLagMs + 10_000 : 0);
  }

  /** A server has connected: queries its role. Rejects if the server does not answer. */
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
      // The log positions are forgotten, because what only the old primary had written may be lost.
      this.#positions.forget();
    });
  }

  /** Queries the role of a server now. Resolves when its answer has taken effect, rejects if there is none. */
  async recheck({ key }: Endpoint): Promise<void> {
    await this.#servers.get(key)?.query(undefined);
  }

  /** An answer of a server suggests that its role has changed. */
  hint({ key }: Endpoint): void {
    this.#servers.get(key)?.hint();
  }

  /** Whether a server may get statements. */
  isUsable({ key }: Endpoint): boolean {
    return this.#rank(this.#servers.get(key)) !== undefined;
  }

  get stage(): StageFactory {
    return ({ observer, invalidate }): Stage => {
      this.#invalidate = invalidate;
      const ranking = new ServerRanking({
        rankOf: ({ key }) => this.#rankOf(this.#servers.get(key)),
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
   * One primary only, even if several servers of the newest timeline take writes: two were promoted, or the Service selects two
   * databases. It is the one with the most log: all clients find the same one, and stay with it, since their writes add to its log.
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

  /** What a primary acknowledges after another server was promoted is lost: its callers get an error instead. */
  #supersede(): void {
    const { role } = this.#parts.settings;
    if (role !== 'primary' && role !== 'prefer-replica') return;
    for (const { facts, server } of this.#open) {
      if (facts !== undefined && facts.timeline !== '' && this.#isOutdated(facts)) server.supersede();
      else server.reinstate();
    }
  }

  /** Servers that left, and are not connected any more, supersede nobody. */
  #forgetGone(set: EndpointSet): void {
    const present = new Set(set.entries.map(({ endpoint }) => endpoint.key));
    for (const key of this.#timelines.keys()) {
      if (!present.has(key) && !this.#servers.has(key)) this.#timelines.delete(key);
    }
    this.#elect();
  }

  /** The rank of a server: 0 = first choice; a server without a rank gets nothing. */
  #rank(followed: FollowedServer | undefined): number | undefined {
    const { role } = this.#parts.settings;
    const facts = followed?.facts;
    if (followed === undefined || facts === undefined) return undefined;
    return ranks[role](facts, followed.isBehind, this.#isOutdated(facts) || this.#isRival(followed));
  }

  /**
   * Whether another server was promoted after this one: its timeline has ended. That one may be gone for the moment, as long as its
   * endpoint is there.
   */
  #isOutdated({ isStandby, timeline }: Facts): boolean {
    if (isStandby) return false;
    for (const other of this.#timelines.values()) if (other > timeline) return true;
    return false;
  }

  /** Whether this server takes writes although another server gets them. */
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

  /** While no server is usable, all are queried more often: one may be promoted at any moment. */
  #hurry(isShort: boolean): void {
    if (isShort === this.#isShort) return;
    this.#isShort = isShort;
    if (isShort) for (const followed of this.#servers.values()) followed.schedule();
  }
}

/** The rank of servers by role: smaller is better; undefined: never used. `isFalse`: another server is the primary. */
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
  const known = (a.facts?.known ?? 0) - (b.facts?.known ?? 0);
  return known > 0 || (known === 0 && a.server.endpoint.key < b.server.endpoint.key);
}
