import type { WaitingRoom } from '../call/waiting-room.js';
import { hasShare } from '../pool/dial-order.js';
import type { Member, Pool } from '../pool/pool.js';
import type { Subchannel } from '../pool/subchannel.js';
import type { Clock } from '../runtime/clock.js';

/** How many endpoints are drawn for the first calls after a start. The first call goes to one of them, the second call to the other. */
const DRAWN = 2;
/** How long the first callers wait for a second connection, in ms. */
const WAIT_MS = 20;

/**
 * Decides which endpoints get the first calls after a start, when nothing was connected before: the first two of the order in which they are
 * dialed, which is drawn at random. Otherwise every new client would begin with the endpoint that connects first, the nearest or idlest.
 */
export class FirstCalls<C> {
  readonly #pool: Pool<C>;
  readonly #room: WaitingRoom<C>;
  readonly #clock: Clock;
  /** The endpoints that may get the first calls. The first of the drawn order is at the end, where removing it moves no others. */
  #order: Subchannel<C>[] = [];
  /** How many picks found nothing while nothing was connected. Callers of `pick` wait elsewhere, so missed picks tell how many wait. */
  #missed = 0;
  /** Until when the first callers wait for a second connection, in ms on the balancer's clock; undefined if they do not wait. */
  #waitUntilMs: number | undefined;

  constructor(pool: Pool<C>, room: WaitingRoom<C>, clock: Clock) {
    this.#pool = pool;
    this.#room = room;
    this.#clock = clock;
  }

  /** These endpoints are dialed in this order while nothing is connected. They come after those of earlier calls. */
  began(newcomers: readonly Member<C>[]): void {
    const order = newcomers.filter(({ weight }) => hasShare(weight)).map(({ subchannel }) => subchannel);
    if (order.length > 0) this.#order = [...order.reverse(), ...this.#order];
  }

  /** A pick found no endpoint because nothing is connected. */
  missed(): void {
    this.#missed++;
  }

  /** A caller whose pick was counted by `missed` waits in the waiting room from now on, where it is counted too. */
  joined(): void {
    if (this.#missed > 0) this.#missed--;
  }

  /** Callers get endpoints now, so none waits for a second connection, and missed picks no longer tell how many callers wait. */
  served(): void {
    this.#missed = 0;
    this.#waitUntilMs = undefined;
  }

  /** The subchannels that get the next calls, one each; empty = the picker may choose among all. */
  only(): readonly Subchannel<C>[] {
    const drawn = this.#drawn();
    const waiting = drawn.filter(hadNoCall);
    // Once all endpoints are connected, any of them may get the next call. But if one of the two endpoints drawn for the first calls has
    // had a call, the other gets the next: a picker over all would choose the same endpoint after it in every client.
    const isHalfServed = waiting.length > 0 && waiting.length < drawn.length;
    if (this.#callers === 0 && !this.#isOpening && !isHalfServed) {
      this.#order = [];
      return [];
    }
    if (!waiting.every(({ state }) => state === 'ready')) return [];
    // Since these endpoints were drawn, a stage may have put them on standby.
    return waiting.filter((one) =>
      this.#pool.members.some((member) => member.subchannel === one && hasShare(member.weight)),
    );
  }

  /** Whether the first callers wait for a second connection. */
  get isWaiting(): boolean {
    return this.#waitUntilMs !== undefined;
  }

  /** How long the first picker with something to pick must still wait, in ms; 0 = it need not wait. Starts the wait. */
  waitMs(): number {
    if (!this.#isConnecting) {
      this.#waitUntilMs = undefined;
      return 0;
    }
    const nowMs = this.#clock.now();
    this.#waitUntilMs ??= nowMs + WAIT_MS;
    return Math.max(0, this.#waitUntilMs - nowMs);
  }

  /**
   * Whether all waiting callers would go to the endpoints that are ready already, because the endpoints drawn for the first calls are still
   * connecting.
   */
  get #isConnecting(): boolean {
    if (!this.#pool.hasReady) return false;
    if (this.#drawn().some((one) => hadNoCall(one) && one.state !== 'ready')) return true;
    return this.#callers > 1 && this.#isOpening;
  }

  /** The endpoints drawn for the first calls: the first of the order that do not fail. */
  #drawn(): readonly Subchannel<C>[] {
    const order = this.#order;
    const drawn: Subchannel<C>[] = [];
    for (let index = order.length - 1; index >= 0 && drawn.length < DRAWN; index--) {
      const subchannel = order[index] as Subchannel<C>;
      if (mayConnect(subchannel)) drawn.push(subchannel);
      else order.splice(index, 1);
    }
    return drawn;
  }

  /** How many callers are waiting, in the waiting room or elsewhere. */
  get #callers(): number {
    return Math.max(this.#room.size, this.#missed);
  }

  get #isOpening(): boolean {
    return this.#pool.members.some(({ subchannel, weight }) => weight > 0 && subchannel.state === 'connecting');
  }
}

function hadNoCall({ started }: Subchannel<unknown>): boolean {
  return started === 0;
}

function mayConnect({ state }: Subchannel<unknown>): boolean {
  return state === 'idle' || state === 'connecting' || state === 'ready';
}
