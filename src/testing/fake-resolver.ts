import { createEndpoint, type Endpoint, type EndpointInit } from '../endpoint/endpoint.js';
import type { ResolveError } from '../errors.js';
import type { Resolution, Resolver, ResolverListener } from '../resolver/resolver.js';

/**
 * A resolver a test controls. A later watcher gets the last result: the last set, or the failure while it fails; then the set
 * follows with `fresh`.
 */
export class FakeResolver implements Resolver {
  readonly name = 'fake';
  /** Calls of `refresh`, over all watches. */
  refreshes = 0;
  /** The listeners, and whether each has received the last set. */
  readonly #listeners = new Map<ResolverListener, boolean>();
  #last: readonly Endpoint[] | undefined;
  #failure: ResolveError | undefined;

  /** Number of current watches. */
  get watchers(): number {
    return this.#listeners.size;
  }

  watch(listener: ResolverListener): Resolution {
    this.#listeners.set(listener, false);
    queueMicrotask(() => {
      // The listener has already received what was published meanwhile.
      if (this.#listeners.get(listener) !== false) return;
      if (this.#failure !== undefined) listener.fail(this.#failure);
      else if (this.#last !== undefined) this.#tell(listener, this.#last);
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

  /** Publishes a set: `'10.0.0.1'` means port 80 there; pass an object for anything more. */
  update(...endpoints: readonly (string | EndpointInit)[]): void {
    this.#failure = undefined;
    this.#last = endpoints.map((init) => createEndpoint(typeof init === 'string' ? { address: init, port: 80 } : init));
    for (const listener of this.#listeners.keys()) this.#tell(listener, this.#last);
  }

  /** Tells every watch that the set could not be determined. */
  fail(error: ResolveError): void {
    this.#failure = error;
    for (const listener of this.#listeners.keys()) listener.fail(error);
  }

  /** Tells every watch that its last set holds again. */
  fresh(): void {
    this.#failure = undefined;
    for (const [listener, hasHeard] of this.#listeners) {
      if (hasHeard) listener.fresh();
      else if (this.#last !== undefined) this.#tell(listener, this.#last);
    }
  }

  #tell(listener: ResolverListener, endpoints: readonly Endpoint[]): void {
    this.#listeners.set(listener, true);
    listener.update(endpoints);
  }
}
