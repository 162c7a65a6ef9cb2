import type { WaitingRoom } from '../call/waiting-room.js';
import type { Pool } from '../pool/pool.js';
import type { Subchannel } from '../pool/subchannel.js';

/**
 * Which endpoints get the first calls after a start. Without this class, all first callers would go to the endpoint that happens to connect
 * first.
 */
export class FirstCalls<C> {
  readonly #pool: Pool<C>;
  readonly #room: WaitingRoom<C>;
  /** Picks that found nothing while nothing was connected: their callers may wait outside the balancer, as in gRPC. */
  #missed = 0;

  constructor(pool: Pool<C>, room: WaitingRoom<C>) {
    this.#pool = pool;
    this.#room = room;
  }

  /** A pick found nothing, because nothing is connected. */
  missed(): void {
    this.#missed++;
  }

  /** A caller whose pick may have counted as missed waits in the waiting room from now on. */
  joined(): void {
    if (this.#missed > 0) this.#missed--;
  }

  /** Something is connected: missed picks no longer count. */
  served(): void {
    this.#missed = 0;
  }

  /** The subchannels that get the next calls, if the picker may not choose among all. */
  only(): readonly Subchannel<C>[] {
    const { first } = this.#pool;
    const { waiting } = first;
    // Once all endpoints are connected, callers may get any of them. But if one of the two drawn endpoints has had a call, the other gets
    // the next one: a picker over all would continue from the first in the same way in every client.
    if (this.#callers === 0 && !this.#isOpening() && !first.isHalfServed) {
      first.end();
      return [];
    }
    return waiting.every(({ state }) => state === 'ready') ? waiting : [];
  }

  /** Whether all waiting callers would go to the endpoints that are already ready, while the drawn ones still connect. */
  get isConnectingFirst(): boolean {
    const { first } = this.#pool;
    if (!this.#pool.hasReady) return false;
    if (first.waiting.some(({ state }) => state !== 'ready')) return true;
    return this.#callers > 1 && this.#isOpening();
  }

  /** How many callers are waiting, in the waiting room or in an adapter that keeps its own. */
  get #callers(): number {
    return Math.max(this.#room.size, this.#missed);
  }

  #isOpening(): boolean {
    return this.#pool.members.some(({ subchannel, weight }) => weight > 0 && subchannel.state === 'connecting');
  }
}
