import type { Outcome } from '../endpoint/outcome.js';
import type { Subchannel } from '../pool/subchannel.js';

/** What a lease tells of where a call is to go. */
export interface Attempt<C> {
  readonly subchannel: Subchannel<C>;
  readonly handle: C;
}

/**
 * Where one call was tried. Made at its first failure; pass `avoid` to `pick` or `acquire` for the next attempt, then
 * ask `allows`: an avoided endpoint is picked all the same when no other can take the call.
 */
export class TriedEndpoints<C> {
  readonly #tried = new Set<Subchannel<C>>();
  /** Endpoints that took no connection, each with the handle that was of no use. */
  readonly #refusing = new Map<Subchannel<C>, C>();

  get avoid(): ReadonlySet<Subchannel<C>> {
    return this.#tried;
  }

  /** An attempt ended this way. */
  add({ subchannel, handle }: Attempt<C>, outcome: Outcome): void {
    this.#tried.add(subchannel);
    if (outcome.cause === 'connect') this.#refusing.set(subchannel, handle);
    else this.#refusing.delete(subchannel);
  }

  /**
   * Whether the call may go there. Not where no connection could be opened: it would fail again at once. But a reused
   * connection that died says little of its endpoint, and one that was connected to anew has earned another try.
   */
  allows({ subchannel, handle }: Attempt<C>): boolean {
    return this.#refusing.get(subchannel) !== handle || !this.#refusing.has(subchannel);
  }
}
