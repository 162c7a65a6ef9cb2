import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { type Endpoint, endpointAddress } from '../endpoint/endpoint.js';
import type { DiagnosticsEvents } from '../observe/observer.js';
import { withoutSecrets } from './secrets.js';

/** One event of a balancer, in words for the admin page. */
export interface RecentEvent {
  /** The event's number, which increases; gaps mean that older events were dropped. */
  readonly id: number;
  /** When the event happened, in ISO 8601 and UTC. */
  readonly at: string;
  /** The name of the balancer's resolver, which identifies the balancer. */
  readonly target: string;
  /** The name of the observer's event, such as `ejected`. */
  readonly event: string;
  /** The event as a sentence for people; its wording may change in any version. */
  readonly text: string;
}

type Telling = {
  readonly [Event in keyof DiagnosticsEvents]?: (event: DiagnosticsEvents[Event]) => string | undefined;
};

const nameOf = (endpoint: Endpoint): string =>
  endpoint.name === undefined ? endpointAddress(endpoint) : `${endpoint.name} (${endpointAddress(endpoint)})`;

/**
 * Writes the sentences for the events that the admin page shows. Only rare events have one: a sentence per attempt would slow down every
 * call and push the other events off the page.
 */
const tellings: Telling = {
  resolved: ({ endpoints }) => `${endpoints.length} endpoint${endpoints.length === 1 ? '' : 's'} published`,
  resolveFailed: ({ error, stale }) => `discovery fails${stale ? ', the last set stays in use' : ''}: ${error.message}`,
  resolveRecovered: ({ staleForMs }) => `discovery works again after ${Math.round(staleForMs / 1_000)} s`,
  discoveryChanged: ({ mode, reason }) => `endpoints are now found by ${mode}: ${reason}`,
  subchannelChanged: ({ endpoint, from, to, error }) =>
    to === 'connecting' || to === 'idle'
      ? undefined
      : `${nameOf(endpoint)}: ${from} → ${to}${error === undefined ? '' : ` (${error.message})`}`,
  ejected: ({ endpoint, reason, durationMs }) =>
    `${nameOf(endpoint)} is out for ${Math.round(durationMs / 100) / 10} s: ${reason}`,
  restored: ({ endpoint, reason }) => `${nameOf(endpoint)} is used again: ${reason}`,
  panicChanged: ({ panicking, suspects, total }) =>
    panicking
      ? `${suspects} of ${total} endpoints are suspect, so all are used`
      : 'suspect endpoints are left out again',
  warned: ({ message }) => message,
};

/** How many events the admin page keeps. */
const KEPT = 200;

/** Keeps the latest events of all balancers of this process, and passes each new event to listeners. */
export class RecentEvents {
  readonly #kept: RecentEvent[] = [];
  readonly #listeners = new Set<(event: RecentEvent) => void>();
  readonly #unsubscribes: (() => void)[] = [];
  #count = 0;

  /** @param timeOfDay Returns the current time in ISO 8601 and UTC. */
  constructor(timeOfDay: () => string) {
    for (const [event, tell] of Object.entries(tellings)) {
      const hear = (message: unknown): void => {
        const value = message as { readonly resolver: string };
        const text = (tell as (value: unknown) => string | undefined)(value);
        if (text === undefined) return;
        this.#keep({
          id: ++this.#count,
          at: timeOfDay(),
          target: withoutSecrets(value.resolver),
          event,
          text: withoutSecrets(text),
        });
      };
      const name = `evenkeel:${event}`;
      subscribe(name, hear);
      this.#unsubscribes.push(() => unsubscribe(name, hear));
    }
  }

  /** The latest events, oldest first. */
  get kept(): readonly RecentEvent[] {
    return this.#kept;
  }

  /** Calls `listener` for each further event. Returns a function that ends this. */
  listen(listener: (event: RecentEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  close(): void {
    for (const unsubscribe of this.#unsubscribes.splice(0)) unsubscribe();
    this.#listeners.clear();
  }

  #keep(event: RecentEvent): void {
    this.#kept.push(event);
    if (this.#kept.length > KEPT) this.#kept.shift();
    for (const listener of this.#listeners) listener(event);
  }
}
