import { backoffDelay } from '../runtime/backoff.js';
import type { Clock, Timer } from '../runtime/clock.js';
import type { Rng } from '../runtime/rng.js';
import type { ResolvedPoolOptions } from './pool-options.js';

/**
 * A connection that ended sooner than this without a successful call was useless: reconnecting immediately would be a hot loop.
 * In ms.
 */
const MIN_USEFUL_LIFE_MS = 1_000;
/**
 * What replaces `MIN_USEFUL_LIFE_MS` where the other side asked for the end of the connection: a server with a short maximum age. A busy
 * server, or one with a busy client, may well have answered no call in that time; to pause would then leave the endpoint unused for several
 * such ages. In ms.
 */
const MIN_ASKED_LIFE_MS = 50;

/** What `Reconnect` needs from its subchannel. */
export interface ReconnectOwner {
  readonly clock: Clock;
  readonly rng: Rng;
  readonly options: ResolvedPoolOptions;
}

/**
 * How an open connection ended: the other side asked for its end and lets its calls finish (GOAWAY, maximum age), or it was
 * closed without or with an error.
 */
export type EndOfConnection = 'leaving' | 'closed' | 'failed';

/** What the end of a connection means for the next one. */
export interface EndedLife {
  /** How long the connection lived, in ms. */
  readonly livedMs: number;
  /** Whether another connection may be opened immediately. */
  readonly atOnce: boolean;
}

/** Decides when a subchannel reconnects: immediately, or after a pause that grows with consecutive failures. */
export class Reconnect {
  readonly #owner: ReconnectOwner;
  readonly #due: () => void;
  #connectedAtMs = 0;
  /** Failed connections since the last useful one; the exponent of the backoff between attempts to connect. */
  #failures = 0;
  #timer: Timer | undefined;

  constructor(owner: ReconnectOwner, due: () => void) {
    this.#owner = owner;
    this.#due = due;
  }

  /** Recent consecutive failures to connect, or to stay connected usefully. */
  get failures(): number {
    return this.#failures;
  }

  connected(): void {
    this.#connectedAtMs = this.#owner.clock.now();
  }

  /**
   * The subchannel's connection ended. One that lived longer than the longest pause resets the failures. So does a connection that was
   * useful until the other side asked for its end: that is how a server with a short maximum age works.
   *
   * @param succeeded Whether a call succeeded on the connection.
   */
  ended(how: EndOfConnection, succeeded: boolean): EndedLife {
    const { clock, options } = this.#owner;
    const { reconnectInitialMs, reconnectMaxMs } = options;
    const livedMs = clock.now() - this.#connectedAtMs;
    const minLifeMs = how === 'leaving' ? Math.min(reconnectInitialMs, MIN_ASKED_LIFE_MS) : MIN_USEFUL_LIFE_MS;
    const atOnce = how !== 'failed' && (succeeded || livedMs >= minLifeMs);
    if (livedMs >= Math.max(MIN_USEFUL_LIFE_MS, reconnectMaxMs) || (atOnce && how === 'leaving')) this.#failures = 0;
    return { livedMs, atOnce };
  }

  failed(): void {
    this.#failures++;
  }

  /** Calls the owner's `due` after the pause before the next attempt to connect. */
  pause(): void {
    const { clock, rng, options } = this.#owner;
    const { reconnectInitialMs: initialMs, reconnectMaxMs: maxMs } = options;
    const pauseMs = backoffDelay({ initialMs, maxMs, factor: 1.6, jitterRatio: 0.2 }, this.#failures, rng);
    this.#timer = clock.timer(this.#due, pauseMs);
  }

  stop(): void {
    this.#timer?.cancel();
  }
}
