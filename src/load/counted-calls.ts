import type { LoadReport } from '../endpoint/outcome.js';
import type { CallCosts } from './call-costs.js';
import { OTHERS, OTHERS_AVERAGE, REPORTED_AT } from './latency-cell.js';
import { DEFAULT_CHOICES } from './load.js';
import { lowerMedian } from './median.js';
import { requestsInFlight, requestsWaiting } from './orca.js';

/**
 * A report counts as at most this many times the median, plus this many calls. A server that claims more gets few calls anyway, and must
 * not distort how servers without reports are judged.
 */
const MAX_OF_USUAL = 8;
/** The largest number of calls in flight that any report may count for. */
const MAX_OTHERS = 10_000;
/** The largest number of calls in flight that the first report of a set may count for, because there is nothing to compare it with yet. */
const MAX_AT_FIRST = 16;
/** How far one report moves the average of its endpoint's reports, as a share of the difference. */
const AVERAGE_STEP = 1 / 32;
/** If no report arrives for this long, in ms, servers are treated as ones that do not report. */
const REPORTS_END_MS = 5_000;
/** How many endpoints a pick compares while servers report: reports make it worthwhile to compare more than usual. */
const CHOICES_WITH_REPORTS = 8;

/** Keeps what the servers of a set last reported: how many calls other clients have in flight on each. */
export class CountedCalls {
  /** How many endpoints a pick should compare, as in `Load.choices`. */
  choices: number = DEFAULT_CHOICES;
  readonly #inUse: CallCosts;
  /** The most that a report counts for, in calls. */
  #most = 0;
  #reportedAtMs = 0;
  /** The reports of all endpoints while their median is computed; the array is reused. */
  #values = new Float64Array(16);
  #reports = 0;

  /** @param inUse The costs that picks compute. This object keeps their median and `hasReports` up to date. */
  constructor(inUse: CallCosts) {
    this.#inUse = inUse;
  }

  /** Takes a server's load report, as `Load.reported` does. */
  reported(numbers: Float64Array, at: number, report: LoadReport, inFlight: number, nowMs: number): void {
    const reportedInFlight = requestsInFlight(report);
    // The server's number of requests in flight includes ours, so those are subtracted. Of the requests that wait at a server, it is
    // unknown how many are ours.
    const others = reportedInFlight === undefined ? requestsWaiting(report) : Math.max(0, reportedInFlight - inFlight);
    if (others === undefined) return;
    if (!this.#inUse.hasReports) {
      this.#inUse.hasReports = true;
      this.choices = CHOICES_WITH_REPORTS;
      this.#inUse.usual = Math.min(others, MAX_AT_FIRST);
      this.#most = MAX_OF_USUAL * (this.#inUse.usual + 1);
    }
    const bounded = Math.min(others, this.#most);
    const average = numbers[at + OTHERS] === 0 ? this.#inUse.usual : (numbers[at + OTHERS_AVERAGE] as number);
    numbers[at + OTHERS_AVERAGE] = average + (bounded - average) * AVERAGE_STEP;
    numbers[at + OTHERS] = bounded + 1;
    numbers[at + REPORTED_AT] = nowMs;
    this.#reportedAtMs = nowMs;
  }

  /**
   * Starts a new median of the reports. Then `survey` is called for each endpoint, which thus counts once however often it reports, and
   * `surveyed` at the end. Returns false if there are no reports; then neither is called.
   */
  surveying(nowMs: number): boolean {
    if (this.#inUse.hasReports && nowMs - this.#reportedAtMs > REPORTS_END_MS) {
      this.#inUse.hasReports = false;
      this.choices = DEFAULT_CHOICES;
    }
    this.#reports = 0;
    return this.#inUse.hasReports;
  }

  survey(numbers: Float64Array, at: number, nowMs: number): void {
    const others = numbers[at + OTHERS] as number;
    if (others === 0 || nowMs - (numbers[at + REPORTED_AT] as number) > REPORTS_END_MS) return;
    if (this.#reports === this.#values.length) {
      const values = new Float64Array(2 * this.#reports);
      values.set(this.#values);
      this.#values = values;
    }
    this.#values[this.#reports++] = others - 1;
  }

  surveyed(): void {
    if (this.#reports === 0) return;
    this.#inUse.usual = lowerMedian(this.#values, this.#reports);
    this.#most = Math.min(MAX_OF_USUAL * (this.#inUse.usual + 1), MAX_OTHERS);
  }
}
