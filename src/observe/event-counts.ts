import type { Observer, ObserverEvents } from './observer.js';

/** How connections to endpoints opened and ended; those replaced because of their age are not counted. All numbers only grow. */
export interface ConnectionCounts {
  readonly opened: number;
  /** Attempts to open a connection that failed. */
  readonly notOpened: number;
  /** Open connections that ended with an error. */
  readonly lost: number;
  /** Open connections that the other side ended in order. */
  readonly ended: number;
  /** Connections that were closed because the endpoint left, or the balancer closed. */
  readonly left: number;
}

/** Why endpoints were ejected; `other` if the stage gave no cause. */
export type EjectionCause = NonNullable<ObserverEvents['ejected']['cause']> | 'other';

/** How a plain target finds its endpoints now. */
export type DiscoveryState = Omit<ObserverEvents['discoveryChanged'], 'target'>;

/** What the events of a balancer add up to, for snapshots. Listens to rare events only, so calls cost nothing more. */
export class EventCounts {
  discovery: DiscoveryState | undefined;
  isPanicking = false;
  readonly ejections: Record<EjectionCause, number> = {
    consecutive: 0,
    unanswered: 0,
    ratio: 0,
    probation: 0,
    probe: 0,
    server: 0,
    other: 0,
  };
  readonly connections: { -readonly [Count in keyof ConnectionCounts]: number } = {
    opened: 0,
    notOpened: 0,
    lost: 0,
    ended: 0,
    left: 0,
  };
  resolveFailures = 0;
  /** Why each ejected endpoint was ejected, by the key of the endpoint. */
  readonly #reasons = new Map<string, string>();
  readonly #connected = new Set<string>();

  /** Why the endpoint of this key is ejected; undefined if it is not. */
  ejectedBecause(key: string): string | undefined {
    return this.#reasons.get(key);
  }

  readonly hooks: Observer = {
    discoveryChanged: ({ target: _target, ...state }) => {
      this.discovery = state;
    },
    panicChanged: ({ panicking }) => {
      this.isPanicking = panicking;
    },
    resolveFailed: () => {
      this.resolveFailures++;
    },
    ejected: ({ endpoint, reason, cause }) => {
      this.ejections[cause !== undefined && cause in this.ejections ? cause : 'other']++;
      this.#reasons.set(endpoint.key, reason);
    },
    restored: ({ endpoint }) => {
      this.#reasons.delete(endpoint.key);
    },
    subchannelChanged: ({ endpoint: { key }, from, to, error }) => {
      if (to === 'ready') {
        if (this.#connected.has(key)) return;
        this.#connected.add(key);
        this.connections.opened++;
        return;
      }
      if (to === 'draining') return;
      if (to === 'closed') this.#reasons.delete(key);
      if (this.#connected.delete(key)) this.connections[to === 'closed' ? 'left' : error ? 'lost' : 'ended']++;
      else if (from === 'connecting' && to === 'backoff') this.connections.notOpened++;
    },
  };
}
