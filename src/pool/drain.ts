import { setMaxListeners } from 'node:events';
import type { Endpoint } from '../endpoint/endpoint.js';
import type { Timer } from '../runtime/clock.js';
import type { PoolContext } from './pool-options.js';

/** An idle endpoint that left the set is kept for at most this long in case it returns, even if the drain timeout is longer. In ms. */
const RETURN_WITHIN_MS = 30_000;

/** The two time limits of a draining endpoint: until when it may return to the set, and until when its calls may finish. */
export class DrainLimits {
  readonly #pool: PoolContext;
  readonly #notReturned: () => void;
  readonly #timedOut: () => void;
  #timer: Timer | undefined;

  /**
   * @param notReturned Called when the endpoint has not returned in time: from now on it may close once it is idle.
   * @param timedOut Called when calls have not finished in time: those still running are cut. Called after `notReturned`.
   */
  constructor(pool: PoolContext, notReturned: () => void, timedOut: () => void) {
    this.#pool = pool;
    this.#notReturned = notReturned;
    this.#timedOut = timedOut;
  }

  start(): void {
    const { clock, options } = this.#pool;
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

/** The reason of the signal `lease.leaving`: says which endpoint leaves, and until when calls may stay on it. */
export interface Leaving {
  /** The endpoint that leaves. */
  readonly endpoint: Endpoint;
  /**
   * Until when calls may stay, in ms on the balancer's clock (`performance.now()` by default). Calls that still run then are cut. Infinity
   * = no limit.
   */
  readonly untilMs: number;
}

/** The signal that tells calls that their endpoint leaves. It is created when it is first read, because most calls never read it. */
export class LeaveNotice {
  #controller: AbortController | undefined;
  #leaving: Leaving | undefined;

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      // All calls on the endpoint may listen to this one signal, so Node must not warn about many listeners.
      setMaxListeners(0, this.#controller.signal);
      if (this.#leaving !== undefined) this.#controller.abort(this.#leaving);
    }
    return this.#controller.signal;
  }

  give(leaving: Leaving): void {
    this.#leaving = leaving;
    this.#controller?.abort(leaving);
  }

  /** The endpoint does not leave after all. Calls that start from now on get a new signal. */
  withdraw(): void {
    if (this.#leaving === undefined) return;
    this.#leaving = undefined;
    this.#controller = undefined;
  }
}
