import { backoffDelay } from '../runtime/backoff.js';
import type { Timer } from '../runtime/clock.js';
import type { PoolContext } from './pool-options.js';

/**
 * A connection that ended sooner than this, in ms, without a successful call was useless; reconnecting at once could become a hot loop.
 */
const MIN_USEFUL_LIFE_MS = 1_000;
/**
 * Used in place of `MIN_USEFUL_LIFE_MS` for a connection whose server asked for its end, in ms. Such a server has a short maximum age for
 * connections. If server or client is busy, no call may have been answered in that time; a pause would then leave the endpoint unused for
 * several such ages.
 */
const MIN_ASKED_LIFE_MS = 50;

/**
 * How an open connection ended. `leaving`: the server asked for its end and lets calls finish (GOAWAY, maximum age). `closed`: without an
 * error. `failed`: with an error.
 */
export type EndOfConnection = 'leaving' | 'closed' | 'failed';

/** What the end of a connection means for opening the next one. */
export interface EndedLife {
  /** How long the connection was open, in ms. */
  readonly livedMs: number;
  /** Whether the next connection may be opened at once. */
  readonly atOnce: boolean;
}

/** Decides when a subchannel reconnects: at once, or after a pause that grows with each failure in a row. */
export class Reconnect {
  readonly #pool: PoolContext;
  readonly #due: () => void;
  #connectedAtMs = 0;
  /** How many connections failed since the last useful one. It is the exponent of the growing pause. */
  #failures = 0;
  #timer: Timer | undefined;

  constructor(pool: PoolContext, due: () => void) {
    this.#pool = pool;
    this.#due = due;
  }

  /** How many times in a row connecting failed recently, or a connection ended too soon to be useful. */
  get failures(): number {
    return this.#failures;
  }

  connected(): void {
    this.#connectedAtMs = this.#pool.clock.now();
  }

  /**
   * Called when the subchannel's connection ended. A connection that lived longer than the longest pause resets the failures. So does one
   * that was useful until its server asked for its end, because servers with a short maximum age work in this way.
   *
   * @param succeeded Whether a call succeeded on the connection.
   */
  ended(how: EndOfConnection, succeeded: boolean): EndedLife {
    const { clock, options } = this.#pool;
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

  /** Starts the pause before the next attempt to connect. At its end, the owner's `due` is called. */
  pause(): void {
    const { clock, rng, options } = this.#pool;
    const { reconnectInitialMs: initialMs, reconnectMaxMs: maxMs } = options;
    const pauseMs = backoffDelay({ initialMs, maxMs, factor: 1.6, jitterRatio: 0.2 }, this.#failures, rng);
    this.#timer = clock.timer(this.#due, pauseMs);
  }

  stop(): void {
    this.#timer?.cancel();
  }
}
