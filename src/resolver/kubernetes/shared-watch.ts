import { createHash } from 'node:crypto';
import type { ResolveError } from '../../errors.js';
import type { Clock } from '../../runtime/clock.js';
import type { OpenGroup } from '../../runtime/group.js';
import type { Rng } from '../../runtime/rng.js';
import type { WatchOwner } from '../resolver.js';
import type { ApiAccess, ApiSession } from './api-access.js';
import { type ApiClient, HttpApiClient } from './api-client.js';
import type { EndpointSlice } from './endpoint-slice.js';
import { ListWatch } from './list-watch.js';
import { ApiNamespace } from './namespace.js';
import { readService, type ServiceFacts } from './service-ports.js';
import type { SharedState } from './shared-state.js';
import { SliceStore } from './slice-store.js';
import { WatchMember } from './watch-member.js';
import { PROTOCOL } from './watch-message.js';

/** Follows a Service's slices. Called in the turn in which things happen. */
export interface WatchSubscriber {
  /** These slices may have changed; none if a complete list is as empty as before. */
  changed(names: ReadonlySet<string>): void;
  failed(error: ResolveError): void;
  confirmed(): void;
  warned(message: string, error?: unknown): void;
}

/** What is watched, and with whose permissions. */
export interface WatchSubject {
  readonly access: ApiAccess;
  /** Undefined: the namespace that comes with the access. */
  readonly namespace: string | undefined;
  readonly service: string;
  readonly keepsProcessAlive: boolean;
  /** Whether to request lists as the beginning of a watch (W11). */
  readonly streamingLists: boolean;
  /** Whether processes and threads of one pod may share a watch. */
  readonly sharesWatch: boolean;
  readonly openGroup: OpenGroup;
}

/** A subscriber's handle. */
export interface Subscription {
  readonly slices: SliceStore;
  /** Whether a complete list has been received. */
  readonly synced: boolean;
  /** Who watches now; undefined if no other member could. */
  readonly watch: WatchOwner | undefined;
  /** Why the API server is out of touch; undefined while it is not. */
  readonly failure: ResolveError | undefined;
  /** Reads the Service itself. Rejects if that fails. */
  service(signal: AbortSignal): Promise<ServiceFacts>;
  /** The set seems outdated: a watch that pauses goes on sooner. */
  hurry(): void;
  close(): void;
}

/** All watches of this thread (W13). Clocks are distinguished by identity. */
const watches = new Map<Clock, Map<string, SharedWatch>>();

