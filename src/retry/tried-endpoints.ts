import type { Outcome } from '../endpoint/outcome.js';
import type { PickTarget } from '../picker/picker.js';

/** The part of a lease that identifies its endpoint and connection. */
export interface TriedAttempt<C> {
  /** What the picker picked for the attempt. */
  readonly subchannel: PickTarget;
  /** The connection that the attempt used. If the endpoint has another connection by now, it deserves another try. */
  readonly handle: C;
}

/**
 * The endpoints on which one call was tried. Created at the call's first failure. Pass `avoid` to `pick` or `acquire` for the next attempt
 * and then check `allows`, because an avoided endpoint is still picked if no other can take the call.
 */
export class TriedEndpoints<C> {
  readonly #tried = new Set<PickTarget>();
  /** Endpoints to which no connection could be opened, each with the handle of its failed connection. */
  readonly #refusing = new Map<PickTarget, C>();
  /** Endpoints that refused the call once without processing it. */
  readonly #refused = new Set<PickTarget>();
  /** Endpoints that responded to the call or let it time out. An attempt there again would be no retry on another endpoint. */
  readonly #processed = new Set<PickTarget>();

  /** The endpoints on which this call failed, for `avoid` of the next pick. */
  get avoid(): ReadonlySet<PickTarget> {
    return this.#tried;
  }

  /** Records on which endpoint an attempt was made and how it ended. Call it once per attempt, before the next pick. */
  add({ subchannel, handle }: TriedAttempt<C>, outcome: Outcome): void {
    this.#tried.add(subchannel);
    if (outcome.cause === 'connect') this.#refusing.set(subchannel, handle);
    else this.#refusing.delete(subchannel);
    const failedItself = outcome.kind === 'failure' && outcome.cause !== 'reset' && outcome.cause !== 'connect';
    if (failedItself || outcome.kind === 'success') this.#processed.add(subchannel);
  }

  /**
   * Records that the endpoint of an attempt, which was added before, refused it even over another HTTP/2 connection. Such an endpoint gets
   * the call only once more, and only if there is no other, because each refusal costs connections.
   */
  refused({ subchannel }: TriedAttempt<C>): void {
    if (this.#refused.has(subchannel)) this.#processed.add(subchannel);
    else this.#refused.add(subchannel);
  }

  /**
   * Whether the call may be tried on this endpoint. Not if the endpoint itself failed the call, and not if no connection to it could be
   * opened, because that would fail again at once. If a reused connection was lost, or the endpoint has a new connection, it deserves
   * another try.
   */
  allows({ subchannel, handle }: TriedAttempt<C>): boolean {
    if (this.#processed.has(subchannel)) return false;
    return this.#refusing.get(subchannel) !== handle || !this.#refusing.has(subchannel);
  }
}
