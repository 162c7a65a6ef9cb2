/** Counts the requests of this process: how many are in flight now, and how many have begun and failed in total. */
export class RequestCount {
  inFlight = 0;
  /** How many requests have begun in this process. */
  begun = 0;
  /** How many requests ended with a failure of the server, such as status 500. */
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
