import type { Clock, Timer } from '../runtime/clock.js';
import type { ResolvedPoolOptions } from './pool-options.js';

/** How long an idle endpoint that left the set is kept in case it returns, whatever the drain timeout. In ms. */
const RETURN_WITHIN_MS = 30_000;

/** What it takes. `options.drainTimeoutMs` is for the calls; Infinity = no limit. */
export interface DrainOwner {
  readonly clock: Clock;
  readonly options: ResolvedPoolOptions;
}

/** The two limits of a draining endpoint: the time to come back (T2), and the time to finish its calls (T1). */
export class DrainLimits {
  readonly #owner: DrainOwner;
  readonly #notReturned: () => void;
  readonly #timedOut: () => void;
  #timer: Timer | undefined;

  /**
   * @param notReturned Endpoints that are or become idle may close.
   * @param timedOut Running calls are cut. Called after `notReturned`.
   */
  constructor(owner: DrainOwner, notReturned: () => void, timedOut: () => void) {
    this.#owner = owner;
    this.#notReturned = notReturned;
    this.#timedOut = timedOut;
  }

  start(): void {
    const { clock, options } = this.#owner;
    const returnMs = Math.min(options.drainTimeoutMs, RETURN_WITHIN_MS);
    const restMs = options.drainTimeoutMs - returnMs;
    this.#timer = clock.timer(() => {
      if (restMs > 0 && restMs !== Number.POSITIVE_INFINITY) this.#timer = clock.timer(this.#timedOut, restMs);
      this.#notReturned();
      if (restMs === 0) this.#timedOut();
    }, returnMs);
  }

  stop(): void {
    this.#timer?.cancel();
  }
}
