import type { ResolveError } from '../../errors.js';
import type { Clock } from '../../runtime/clock.js';
import type { Rng } from '../../runtime/rng.js';
import type { ApiAccess } from './api-access.js';
import { type ApiClient, HttpApiClient } from './api-client.js';
import type { EndpointSlice } from './endpoint-slice.js';
import { ListWatch } from './list-watch.js';
import { ApiNamespace } from './namespace.js';
import { readService, type ServiceFacts } from './service-ports.js';
import { SliceStore } from './slice-store.js';

/** Somebody who follows a Service's slices. Everything is told in the turn it happens. */
export interface WatchSubscriber {
  /** These slices may have changed; none, when a complete list is as empty as before. */
  changed(names: ReadonlySet<string>): void;
  failed(error: ResolveError): void;
  confirmed(): void;
  warned(message: string, error?: unknown): void;
}

/** What is watched, and by whose rights. */
export interface WatchSubject {
  readonly access: ApiAccess;
  /** Undefined: the namespace the access comes with. */
  readonly namespace: string | undefined;
  readonly service: string;
  readonly keepsProcessAlive: boolean;
}

/** A place among those who follow. */
export interface Subscription {
  readonly slices: SliceStore;
  /** Whether a complete list was seen. */
  readonly synced: boolean;
  /** Why we are out of touch, while we are. */
  readonly failure: ResolveError | undefined;
  /** Asks for the Service itself. Rejects when it cannot be had. */
  service(signal: AbortSignal): Promise<ServiceFacts>;
  close(): void;
}

/** Every watch there is in this thread (W13). Clocks are told apart by identity. */
const watches = new Map<Clock, Map<string, SharedWatch>>();

/** How many watches run: 0 after the last user is gone. */
export function sharedWatchCount(): number {
  let count = 0;
  for (const byKey of watches.values()) count += byKey.size;
  return count;
}

/** Joins the watch of a Service, beginning it if nobody has. */
export function joinWatch(subject: WatchSubject, clock: Clock, rng: Rng, subscriber: WatchSubscriber): Subscription {
  const { access, namespace, service, keepsProcessAlive } = subject;
  const key = JSON.stringify([access.key, namespace ?? null, service, keepsProcessAlive]);
  const byKey = watches.get(clock) ?? new Map<string, SharedWatch>();
  let watch = byKey.get(key);
  if (watch === undefined) {
    watch = new SharedWatch(subject, clock, rng, () => {
      byKey.delete(key);
      if (byKey.size === 0) watches.delete(clock);
    });
    byKey.set(key, watch);
    watches.set(clock, byKey);
  }
  return watch.join(subscriber);
}

class SharedWatch {
  readonly #subscribers = new Set<WatchSubscriber>();
  readonly #slices = new SliceStore();
  readonly #client: ApiClient;
  readonly #namespace: ApiNamespace;
  readonly #loop: ListWatch;
  readonly #service: string;
  readonly #onEmpty: () => void;
  #synced = false;
  #failure: ResolveError | undefined;
  /** A slice did not fit since the last list, and that was told. */
  #full = false;

  constructor(subject: WatchSubject, clock: Clock, rng: Rng, onEmpty: () => void) {
    const session = subject.access.open(clock);
    this.#client = new HttpApiClient(session, clock, subject.keepsProcessAlive);
    this.#namespace = new ApiNamespace(subject.namespace, session);
    this.#service = subject.service;
    this.#onEmpty = onEmpty;
    this.#loop = new ListWatch({
      client: this.#client,
      namespace: () => this.#namespace.get(),
      service: subject.service,
      clock,
      rng,
      keepsProcessAlive: subject.keepsProcessAlive,
      listener: {
        replaced: (slices) => this.#replaced(slices),
        changed: (name, slice) => this.#changed(name, slice),
        failed: (error) => {
          this.#failure = error;
          this.#tell((subscriber) => subscriber.failed(error));
        },
        confirmed: () => {
          if (this.#failure === undefined) return;
          this.#failure = undefined;
          this.#tell((subscriber) => subscriber.confirmed());
        },
        warned: (message, error) => this.#tell((subscriber) => subscriber.warned(message, error)),
      },
    });
    this.#loop.start();
  }

  join(subscriber: WatchSubscriber): Subscription {
    this.#subscribers.add(subscriber);
    const watch = this;
    return {
      slices: this.#slices,
      get synced() {
        return watch.#synced;
      },
      get failure() {
        return watch.#failure;
      },
      service: async (signal) => readService(this.#client, await this.#namespace.get(), this.#service, signal),
      close: () => this.#leave(subscriber),
    };
  }

  #leave(subscriber: WatchSubscriber): void {
    if (!this.#subscribers.delete(subscriber) || this.#subscribers.size > 0) return;
    this.#onEmpty();
    this.#loop.close();
    this.#client.close();
  }

  #replaced(slices: readonly EndpointSlice[]): void {
    const names = this.#slices.replace(slices);
    this.#full = false;
    this.#synced = true;
    this.#tell((subscriber) => subscriber.changed(names));
  }

  #changed(name: string, slice: EndpointSlice | undefined): void {
    if (!this.#slices.put(name, slice)) {
      if (this.#full) return;
      this.#full = true;
      this.#tell((subscriber) =>
        subscriber.warned(`${this.#service} has more EndpointSlices than we keep; the rest is left out`),
      );
      return;
    }
    const names = new Set([name]);
    this.#tell((subscriber) => subscriber.changed(names));
  }

  #tell(tell: (subscriber: WatchSubscriber) => void): void {
    for (const subscriber of [...this.#subscribers]) if (this.#subscribers.has(subscriber)) tell(subscriber);
  }
}
