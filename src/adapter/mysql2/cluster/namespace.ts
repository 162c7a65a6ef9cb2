import { Queryable } from './queryable.js';
import type { Route } from './route.js';

/** Some of the services of a cluster: what `cluster.of(pattern)` returns. */
export class Namespace extends Queryable {
  readonly #route: Route;

  /** @internal */
  constructor(route: Route) {
    super();
    this.#route = route;
  }

  /** Itself: without a callback every method returns a promise. */
  promise(): this {
    return this;
  }

  /** @internal */
  protected route(): Route {
    return this.#route;
  }
}
