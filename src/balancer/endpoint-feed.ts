import type { Endpoint } from '../endpoint/endpoint.js';
import { asError, ResolveError } from '../errors.js';
import { notify, type Observer } from '../observe/observer.js';
import type { Resolution, Resolver } from '../resolver/resolver.js';
import type { Clock } from '../runtime/clock.js';
import type { Rng } from '../runtime/rng.js';

/** What a feed needs from its balancer. */
export interface EndpointFeedOwner {
  readonly clock: Clock;
  readonly rng: Rng;
  readonly observer: Observer;
  /** There is a new set. */
  endpointsChanged(): void;
  /** The resolver failed; a first set may be missing still. */
  resolveFailed(error: ResolveError): void;
}

/** Holds what the resolver said last: the set, its version and how stale it is. */
export class EndpointFeed {
  readonly name: string;
  readonly #owner: EndpointFeedOwner;
  readonly #resolution: Resolution;
  #endpoints: readonly Endpoint[] | undefined;
  #byKey: ReadonlyMap<string, Endpoint> = new Map();
  #version = 0;
  #failedAtMs: number | undefined;
  #error: ResolveError | undefined;

  constructor(resolver: Resolver, owner: EndpointFeedOwner) {
    this.name = resolver.name;
    this.#owner = owner;
    const { clock, rng, observer } = owner;
    try {
      this.#resolution = resolver.watch(
        {
          update: (endpoints) => this.#update(endpoints),
          fail: (error) => this.#fail(error),
          fresh: () => this.#fresh(),
        },
        { clock, rng, observer },
      );
    } catch (error) {
      // A resolver's contract is to report, not to throw; a user's own may break it.
      throw new ResolveError(`the resolver ${resolver.name} did not start: ${asError(error).message}`, {
        cause: error,
        permanent: true,
      });
    }
  }

  /** The last set, or undefined before the first. */
  get endpoints(): readonly Endpoint[] | undefined {
    return this.#endpoints;
  }

  /** The last set by key. */
  get byKey(): ReadonlyMap<string, Endpoint> {
    return this.#byKey;
  }

  get version(): number {
    return this.#version;
  }

  /** Why the last look failed, while the set is stale. */
  get error(): ResolveError | undefined {
    return this.#error;
  }

  /** In ms; 0 when the set is fresh. */
  get staleForMs(): number {
    return this.#failedAtMs === undefined ? 0 : this.#owner.clock.now() - this.#failedAtMs;
  }

  refresh(): void {
    this.#resolution.refresh();
  }

  close(): void {
    this.#resolution.close();
  }

  #update(endpoints: readonly Endpoint[]): void {
    this.#endpoints = endpoints;
    this.#byKey = new Map(endpoints.map((endpoint) => [endpoint.key, endpoint]));
    this.#version++;
    this.#fresh();
    notify(this.#owner.observer, 'resolved', { endpoints, version: this.#version });
    this.#owner.endpointsChanged();
  }

  #fail(error: ResolveError): void {
    this.#error = error;
    this.#failedAtMs ??= this.#owner.clock.now();
    notify(this.#owner.observer, 'resolveFailed', { error, stale: this.#endpoints !== undefined });
    this.#owner.resolveFailed(error);
  }

  #fresh(): void {
    if (this.#failedAtMs === undefined) return;
    const { staleForMs } = this;
    this.#failedAtMs = undefined;
    this.#error = undefined;
    notify(this.#owner.observer, 'resolveRecovered', { staleForMs });
  }
}
