import type { WaitingRoom } from '../call/waiting-room.js';
import type { Pool } from '../pool/pool.js';
import type { Subchannel } from '../pool/subchannel.js';

/**
 * Decides which endpoints get the first calls after a start. Otherwise all first calls would go to the endpoint that happens to connect
 * first.
 */
export class FirstCalls<C> {
  readonly #pool: Pool<C>;
  readonly #room: WaitingRoom<C>;
  /**
   * How many picks found nothing while nothing was connected. Adapters such as the one for gRPC have their callers wait outside the
   * balancer, so missed picks tell how many wait.
   */
  #missed = 0;

  constructor(pool: Pool<C>, room: WaitingRoom<C>) {
    this.#pool = pool;
    this.#room = room;
  }

  /** A pick found no endpoint because nothing is connected. */
  missed(): void {
    this.#missed++;
  }

  /** A caller whose pick was counted by `missed` waits in the waiting room from now on, where it is counted too. */
  joined(): void {
    if (this.#missed > 0) this.#missed--;
  }

  /** An endpoint is connected, so missed picks no longer tell how many callers wait. */
  served(): void {
    this.#missed = 0;
  }

  /** The subchannels that get the next calls; empty = the picker may choose among all. */
  only(): readonly Subchannel<C>[] {
    const { first } = this.#pool;
    const { waiting } = first;
    // Once all endpoints are connected, any of them may get the next call. But if one of the two endpoints drawn for the first calls has
    // had a call, the other gets the next: a picker over all would choose the same endpoint after it in every client.
    if (this.#callers === 0 && !this.#isOpening() && !first.isHalfServed) {
      first.end();
      return [];
    }
    return waiting.every(({ state }) => state === 'ready') ? waiting : [];
  }

  /**
   * Whether all waiting callers would go to the endpoints that are ready already, because the endpoints drawn for the first calls are still
   * connecting.
   */
  get isConnectingFirst(): boolean {
    const { first } = this.#pool;
    if (!this.#pool.hasReady) return false;
    if (first.waiting.some(({ state }) => state !== 'ready')) return true;
    return this.#callers > 1 && this.#isOpening();
  }

  /** How many callers are waiting: in the waiting room, or in an adapter whose callers wait outside the balancer. */
  get #callers(): number {
    return Math.max(this.#room.size, this.#missed);
  }

  #isOpening(): boolean {
    return this.#pool.members.some(({ subchannel, weight }) => weight > 0 && subchannel.state === 'connecting');
  }
}
