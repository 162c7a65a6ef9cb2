import type { Clock, Rng, Timer } from '../../../index.js';
import { drawIndex } from '../../kit/index.js';

/** How long the first nodes wait for one another, in ms. */
const GATHER_MS = 200;
/** Nobody waits so long that the time for an attempt would be over: the share of it that may have passed. */
const ATTEMPT_RATIO = 0.9;

/**
 * The first nodes of a cluster are added together, in an order that is drawn anew by each process: mysql2 begins with the node that
 * was added first, and would send the first query of every process to the server that answers log-ins fastest.
 */
export class FirstNodes {
  readonly #clock: Clock;
  readonly #rng: Rng;
  readonly #attemptMs: number;
  /** Attempts whose log-in is under way. */
  #logins = 0;
  #held: (() => void)[] = [];
  #timer: Timer | undefined;

  /** @param attemptMs How long one attempt may take. */
  constructor(clock: Clock, rng: Rng, attemptMs: number) {
    this.#clock = clock;
    this.#rng = rng;
    this.#attemptMs = attemptMs;
  }

  /** Resolves as the login does; ask for its `turn` next. */
  async during(logIn: Promise<void>): Promise<void> {
    this.#logins++;
    try {
      await logIn;
      this.#logins--;
    } catch (error) {
      this.#logins--;
      if (this.#logins === 0) this.#release();
      throw error;
    }
  }

  /** Resolves when a node whose attempt began at `beganMs`, and whose log-in is done, may be added. */
  turn(beganMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#held.push(resolve);
      const leftMs = beganMs + this.#attemptMs * ATTEMPT_RATIO - this.#clock.now();
      // Later in this turn, so that the last node is drawn together with the others.
      if (this.#logins === 0 || leftMs <= 0) this.#clock.defer(() => this.#release());
      else this.#timer ??= this.#clock.timer(() => this.#release(), Math.min(GATHER_MS, leftMs));
    });
  }

  #release(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    const held = this.#held;
    this.#held = [];
    while (held.length > 0) {
      const [drawn] = held.splice(drawIndex(this.#rng, held.length), 1);
      drawn?.();
    }
  }
}
