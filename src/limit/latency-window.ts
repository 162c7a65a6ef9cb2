/** The calls of one window, as the adaptive limit measures them: how many there were, how slow they were, and how many ran beside each. */
export class LatencyWindow {
  sinceMs = 0;
  calls = 0;
  /** How many of the calls were answered; the callers of the others gave up. */
  answers = 0;
  /** The sums, over the calls of the window, of the logarithm that `add` gets, and of its square. */
  #sum = 0;
  #squares = 0;
  #inFlight = 0;

  open(nowMs: number): void {
    this.sinceMs = nowMs;
    this.calls = 0;
    this.answers = 0;
    this.#sum = 0;
    this.#squares = 0;
    this.#inFlight = 0;
  }

  /** Adds a call. @param slower The logarithm of its latency, or by how much it was slower than usual. @param inFlight How many calls ran. */
  add(slower: number, inFlight: number): void {
    this.calls++;
    this.#inFlight += inFlight;
    this.#sum += slower;
    this.#squares += slower * slower;
  }

  /** The mean of the logarithms that were added. */
  get slower(): number {
    return this.#sum / this.calls;
  }

  /** The standard error of `slower`. */
  get error(): number {
    const { slower } = this;
    return Math.sqrt(Math.max(0, this.#squares / this.calls - slower * slower) / this.calls);
  }

  /** How many calls were running on average. */
  get inFlight(): number {
    return this.#inFlight / this.calls;
  }
}
