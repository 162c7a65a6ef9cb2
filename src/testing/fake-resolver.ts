import { createEndpoint, type Endpoint, type EndpointInit } from '../endpoint/endpoint.js';
import type { ResolveError } from '../errors.js';
import type { Resolution, Resolver, ResolverListener } from '../resolver/resolver.js';

/**
 * A resolver that a test controls. A later watcher gets the last result: the last endpoint set, or the failure while the resolver fails; in
 * that case the set follows with `fresh`.
 */
export class FakeResolver implements Resolver {
  readonly name = 'fake';
  /** How often `refresh` was called, over all watches. */
  refreshes = 0;
  /** The listeners, and whether each has received the last set. */
  readonly #listeners = new Map<ResolverListener, boolean>();
  #last: readonly Endpoint[] | undefined;
  #failure: ResolveError | undefined;

  /** How many watches are open. */
  get watchers(): number {
    return this.#listeners.size;
  }

  watch(listener: ResolverListener): Resolution {
    this.#listeners.set(listener, false);
    queueMicrotask(() => {
      // A listener that received a set meanwhile does not get it again.
      if (this.#listeners.get(listener) !== false) return;
      if (this.#failure !== undefined) listener.fail(this.#failure);
      else if (this.#last !== undefined) this.#deliver(listener, this.#last);
    });
    return {
      refresh: () => {
        this.refreshes++;
      },
      close: () => {
        this.#listeners.delete(listener);
      },
    };
  }

  /** Publishes an endpoint set: `'10.0.0.1'` means port 80 of that address; pass an object for anything more. */
  update(...endpoints: readonly (string | EndpointInit)[]): void {
    this.#failure = undefined;
    this.#last = endpoints.map((init) => createEndpoint(typeof init === 'string' ? { address: init, port: 80 } : init));
    for (const listener of this.#listeners.keys()) this.#deliver(listener, this.#last);
  }

  /** Notifies every watch that the endpoint set could not be determined. */
  fail(error: ResolveError): void {
    this.#failure = error;
    for (const listener of this.#listeners.keys()) listener.fail(error);
  }

  /** Notifies every watch that its last endpoint set holds again. */
  fresh(): void {
    this.#failure = undefined;
    for (const [listener, hasLastSet] of this.#listeners) {
      if (hasLastSet) listener.fresh();
      else if (this.#last !== undefined) this.#deliver(listener, this.#last);
    }
  }

  #deliver(listener: ResolverListener, endpoints: readonly Endpoint[]): void {
    this.#listeners.set(listener, true);
    listener.update(endpoints);
  }
}
