import { type Endpoint, isEndpoint } from '../endpoint/endpoint.js';
import { asError, isResolveError, ResolveError } from '../errors.js';
import { notify, type Observer } from '../observe/observer.js';
import type { Warnings } from '../observe/warnings.js';
import type { Resolution, Resolver } from '../resolver/resolver.js';
import { optionError } from '../runtime/check.js';
import type { Clock } from '../runtime/clock.js';
import type { Rng } from '../runtime/rng.js';

/** What an endpoint feed needs from its balancer. */
export interface EndpointFeedOwner {
  readonly clock: Clock;
  readonly rng: Rng;
  readonly observer: Observer;
  readonly warnings: Warnings;
  /** The resolver has published a new set. */
  endpointsChanged(): void;
  /** The resolver found no first set, and will find none until somebody changes the configuration. */
  neverStarts(error: ResolveError): void;
}

/** Holds what the resolver last published: the endpoint set, its version, and since when the resolver cannot confirm it. */
export class EndpointFeed {
  readonly name: string;
  readonly #owner: EndpointFeedOwner;
  readonly #resolution: Resolution;
  #endpoints: readonly Endpoint[] | undefined;
  #byKey: ReadonlyMap<string, Endpoint> = new Map();
  #version = 0;
  #failedAtMs: number | undefined;
  #closed = false;
  #error: ResolveError | undefined;
  #reason: string | undefined;

  constructor(resolver: Resolver, owner: EndpointFeedOwner) {
    this.name = resolver.name;
    this.#owner = owner;
    const { clock, rng, observer } = owner;
    try {
      this.#resolution = resolver.watch(
        {
          update: (endpoints, reason) => this.#update(endpoints, reason),
          fail: (error) => this.#fail(error),
          fresh: () => this.#fresh(),
        },
        { clock, rng, observer },
      );
    } catch (error) {
      this.#closed = true;
      // A resolver of the application may throw here, although resolvers must report errors instead.
      throw new ResolveError(`the resolver ${resolver.name} did not start: ${asError(error).message}`, {
        cause: error,
        permanent: true,
      });
    }
    if (typeof this.#resolution?.close === 'function') return;
    this.#closed = true;
    throw optionError('resolver.watch()', 'an object with refresh and close', this.#resolution);
  }

  /** The last set of the resolver, or undefined before the first. */
  get endpoints(): readonly Endpoint[] | undefined {
    return this.#endpoints;
  }

  /** The resolver's last endpoint set, by the endpoints' keys. */
  get byKey(): ReadonlyMap<string, Endpoint> {
    return this.#byKey;
  }

  get version(): number {
    return this.#version;
  }

  /** Why the last lookup failed; undefined unless the set is stale. */
  get error(): ResolveError | undefined {
    return this.#error;
  }

  /** Why the set is empty, in words; undefined if that is not known. */
  get emptyReason(): string | undefined {
    return this.#error?.message ?? this.#reason;
  }

  /** For how long the resolver has been unable to confirm its set, in ms; 0 = the set is fresh. */
  get staleForMs(): number {
    return this.#failedAtMs === undefined ? 0 : this.#owner.clock.now() - this.#failedAtMs;
  }

  refresh(failingSinceMs?: number): void {
    if (!this.#closed) this.#callResolution('refresh', failingSinceMs);
  }

  close(): void {
    this.#closed = true;
    this.#callResolution('close');
  }

  #callResolution(what: 'refresh' | 'close', failingSinceMs?: number): void {
    try {
      this.#resolution[what](failingSinceMs);
    } catch (error) {
      this.#owner.warnings.warn(`the resolver threw at ${what}`, error);
    }
  }

  #update(endpoints: readonly Endpoint[], reason: string | undefined): void {
    if (this.#closed) return; // a resolver that was closed has no further say, even if it continues
    if (!Array.isArray(endpoints) || !endpoints.every(isEndpoint)) {
      this.#fail(new ResolveError(`the resolver ${this.name} listed something that createEndpoint did not make`));
      return;
    }
    this.#endpoints = [...endpoints];
    const byKey = new Map<string, Endpoint>();
    // If two endpoints have the same key, the first counts, as in an `EndpointSet`.
    for (const endpoint of endpoints) if (!byKey.has(endpoint.key)) byKey.set(endpoint.key, endpoint);
    this.#byKey = byKey;
    this.#version++;
    this.#reason = endpoints.length === 0 && typeof reason === 'string' ? reason : undefined;
    this.#fresh();
    notify(this.#owner.observer, 'resolved', {
      endpoints: this.#endpoints,
      version: this.#version,
      ...(this.#reason !== undefined && { reason: this.#reason }),
    });
    this.#owner.endpointsChanged();
  }

  #fail(reason: unknown): void {
    if (this.#closed) return;
    const error = isResolveError(reason)
      ? reason
      : new ResolveError(`${this.name}: ${asError(reason).message}`, { cause: reason });
    const before = this.#error;
    this.#error = error;
    this.#failedAtMs ??= this.#owner.clock.now();
    // Repeated failures of the same kind are reported once: a resolver that retries every second must not fill a log.
    if (before === undefined || before.code !== error.code || before.message !== error.message) {
      notify(this.#owner.observer, 'resolveFailed', { error, stale: this.#endpoints !== undefined });
    }
    if (error.permanent && this.#endpoints === undefined) this.#owner.neverStarts(error);
  }

  #fresh(): void {
    if (this.#closed || this.#failedAtMs === undefined) return;
    const { staleForMs } = this;
    this.#failedAtMs = undefined;
    this.#error = undefined;
    notify(this.#owner.observer, 'resolveRecovered', { staleForMs });
  }
}
