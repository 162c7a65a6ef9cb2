/** So many requests ask at the start, and again after each report. */
const AT_FIRST = 8;
const AFTER_REPORT = 256;
/** Without a report in all of those, one request in so many asks. */
const ONE_IN = 64;

/**
 * Which requests ask pods how busy they are. All of them while pods say it; where none does, a header that nobody answers would
 * cost each request a few per cent.
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
