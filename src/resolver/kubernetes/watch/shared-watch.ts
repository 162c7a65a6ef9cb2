import type { ResolveError } from '../../../errors.js';
import type { Clock } from '../../../runtime/clock.js';
import type { Rng } from '../../../runtime/rng.js';
import type { ApiAccess } from '../api/api-access.js';
import { type ApiClient, HttpApiClient } from '../api/api-client.js';
import { ApiNamespace } from '../api/namespace.js';
import type { EndpointSlice } from '../slices/endpoint-slice.js';
import { readService } from '../slices/service-ports.js';
import { SliceStore } from '../slices/slice-store.js';
import { ListWatch } from './list-watch.js';
import { ServiceObject } from './service-object.js';

/** Follows the slices of a Service. Its methods are called in the same turn of the event loop in which an event arrives. */
export interface WatchSubscriber {
  /**
   * The slices with these names may have changed. No name is given if a complete list has arrived without any slice, or if anything else
   * that the subscription shows has changed.
   */
  changed(names: ReadonlySet<string>): void;
  warned(message: string, error?: unknown): void;
}

/** Identifies a watch: which Service is watched, and with which permissions. */
export interface WatchSubject {
  readonly access: ApiAccess;
  /** The namespace of the Service; undefined means the one that belongs to the credentials. */
  readonly namespace: string | undefined;
  readonly service: string;
  /** Whether to request the list as the beginning of a watch (a streaming list). */
  readonly streamingLists: boolean;
}

/** What a subscriber of a shared watch can see and do. */
export interface Subscription {
  readonly slices: SliceStore;
  /** Whether a complete list has been received. */
  readonly synced: boolean;
  /** The error that the API server cannot be reached; undefined while it can. */
  readonly failure: ResolveError | undefined;
  /** The Service object itself. */
  readonly service: Omit<ServiceObject, 'listed' | 'close'>;
  /** The set seems outdated: a pause of the watch ends sooner, and a silent watch is doubted, see `ListWatch.hurry`. */
  hurry(failingSinceMs?: number, reachesNone?: boolean): void;
  close(): void;
}

/** All watches of this thread, by the clock they use. Resolvers of the same Service share one. */
const watches = new Map<Clock, Map<string, SharedWatch>>();

/** Joins the watch of a Service, or starts it. */
export function joinWatch(subject: WatchSubject, clock: Clock, rng: Rng, subscriber: WatchSubscriber): Subscription {
  const { access, namespace, service, streamingLists } = subject;
  const key = JSON.stringify([access.key, namespace ?? null, service, streamingLists]);
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

/** One list-and-watch loop, and its subscribers in this thread. */
class SharedWatch {
  readonly #subject: WatchSubject;
  readonly #subscribers = new Set<WatchSubscriber>();
  readonly #namespace: ApiNamespace;
  readonly #onEmpty: () => void;
  readonly #slices = new SliceStore();
  readonly #client: ApiClient;
  readonly #service: ServiceObject;
  readonly #loop: ListWatch;
  #synced = false;
  #failure: ResolveError | undefined;
  /** Whether a slice did not fit into the store since the last list. This is reported once. */
  #full = false;

  constructor(subject: WatchSubject, clock: Clock, rng: Rng, onEmpty: () => void) {
    const { access, namespace, service, streamingLists } = subject;
    this.#subject = subject;
    this.#onEmpty = onEmpty;
    const session = access.open(clock);
    this.#namespace = new ApiNamespace(namespace, session);
    this.#client = new HttpApiClient(session, clock, false);
    this.#service = new ServiceObject({
      read: async (signal) => await readService(this.#client, await this.#namespace.get(), service, signal),
      clock,
      rng,
      changed: () => this.#changed(new Set()),
    });
    this.#loop = new ListWatch({
      client: this.#client,
      namespace: () => this.#namespace.get(),
      service,
      clock,
      rng,
      streamingLists,
      listener: {
        replaced: (slices) => this.#replace(slices),
        changed: (name, slice) => this.#change(name, slice),
        failed: (error) => {
          this.#failure = error;
          this.#changed(new Set());
        },
        confirmed: () => {
          if (this.#failure === undefined) return;
          this.#failure = undefined;
          this.#changed(new Set());
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
      service: this.#service,
      hurry: (...news) => this.#loop.hurry(...news),
      close: () => this.#leave(subscriber),
    };
  }

  #leave(subscriber: WatchSubscriber): void {
    if (!this.#subscribers.delete(subscriber) || this.#subscribers.size > 0) return;
    this.#onEmpty();
    this.#loop.close();
    this.#service.close();
    this.#client.close();
  }

  #replace(slices: readonly EndpointSlice[]): void {
    const names = this.#slices.replace(slices);
    this.#full = false;
    this.#synced = true;
    this.#service.listed();
    this.#changed(names);
  }

  #change(name: string, slice: EndpointSlice | undefined): void {
    if (!this.#slices.set(name, slice)) {
      if (this.#full) return;
      this.#full = true;
      const message = `${this.#subject.service} has more EndpointSlices than we keep; the rest is left out`;
      this.#tell((subscriber) => subscriber.warned(message));
      return;
    }
    this.#changed(new Set([name]));
  }

  #changed(names: ReadonlySet<string>): void {
    this.#tell((subscriber) => subscriber.changed(names));
  }

  #tell(tell: (subscriber: WatchSubscriber) => void): void {
    for (const subscriber of [...this.#subscribers]) if (this.#subscribers.has(subscriber)) tell(subscriber);
  }
}
