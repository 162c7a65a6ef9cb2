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
  /** Endpoints that refused the call once, of which they did nothing. */
  readonly #refused = new Set<Subchannel<C>>();
  /** Endpoints that answered, or let the time pass: to ask them again is no retry elsewhere. */
  readonly #asked = new Set<Subchannel<C>>();

  get avoid(): ReadonlySet<Subchannel<C>> {
    return this.#tried;
  }

  /** An attempt ended this way. */
  add({ subchannel, handle }: Attempt<C>, outcome: Outcome): void {
    this.#tried.add(subchannel);
    if (outcome.cause === 'connect') this.#refusing.set(subchannel, handle);
    else this.#refusing.delete(subchannel);
    const failedItself = outcome.kind === 'failure' && outcome.cause !== 'reset' && outcome.cause !== 'connect';
    if (failedItself || outcome.kind === 'success') this.#asked.add(subchannel);
  }

  /**
   * The attempt, added before, was refused by the endpoint: over HTTP/2, after a repetition on another connection. It is
   * asked once more where there is no other; each time costs connections.
   */
  refused({ subchannel }: Attempt<C>): void {
    if (this.#refused.has(subchannel)) this.#asked.add(subchannel);
    else this.#refused.add(subchannel);
  }

  /**
   * Whether the call may go there. Not where the endpoint itself failed it, and not where no connection could be opened:
   * it would fail again at once. But a reused connection that died says little of its endpoint, and one that was
   * connected to anew has earned another try.
   */
  allows({ subchannel, handle }: Attempt<C>): boolean {
    if (this.#asked.has(subchannel)) return false;
    return this.#refusing.get(subchannel) !== handle || !this.#refusing.has(subchannel);
  }
}
