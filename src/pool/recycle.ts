import { endpointConnectionAgeMs } from '../endpoint/connection-age.js';
import type { Endpoint } from '../endpoint/endpoint.js';
import type { Timer } from '../runtime/clock.js';
import { jittered } from '../runtime/rng.js';
import type { PoolContext } from './pool-options.js';

/**
 * The age at which a connection is replaced varies at random by this share, so that the connections opened in a rollout do not all end
 * together.
 */
const AGE_JITTER_RATIO = 0.5;
/** How long to wait before the next attempt to replace an outdated connection, in ms. */
const RETRY_MS = 10_000;
/**
 * Timers longer than `LONG_MS` are set to whole seconds: Node keeps a list for each different delay until that delay is over, even if all
 * timers in it are cancelled. In ms.
 */
const LONG_MS = 60_000;
const SECOND_MS = 1_000;

/**
 * Says when a connection is to be replaced: at its maximum age, or when it is outdated. The connection also ages while this object is
 * stopped.
 */
export class Recycle {
  readonly #pool: PoolContext;
  readonly #due: () => void;
  #expiresAtMs = Number.POSITIVE_INFINITY;
  #isOutdated = false;
  #timer: Timer | undefined;

  constructor(pool: PoolContext, due: () => void) {
    this.#pool = pool;
    this.#due = due;
  }

  /** The subchannel has a new connection, whose lifetime begins. */
  renew(endpoint: Endpoint): void {
    this.#isOutdated = false;
    this.#giveAge(endpoint);
  }

  /**
   * No replacement could be opened, so the connection stays. If it is outdated, the next attempt to replace it follows soon, otherwise
   * after another lifetime.
   */
  postpone(endpoint: Endpoint): void {
    if (!this.#isOutdated) {
      this.#giveAge(endpoint);
      return;
    }
    const { clock, rng } = this.#pool;
    this.#expiresAtMs = clock.now() + jittered(rng, RETRY_MS, AGE_JITTER_RATIO);
    this.resume();
  }

  /** The connection is outdated, so it is to be replaced now, or when `resume` is called. */
  outdated(): void {
    this.#isOutdated = true;
    this.#expiresAtMs = this.#pool.clock.now();
  }

  #giveAge(endpoint: Endpoint): void {
    const { clock, rng, options } = this.#pool;
    const ownAgeMs = endpoint.attributes.get(endpointConnectionAgeMs) ?? Number.POSITIVE_INFINITY;
    const ageMs = Math.min(options.maxConnectionAgeMs, ownAgeMs);
    this.#expiresAtMs = clock.now() + jittered(rng, ageMs, AGE_JITTER_RATIO);
    this.resume();
  }

  /** Goes on after `stop`, for the connection that was current before. */
  resume(): void {
    this.stop();
    if (this.#expiresAtMs === Number.POSITIVE_INFINITY) return;
    const { clock } = this.#pool;
    const delayMs = Math.max(0, this.#expiresAtMs - clock.now());
    this.#timer = clock.timer(this.#due, delayMs < LONG_MS ? delayMs : Math.round(delayMs / SECOND_MS) * SECOND_MS);
  }

  stop(): void {
    this.#timer?.cancel();
  }
}