/** Joins the watch of a Service, or starts it. */
export function joinWatch(subject: WatchSubject, clock: Clock, rng: Rng, subscriber: WatchSubscriber): Subscription {
  const { access, namespace, service, keepsProcessAlive, streamingLists, sharesWatch } = subject;
  const key = JSON.stringify([access.key, namespace ?? null, service, keepsProcessAlive, streamingLists, sharesWatch]);
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

/** Our own list-and-watch loop and its connections. */
interface OwnWatch {
  readonly client: ApiClient;
  readonly loop: ListWatch;
}

class SharedWatch implements SharedState {
  readonly #subject: WatchSubject;
  readonly #clock: Clock;
  readonly #rng: Rng;
  readonly #subscribers = new Set<WatchSubscriber>();
  readonly #session: ApiSession;
  readonly #namespace: ApiNamespace;
  readonly #onEmpty: () => void;
  readonly slices: SliceStore = new SliceStore();
  /** Undefined: this process watches alone. */
  readonly #member: WatchMember | undefined;
  /** Undefined while another member's watch is used. */
  #own: OwnWatch | undefined;
  /** For requests while another member watches. */
  #client: ApiClient | undefined;
  #version: string | undefined;
  synced = false;
  failure: ResolveError | undefined;
  /** A slice did not fit since the last list, and that has been reported. */
  #full = false;

  constructor(subject: WatchSubject, clock: Clock, rng: Rng, onEmpty: () => void) {
    this.#subject = subject;
    this.#clock = clock;
    this.#rng = rng;
    this.#session = subject.access.open(clock);
    this.#namespace = new ApiNamespace(subject.namespace, this.#session);
    this.#onEmpty = onEmpty;
    const group = groupOf(subject);
    if (group === undefined) this.start();
    else this.#member = new WatchMember(group, subject.openGroup, clock, this);
  }

  get version(): string | undefined {
    return this.#own?.loop.version ?? this.#version;
  }

  join(subscriber: WatchSubscriber): Subscription {
    this.#subscribers.add(subscriber);
    const watch = this;
    return {
      slices: this.slices,
      get synced() {
        return watch.synced;
      },
      get failure() {
        return watch.failure;
      },
      get watch() {
        return watch.#member?.watch;
      },
      service: async (signal) => {
        const namespace = await this.#namespace.get();
        const client = this.#own?.client ?? this.#client ?? this.#newClient();
        if (this.#own === undefined) this.#client = client;
        return await readService(client, namespace, this.#subject.service, signal);
      },
      hurry: () => this.#own?.loop.hurry(),
      close: () => this.#leave(subscriber),
    };
  }

  start(): void {
    if (this.#own !== undefined) return;
    const { service, keepsProcessAlive, streamingLists } = this.#subject;
    const client = this.#newClient();
    const loop = new ListWatch({
      client,
      namespace: () => this.#namespace.get(),
      service,
      clock: this.#clock,
      rng: this.#rng,
      keepsProcessAlive,
      streamingLists,
      version: this.synced ? this.#version : undefined,
      listener: {
        replaced: (slices) => {
          this.#replace(slices);
          this.#member?.replaced();
        },
        changed: (name, slice) => {
          this.#member?.changed(name);
          this.#change(name, slice);
        },
        failed: (error) => {
          this.failed(error);
          this.#member?.judged();
        },
        confirmed: () => {
          if (this.failure === undefined) return;
          this.confirmed();
          this.#member?.judged();
        },
        warned: (message, error) => this.#tell((subscriber) => subscriber.warned(message, error)),
      },
    });
    this.#own = { client, loop };
    loop.start();
  }

  stop(): void {
    if (this.#own === undefined) return;
    this.#version = this.version;
    const { client, loop } = this.#own;
    this.#own = undefined;
    loop.close();
    client.close();
  }

  replaced(slices: readonly EndpointSlice[], version: string | undefined): void {
    this.#version = version;
    this.#replace(slices);
  }

  changed(slices: readonly EndpointSlice[], gone: readonly string[], version: string | undefined): void {
    this.#version = version;
    for (const name of gone) this.#change(name, undefined);
    for (const slice of slices) this.#change(slice.name, slice);
  }

  advanced(version: string | undefined): void {
    this.#version = version;
  }

  failed(error: ResolveError): void {
    this.failure = error;
    this.#tell((subscriber) => subscriber.failed(error));
  }

  confirmed(): void {
    if (this.failure === undefined) return;
    this.failure = undefined;
    this.#tell((subscriber) => subscriber.confirmed());
  }

  warned(message: string): void {
    this.#tell((subscriber) => subscriber.warned(message));
  }

  #newClient(): ApiClient {
    return new HttpApiClient(this.#session, this.#clock, this.#subject.keepsProcessAlive);
  }

  #leave(subscriber: WatchSubscriber): void {
    if (!this.#subscribers.delete(subscriber) || this.#subscribers.size > 0) return;
    this.#onEmpty();
    this.#member?.close();
    this.stop();
    this.#client?.close();
  }

  #replace(slices: readonly EndpointSlice[]): void {
    const names = this.slices.replace(slices);
    this.#full = false;
    this.synced = true;
    this.#tell((subscriber) => subscriber.changed(names));
  }

  #change(name: string, slice: EndpointSlice | undefined): void {
    if (!this.slices.put(name, slice)) {
      if (this.#full) return;
      this.#full = true;
      this.warned(`${this.#subject.service} has more EndpointSlices than we keep; the rest is left out`);
      return;
    }
    const names = new Set([name]);
    this.#tell((subscriber) => subscriber.changed(names));
  }

  #tell(tell: (subscriber: WatchSubscriber) => void): void {
    for (const subscriber of [...this.#subscribers]) if (this.#subscribers.has(subscriber)) tell(subscriber);
  }
}

/** The name under which members of this pod watch the same thing with the same permissions; undefined: not shared. */
function groupOf({ access, namespace, service, sharesWatch, keepsProcessAlive }: WatchSubject): string | undefined {
  if (!sharesWatch || keepsProcessAlive || access.sharedKey === undefined) return undefined;
  // A digest, because its input may be long and is private.
  const key = JSON.stringify([access.sharedKey, namespace ?? null, service]);
  return `slices ${PROTOCOL} ${createHash('sha256').update(key).digest('base64url')}`;
}
