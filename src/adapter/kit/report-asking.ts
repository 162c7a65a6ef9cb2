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
  /** How many requests still pass without asking. Each counts itself down; the one that makes it negative asks, and calls `asked`. */
  passing = 0;
  #left = AT_FIRST;

  /** A request asks. */
  asked(): void {
    if (this.#left > 0) this.#left--;
    this.passing = this.#left > 0 ? 0 : ONE_IN - 1;
  }

  /** A pod reported. */
  heard(): void {
    this.#left = AFTER_REPORT;
    this.passing = 0;
  }
}
