import { createEndpoint, type Endpoint, type EndpointInit } from '../endpoint/endpoint.js';
import type { ResolveError } from '../errors.js';
import type { Resolution, Resolver, ResolverListener } from '../resolver/resolver.js';

/** A resolver a test speaks through. What it says before the first `watch` is not lost: the last set is said again then. */
export class FakeResolver implements Resolver {
  readonly name = 'fake';
  /** Hints to look now, over all watches. */
  refreshes = 0;
  readonly #listeners = new Set<ResolverListener>();
  #last: readonly Endpoint[] | undefined;

  /** How many watch now. */
  get watchers(): number {
    return this.#listeners.size;
  }

  watch(listener: ResolverListener): Resolution {
    this.#listeners.add(listener);
    const last = this.#last;
    if (last !== undefined) {
      queueMicrotask(() => {
        if (this.#listeners.has(listener)) listener.update(last);
      });
    }
    return {
      refresh: () => {
        this.refreshes++;
      },
      close: () => {
        this.#listeners.delete(listener);
      },
    };
  }

  /** Publishes a set: `'10.0.0.1'` is port 80 there; anything more goes as an object. */
  update(...endpoints: readonly (string | EndpointInit)[]): void {
    this.#last = endpoints.map((init) => createEndpoint(typeof init === 'string' ? { address: init, port: 80 } : init));
    for (const listener of this.#listeners) listener.update(this.#last);
  }

  fail(error: ResolveError): void {
    for (const listener of this.#listeners) listener.fail(error);
  }

  fresh(): void {
    for (const listener of this.#listeners) listener.fresh();
  }
}
