import type { Endpoint } from '../../endpoint/endpoint.js';
import type { EndpointSet } from '../../endpoint/endpoint-set.js';
import { notify, type Observer } from '../../observe/observer.js';

/**
 * Which servers of a database a caller wants: whichever, the one that takes writes, those that replicate it, or these as long as one of
 * them can be used. Adapters take the roles that they can tell apart.
 */
export type ServerRole = 'any' | 'primary' | 'replica' | 'prefer-replica';

/** How a server compares with the others, by what it says about itself: its role, and how far it is behind. */
export interface ServerRank {
  /** The rank of the server: smaller is better. Undefined: the server must not be used, even if there is no other. */
  readonly rank: number | undefined;
  /** Why the server is not the first choice, for observers. Undefined: observers are not notified. */
  readonly objection: string | undefined;
  /** Whether the server is connected. A server that is not connected keeps no other from being used. */
  readonly isConnected: boolean;
}

/** What a `ServerRanking` needs. */
export interface ServerRankingParts {
  /**
   * The rank of an endpoint. Undefined: nothing is known about the server, because it is not connected. It keeps its weight, since the
   * first servers have to connect.
   */
  readonly rankOf: (endpoint: Endpoint) => ServerRank | undefined;
  readonly observer: Observer;
  /** Milliseconds between two checks of a server, so that observers can learn how soon it may be used again. */
  readonly intervalMs: number;
}

/** The text that says why a server which replicates too slowly is not used. @param maxLagMs How far behind a server may be, in ms. */
export function lagObjection(maxLagMs: number): string {
  return `it is more than ${maxLagMs} ms behind`;
}

/**
 * Puts servers on standby for what they say about themselves: only those of the best rank are used. The others stay connected. Nothing
 * fails because of it, so ejection and panic are not concerned, and it comes before them.
 */
export class ServerRanking {
  readonly #parts: ServerRankingParts;
  /** Why servers are on standby, as observers were last notified, by the key of the servers' endpoint. */
  #reported: ReadonlyMap<string, string> = new Map();
  #hasNone = false;

  constructor(parts: ServerRankingParts) {
    this.#parts = parts;
  }

  /** Whether no server of the last endpoint set is known to be usable. */
  get hasNone(): boolean {
    return this.#hasNone;
  }

  /** Puts servers of the set on standby, as `Stage.apply` does. */
  apply(set: EndpointSet): EndpointSet {
    const { rankOf } = this.#parts;
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
