/** The requests of this process: how many are in flight now, and how many came and failed so far. */
export class RequestCount {
  inFlight = 0;
  /** Requests begun. */
  begun = 0;
  /** Of those that ended, the ones that failed on our side: 5xx, or the like. */
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
