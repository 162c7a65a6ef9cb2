import type { Clock, Timer } from '../runtime/clock.js';
import type { Complete } from '../runtime/complete.js';
import { jittered, type Rng } from '../runtime/rng.js';
import type { RebalanceOptions } from './placing-options.js';

/** One endpoint among those over which connections are spread. */
export interface Share {
  readonly key: string;
  /** The weight of the endpoint; above 0. */
  readonly weight: number;
  /** The endpoint's connections that are not leaving. */
  readonly connections: number;
}

/**
 * The endpoint that should lose a connection: it has the most per weight, more than `maxToMean` times the mean, and would not be the
 * emptiest afterwards. Undefined if connections are even enough. `total` includes connections that are being moved.
 */
export function aboveItsShare(shares: readonly Share[], maxToMean: number, total: number): Share | undefined {
  let most: Share | undefined;
  let least: Share | undefined;
  let weights = 0;
  for (const share of shares) {
    weights += share.weight;
    if (most === undefined || share.connections / share.weight > most.connections / most.weight) most = share;
    // The connections per weight that this endpoint would have with one more.
    const filled = (share.connections + 1) / share.weight;
    if (least === undefined || filled < (least.connections + 1) / least.weight) least = share;
  }
  if (most === undefined || least === undefined || most === least) return undefined;
  if (most.connections / most.weight <= (maxToMean * total) / weights) return undefined;
  return most.connections / most.weight > (least.connections + 1) / least.weight ? most : undefined;
}

/** The parts of `Rebalancing`. */
export interface RebalancingParts {
  readonly clock: Clock;
  readonly rng: Rng;
  readonly options: Complete<RebalanceOptions>;
  /** How many connections there are, those that are leaving included. */
  readonly total: () => number;
  /** The endpoints that can have connections; undefined while nothing should be moved. */
  readonly shares: () => readonly Share[] | undefined;
  /** Makes one connection leave the endpoint with this key. */
  readonly move: (key: string) => void;
}

/** The minimum time between two turns of moving connections, in ms. At high rates a turn moves several connections. */
const MIN_PAUSE_MS = 100;
/** Milliseconds between two checks whether connections are even. */
const CHECK_MS = 5_000;

/** Moves connections of endpoints with more than their share, one by one, at the rate of its options. */
export class Rebalancing {
  readonly #parts: RebalancingParts;
  #timer: Timer | undefined;
  #wasEven = true;
  /** How many connections there were when they were last even. A connection that was moved may take some time to return. */
  #toShare = 0;

  constructor(parts: RebalancingParts) {
    this.#parts = parts;
  }

  /** There are connections from now on, so the checks whether they are even begin. */
  begin(): void {
    if (this.#timer === undefined) this.#schedule();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** Milliseconds between two moves of a connection. */
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
      // A short imbalance is ignored: while a set changes, connections that arrive even it out.
      if (wasEven) break;
      move(share.key);
    }
    this.#schedule();
  }
}
