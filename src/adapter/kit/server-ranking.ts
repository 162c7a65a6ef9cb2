import type { Endpoint } from '../../endpoint/endpoint.js';
import type { EndpointSet } from '../../endpoint/endpoint-set.js';
import { notify, type Observer } from '../../observe/observer.js';

/**
 * Which servers of a database a client uses: any server, the one that takes writes, only those that replicate it, or replicas as long as
 * one of them can be used and the primary otherwise. Each adapter accepts the roles that its protocol can tell apart.
 */
export type ServerRole = 'any' | 'primary' | 'replica' | 'prefer-replica';

/** How a server compares with the others, judged by its own word about its role and its replication lag. */
export interface ServerRank {
  /** The rank of the server; smaller is better. Undefined: the server must not be used, even if there is no other. */
  readonly rank: number | undefined;
  /** Why the server is not used, as text for observers. Undefined: observers are not notified. */
  readonly objection: string | undefined;
  /** Whether a connection to the server is open. A server without one keeps no other server from being used. */
  readonly isConnected: boolean;
}

/** What a `ServerRanking` needs. */
export interface ServerRankingParts {
  /**
   * Returns the rank of an endpoint. Undefined: nothing is known about the server because no connection to it was opened yet. Such a server
   * keeps its weight. It must have a rank before its subchannel is ready, so the transport asks it what it is before `connect` resolves.
   */
  readonly rankOf: (endpoint: Endpoint) => ServerRank | undefined;
  /** Called whenever a server stands by: calls that wait for one of its sessions go elsewhere. Not needed where calls do not wait. */
  readonly handBack?: (endpoint: Endpoint) => void;
  readonly observer: Observer;
  /** How often a server is checked, in ms. Observers get it as the earliest time after which a server can be used again. */
  readonly intervalMs: number;
}

/** The text for observers when a replica lags too far. @param maxLagMs How far a replica may be behind, in ms. */
export function lagObjection(maxLagMs: number): string {
  return `it is more than ${maxLagMs} ms behind`;
}

/**
 * Gives calls only to the servers with the best rank. The other servers stay connected, with weight 0. This is no failure of a server, so
 * ejection and panic do not count it, and this step runs before them.
 */
export class ServerRanking {
  readonly #parts: ServerRankingParts;
  /** The reasons, as last given to observers, why servers are on standby, by the key of their endpoint. */
  #reported: ReadonlyMap<string, string> = new Map();
  #hasNone = false;

  constructor(parts: ServerRankingParts) {
    this.#parts = parts;
  }

  /** Whether the last endpoint set had no server that is known to be usable. */
  get hasNone(): boolean {
    return this.#hasNone;
  }

  /** Sets the weight of servers that do not have the best rank to 0, as `Stage.apply` does. */
  apply(set: EndpointSet): EndpointSet {
    const { rankOf, handBack } = this.#parts;
    let best = Number.POSITIVE_INFINITY;
    for (const { endpoint, weight } of set.entries) {
      const { rank, isConnected = false } = rankOf(endpoint) ?? {};
      if (weight > 0 && isConnected && rank !== undefined && rank < best) best = rank;
    }
    this.#hasNone = best === Number.POSITIVE_INFINITY;
    const reported = new Map<string, string>();
    const ranked = set.map((entry) => {
      const server = rankOf(entry.endpoint);
      if (server === undefined || (server.rank !== undefined && server.rank <= best)) {
        if (server !== undefined) this.#restored(entry.endpoint);
        return entry;
      }
      const { objection } = server;
      if (objection !== undefined) {
        reported.set(entry.endpoint.key, objection);
        this.#standsBy(entry.endpoint, objection);
      }
      handBack?.(entry.endpoint);
      return { ...entry, weight: 0 };
    });
    this.#reported = reported;
    return ranked;
  }

  #standsBy(endpoint: Endpoint, reason: string): void {
    if (this.#reported.get(endpoint.key) === reason) return;
    const { observer, intervalMs: durationMs } = this.#parts;
    notify(observer, 'ejected', { endpoint, reason, cause: 'server', durationMs });
  }

  #restored(endpoint: Endpoint): void {
    const reason = this.#reported.get(endpoint.key);
    if (reason !== undefined) notify(this.#parts.observer, 'restored', { endpoint, reason: `no longer: ${reason}` });
  }
}
