import type { Clock, Timer } from '../runtime/clock.js';
import type { Complete } from '../runtime/complete.js';
import { jittered, type Rng } from '../runtime/rng.js';
import type { RebalanceOptions } from './placing-options.js';

/** One of the endpoints over which connections are spread. */
export interface Share {
  readonly key: string;
  /** The weight of the endpoint; above 0. */
  readonly weight: number;
  /** How many of the endpoint's connections are not leaving. */
  readonly connections: number;
}

/**
 * Finds the endpoint that should lose a connection: it has the most connections per weight, more than `maxToMean` times the mean, and would
 * not be the emptiest afterwards. Returns undefined if connections are spread evenly enough. `total` includes connections that are being
 * moved.
 */
function aboveItsShare(shares: readonly Share[], maxToMean: number, total: number): Share | undefined {
  let most: Share | undefined;
  let least: Share | undefined;
  let weights = 0;
  for (const share of shares) {
    weights += share.weight;
    if (most === undefined || share.connections / share.weight > most.connections / most.weight) most = share;
    // How many connections per weight this endpoint would have with one more.
    const filled = (share.connections + 1) / share.weight;
    if (least === undefined || filled < (least.connections + 1) / least.weight) least = share;
  }
  if (most === undefined || least === undefined || most === least) return undefined;
  if (most.connections / most.weight <= (maxToMean * total) / weights) return undefined;
  return most.connections / most.weight > (least.connections + 1) / least.weight ? most : undefined;
}

/** What `Rebalancing` needs. */
export interface RebalancingParts {
  readonly clock: Clock;
  readonly rng: Rng;
  readonly options: Complete<RebalanceOptions>;
  /** Returns how many connections there are, including those that are leaving. */
  readonly total: () => number;
  /** Returns the endpoints that can have connections; undefined while no connection should be moved. */
  readonly shares: () => readonly Share[] | undefined;
  /** Makes one connection leave the endpoint with this key. */
  readonly move: (key: string) => void;
}

/** The shortest time between two rounds of moving connections, in ms. At high rates, a round moves several connections. */
const MIN_PAUSE_MS = 100;
/** How often it is checked whether connections are spread evenly, in ms. */
const CHECK_MS = 5_000;

/** Moves connections from endpoints that have more than their share, one by one, at the rate that the options set. */
export class Rebalancing {
  readonly #parts: RebalancingParts;
  #timer: Timer | undefined;
  #wasEven = true;
  /**
   * How many connections there were when they were last spread evenly. It stands for the total while connections are moved, because a moved
   * connection may take some time to come back.
   */
  #toShare = 0;

  constructor(parts: RebalancingParts) {
    this.#parts = parts;
  }

  /** There are connections from now on, so the regular checks begin. */
  begin(): void {
    if (this.#timer === undefined) this.#schedule();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** The time between two moves of a connection, in ms, at the rate that the options set. */
  get #pauseMs(): number {
    const { options, total } = this.#parts;
    return 60_000 / (options.ratioPerMinute * total());
  }

  #schedule(): void {
    const { clock, rng } = this.#parts;
    const pauseMs = this.#wasEven ? CHECK_MS : Math.max(this.#pauseMs, MIN_PAUSE_MS);
    this.#timer = clock.timer(() => this.#turn(), Math.min(jittered(rng, pauseMs, 0.5), 2 ** 31 - 1));
  }

  #turn(): void {
    const { total, shares, move, options } = this.#parts;
    this.#timer = undefined;
    if (total() === 0) return;
    const wasEven = this.#wasEven;
    this.#wasEven = true;
    this.#toShare = wasEven ? total() : Math.max(this.#toShare, total());
    for (let left = Math.max(1, Math.round(MIN_PAUSE_MS / this.#pauseMs)); left > 0; left--) {
      const found = shares();
      const share = found && aboveItsShare(found, options.maxToMean, this.#toShare);
      if (share === undefined) break;
      this.#wasEven = false;
      // A short imbalance is ignored, because while a set changes, arriving connections often even it out.
      if (wasEven) break;
      move(share.key);
    }
    this.#schedule();
  }
}
