import type { Observer, ObserverEvents } from './observer.js';

/**
 * How many connections to endpoints opened, and how they ended. Those replaced because of their age are not counted. The numbers only grow.
 */
export interface ConnectionCounts {
  readonly opened: number;
  /** How many attempts to open a connection failed. */
  readonly notOpened: number;
  /** How many open connections ended with an error. */
  readonly lost: number;
  /** How many open connections the server ended without an error. */
  readonly ended: number;
  /** How many connections were closed because their endpoint left or the balancer closed. */
  readonly drained: number;
}

/** Why endpoints were ejected; `other` if the stage gave no cause. */
export type EjectionCause = NonNullable<ObserverEvents['ejected']['cause']> | 'other';

/** How the endpoints of a plain target are found now. */
export type DiscoveryState = Omit<ObserverEvents['discoveryChanged'], 'target'>;

/** Adds up a balancer's events for snapshots. It listens only to rare events, so calls cost nothing more. */
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
    drained: 0,
  };
  resolveFailures = 0;
  /** Why each ejected endpoint was ejected, by the endpoint's key. */
  readonly #reasons = new Map<string, string>();
  readonly #connected = new Set<string>();

  /** Why the endpoint with this key is ejected; undefined if it is not. */
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
      if (this.#connected.delete(key)) this.connections[to === 'closed' ? 'drained' : error ? 'lost' : 'ended']++;
      else if (from === 'connecting' && to === 'backoff') this.connections.notOpened++;
    },
  };
}
