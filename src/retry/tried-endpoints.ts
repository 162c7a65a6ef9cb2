import type { Outcome } from '../endpoint/outcome.js';
import type { PickTarget } from '../picker/picker.js';

/** The part of a lease that identifies the endpoint and its connection. */
export interface TriedAttempt<C> {
  /** The subchannel that the attempt used. */
  readonly subchannel: PickTarget;
  /** The connection that the attempt used: another connection to the same endpoint deserves another try. */
  readonly handle: C;
}

/**
 * The endpoints on which one call was tried. Created at the call's first failure. Pass `avoid` to `pick` or `acquire` for the next attempt,
 * then check `allows`: an avoided endpoint is still picked if no other can take the call.
 */
export class TriedEndpoints<C> {
  readonly #tried = new Set<PickTarget>();
  /** Endpoints that accepted no connection, each with the handle of the connection that failed. */
  readonly #refusing = new Map<PickTarget, C>();
  /** Endpoints that refused the call once without processing it. */
  readonly #refused = new Set<PickTarget>();
  /** Endpoints that answered the call or let it time out: another attempt there would not be a retry on another endpoint. */
  readonly #processed = new Set<PickTarget>();

  /** The endpoints that failed this call, for `avoid` of the next pick. */
  get avoid(): ReadonlySet<PickTarget> {
    return this.#tried;
  }

  /** Records where an attempt was made and how it ended, for `avoid` and `allows`. Call it once per attempt, before the next one. */
  add({ subchannel, handle }: TriedAttempt<C>, outcome: Outcome): void {
    this.#tried.add(subchannel);
    if (outcome.cause === 'connect') this.#refusing.set(subchannel, handle);
    else this.#refusing.delete(subchannel);
    const failedItself = outcome.kind === 'failure' && outcome.cause !== 'reset' && outcome.cause !== 'connect';
    if (failedItself || outcome.kind === 'success') this.#processed.add(subchannel);
  }

  /**
   * The endpoint refused the attempt (added before) even over another HTTP/2 connection. The endpoint gets the call only once more, if
   * there is no other endpoint, because each time costs connections.
   */
  refused({ subchannel }: TriedAttempt<C>): void {
    if (this.#refused.has(subchannel)) this.#processed.add(subchannel);
    else this.#refused.add(subchannel);
  }

  /**
   * Whether the call may be tried on this endpoint. Not if the endpoint itself failed it, and not if no connection could be opened, because
   * that would fail again immediately. A reused connection that died says little about its endpoint, and an endpoint that was reconnected
   * deserves another try.
   */
  allows({ subchannel, handle }: TriedAttempt<C>): boolean {
    if (this.#processed.has(subchannel)) return false;
    return this.#refusing.get(subchannel) !== handle || !this.#refusing.has(subchannel);
  }
}
