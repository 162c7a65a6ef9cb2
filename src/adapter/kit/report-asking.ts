/** How many requests ask at the start, and again after each report. */
const AT_FIRST = 8;
const AFTER_REPORT = 256;
/** If none of them brings a report, one in this many requests asks. */
const ONE_IN = 64;

/**
 * Decides which requests ask pods for a load report: all of them while pods report. If none does, an unanswered header would cost each
 * request a few percent.
 */
export class ReportAsking {
  #left = AT_FIRST;
  #skipped = 0;

  /** Whether the next request asks. On the path of every request. */
  next(): boolean {
    if (this.#left > 0) {
      this.#left--;
      return true;
    }
    if (++this.#skipped < ONE_IN) return false;
    this.#skipped = 0;
    return true;
  }

  /** A pod reported. */
  heard(): void {
    this.#left = AFTER_REPORT;
  }
}
