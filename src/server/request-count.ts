/** The requests of this process: how many are in flight now, and totals of started and failed ones. */
export class RequestCount {
  inFlight = 0;
  /** Requests started. */
  begun = 0;
  /** Ended requests that failed on our side: 5xx, or the like. */
  failed = 0;

  began(): void {
    this.inFlight++;
    this.begun++;
  }

  ended(failed: boolean): void {
    this.inFlight--;
    if (failed) this.failed++;
  }
}
