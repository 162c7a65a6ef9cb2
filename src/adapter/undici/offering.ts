import type { LoadReport } from '../../index.js';
import { formatOffer, requestsInFlight } from '../kit/index.js';

/** How many pods may refuse one request because other pods have less to do. */
export const MOST_REFUSALS = 2;
/** The weight of one load report in the moving mean of the requests in flight, from 0 to 1. */
const STEP = 0.05;

/** Builds the header by which requests let a busy pod refuse them, from what pods report about their load. */
export class Offering {
  /** The moving mean of the requests in flight that pods reported; undefined before the first report. */
  #mean: number | undefined;

  /** Updates the mean with a pod's report of its requests in flight. */
  reported(report: LoadReport): void {
    const inFlight = requestsInFlight(report);
    if (inFlight === undefined) return;
    this.#mean = this.#mean === undefined ? inFlight : this.#mean + (inFlight - this.#mean) * STEP;
  }

  /** The header of a request that `left` more pods may refuse; undefined before the first load report. */
  header(left: number): string | undefined {
    // A report counts the request whose response brought it, so 1 is subtracted.
    return this.#mean === undefined ? undefined : formatOffer({ left, typical: Math.max(0, this.#mean - 1) });
  }
}
