/** The requests of this process: how many are in flight now, and totals of started and failed ones. */
export class RequestCount {
  inFlight = 0;
  /** How many requests were started in this process. */
  begun = 0;
  /** How many requests ended with a failure on our side: 5xx, or the like. */
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
