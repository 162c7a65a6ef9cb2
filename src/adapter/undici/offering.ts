import type { LoadReport } from '../../index.js';
import { formatOffer, requestsInFlight } from '../kit/index.js';

/** How many pods may refuse one request. */
export const MOST_REFUSALS = 2;
/** How much one load report changes the mean of the requests in flight, as a share. */
const STEP = 0.05;

/** What the requests of a dispatcher offer to pods that may be busier than others. */
export class Offering {
  /** The mean of the requests in flight that pods reported. */
  #mean: number | undefined;

  /** A pod reported how many requests it has in flight. */
  reported(report: LoadReport): void {
    const inFlight = requestsInFlight(report);
    if (inFlight === undefined) return;
    this.#mean = this.#mean === undefined ? inFlight : this.#mean + (inFlight - this.#mean) * STEP;
  }

  /** The header of a request that `left` pods may refuse; undefined while nothing is known about the pods. */
  header(left: number): string | undefined {
    // A report counts the request that it came with.
    return this.#mean === undefined ? undefined : formatOffer({ left, typical: Math.max(0, this.#mean - 1) });
  }
}
