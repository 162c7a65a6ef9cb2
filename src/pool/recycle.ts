import { endpointConnectionAgeMs } from '../endpoint/connection-age.js';
import type { Endpoint } from '../endpoint/endpoint.js';
import type { Clock, Timer } from '../runtime/clock.js';
import { jittered, type Rng } from '../runtime/rng.js';
import type { ResolvedPoolOptions } from './pool-options.js';

/** Random variation of ages, so that the connections of a rollout do not all end together. */
const AGE_JITTER_RATIO = 0.5;

/** What it takes. */
export interface RecycleOwner {
  readonly clock: Clock;
  readonly rng: Rng;
  readonly options: ResolvedPoolOptions;
}

/** Reports when a connection has reached its maximum age. The age continues while it is stopped. */
export class Recycle {
  readonly #owner: RecycleOwner;
  readonly #due: () => void;
  #expiresAtMs = Number.POSITIVE_INFINITY;
  #timer: Timer | undefined;

  constructor(owner: RecycleOwner, due: () => void) {
    this.#owner = owner;
    this.#due = due;
  }

  /** A new connection, or a new lifetime for the existing one. */
  renew(endpoint: Endpoint): void {
    const { clock, rng, options } = this.#owner;
    const ownAgeMs = endpoint.attributes.get(endpointConnectionAgeMs) ?? Number.POSITIVE_INFINITY;
    const ageMs = Math.min(options.maxConnectionAgeMs, ownAgeMs);
    this.#expiresAtMs = clock.now() + jittered(rng, ageMs, AGE_JITTER_RATIO);
    this.resume();
  }

  /** Continues after `stop`, with the same connection. */
  resume(): void {
    this.stop();
    if (this.#expiresAtMs === Number.POSITIVE_INFINITY) return;
    const { clock } = this.#owner;
    this.#timer = clock.timer(this.#due, Math.max(0, this.#expiresAtMs - clock.now()));
  }

  stop(): void {
    this.#timer?.cancel();
  }
}
