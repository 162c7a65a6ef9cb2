import type { Clock, Rng, Timer } from '../../../index.js';
import { drawIndex } from '../../kit/index.js';

/** How long the first nodes wait for each other, in ms. */
const COLLECT_MS = 200;
/** The share of an attempt's time that may be spent waiting, so that the attempt does not time out. */
const ATTEMPT_RATIO = 0.9;

/**
 * Adds the first nodes of a cluster together, in random order: mysql2 starts with the node that was added first, so the first query
 * of every process would go to the server that answers log-ins fastest.
 */
export class FirstNodes {
  readonly #clock: Clock;
  readonly #rng: Rng;
  readonly #attemptMs: number;
  /** Log-ins under way. */
  #logins = 0;
  #held: (() => void)[] = [];
  #timer: Timer | undefined;

  /** @param attemptMs How long one attempt may take. */
  constructor(clock: Clock, rng: Rng, attemptMs: number) {
    this.#clock = clock;
    this.#rng = rng;
    this.#attemptMs = attemptMs;
  }

  /** Settles as the log-in does; ask for its `turn` next. */
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

  /** Resolves when a node may be added whose attempt began at `beganMs` and whose log-in is done. */
  turn(beganMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#held.push(resolve);
      const leftMs = beganMs + this.#attemptMs * ATTEMPT_RATIO - this.#clock.now();
      // Later in this turn, so that the last node takes part in the draw.
      if (this.#logins === 0 || leftMs <= 0) this.#clock.defer(() => this.#release());
      else this.#timer ??= this.#clock.timer(() => this.#release(), Math.min(COLLECT_MS, leftMs));
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
