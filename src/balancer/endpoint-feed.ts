import type { Endpoint } from '../endpoint/endpoint.js';
import { asError, isEvenkeelError, ResolveError } from '../errors.js';
import { notify, type Observer } from '../observe/observer.js';
import type { Failing } from '../pool/pool.js';
import { follow, nothingYet, type Resolved } from '../resolver/resolved.js';
import type { Resolution, Resolver } from '../resolver/resolver.js';
import type { Clock } from '../runtime/clock.js';
import type { Rng } from '../runtime/rng.js';

/** What an endpoint feed needs from its balancer. */
export interface EndpointFeedOwner {
  readonly clock: Clock;
  readonly rng: Rng;
  readonly observer: Observer;
  /** The resolver has published a new set. */
  endpointsChanged(): void;
  /** The resolver found no first set, and will find none until somebody changes the configuration. */
  neverStarts(error: ResolveError): void;
}

/**
 * Holds what the resolver last said: the endpoint set, its version, and since when the resolver cannot confirm it. Tells observers what
 * changes.
 */
export class EndpointFeed {
  readonly name: string;
  readonly #owner: EndpointFeedOwner;
  readonly #resolution: Resolution;
  #state: Resolved = nothingYet;
  #byKey: ReadonlyMap<string, Endpoint> = new Map();
  #version = 0;
  #failedAtMs: number | undefined;
  #isClosed = false;

  constructor(resolver: Resolver, owner: EndpointFeedOwner) {
    this.name = resolver.name;
    this.#owner = owner;
    const { clock, rng, observer } = owner;
    try {
      this.#resolution = follow(resolver, { clock, rng, observer }, (state) => this.#changed(state));
    } catch (error) {
      this.#isClosed = true;
      if (isEvenkeelError(error, 'EVENKEEL_OPTION')) throw error;
      // A resolver of the application may throw here, although resolvers must report errors instead.
      throw new ResolveError(`the resolver ${resolver.name} did not start: ${asError(error).message}`, {
        cause: error,
        permanent: true,
      });
    }
  }

  /** The last set of the resolver, or undefined before the first. */
  get endpoints(): readonly Endpoint[] | undefined {
    return this.#state.endpoints;
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
    return this.#state.error;
  }

  /** Why the set is empty, in words; undefined if that is not known. */
  get emptyReason(): string | undefined {
    return this.#state.error?.message ?? this.#state.emptyBecause;
  }

  /** For how long the resolver has been unable to confirm its set, in ms; 0 = the set is fresh. */
  get staleForMs(): number {
    return this.#failedAtMs === undefined ? 0 : this.#owner.clock.now() - this.#failedAtMs;
  }

  refresh(failing?: Failing): void {
    this.#resolution.refresh(failing?.sinceMs, failing?.isEach);
  }

  close(): void {
    this.#isClosed = true;
    this.#resolution.close();
  }

  #changed(state: Resolved): void {
    const { endpoints, error } = state;
    const { endpoints: old, error: before } = this.#state;
    const isNew = endpoints !== undefined && endpoints !== old;
    this.#state = state;
    if (isNew) this.#index(endpoints);
    if (error === undefined) this.#confirmed();
    else this.#failed(error, before);
    // An observer may have closed the balancer, or made the resolver publish another set.
    if (isNew && !this.#isClosed && endpoints === this.#state.endpoints) this.#published(endpoints);
  }

  #index(endpoints: readonly Endpoint[]): void {
    const byKey = new Map<string, Endpoint>();
    // If two endpoints have the same key, the first counts, as in an `EndpointSet`.
    for (const endpoint of endpoints) if (!byKey.has(endpoint.key)) byKey.set(endpoint.key, endpoint);
    this.#byKey = byKey;
    this.#version++;
  }

  #published(endpoints: readonly Endpoint[]): void {
    const { emptyBecause: reason } = this.#state;
    notify(this.#owner.observer, 'resolved', {
      endpoints,
      version: this.#version,
      ...(reason !== undefined && { reason }),
    });
    this.#owner.endpointsChanged();
  }

  #failed(error: ResolveError, before: ResolveError | undefined): void {
    const { endpoints } = this.#state;
    this.#failedAtMs ??= this.#owner.clock.now();
    // Whoever reads this hears each text once: a resolver that tries again every second must not fill a log, and that the same failure
    // has become permanent says nothing new.
    if (before === undefined || before.code !== error.code || before.message !== error.message) {
      notify(this.#owner.observer, 'resolveFailed', { error, stale: endpoints !== undefined });
    }
    if (error.permanent && endpoints === undefined && !this.#isClosed) this.#owner.neverStarts(error);
  }

  #confirmed(): void {
    if (this.#failedAtMs === undefined) return;
    const { staleForMs } = this;
    this.#failedAtMs = undefined;
    notify(this.#owner.observer, 'resolveRecovered', { staleForMs });
  }
}
