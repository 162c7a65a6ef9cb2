/** What became of the calls of a stretch of time. */
export class Tally {
  /** When it began, on the world's clock. */
  readonly startMs: number;
  #latencies = new Float64Array(4_096);
  #count = 0;
  #sorted = true;
  /** When failed calls began. */
  readonly failures: number[] = [];
  /** Questions to servers apart from calls. */
  probes = 0;
  /** Calls that a server has and that have not ended. */
  running = 0;
  /** Calls begun per server, and failed per server. */
  readonly perServer: Map<string, number> = new Map();
  readonly failedPerServer: Map<string, number> = new Map();

  constructor(startMs: number) {
    this.startMs = startMs;
  }

  began(address: string): void {
    this.running++;
    this.perServer.set(address, (this.perServer.get(address) ?? 0) + 1);
  }

  ended(address: string, beganMs: number, endedMs: number, ok: boolean): void {
    this.running--;
    if (!ok) {
      this.failures.push(beganMs);
      this.failedPerServer.set(address, (this.failedPerServer.get(address) ?? 0) + 1);
      return;
    }
    if (this.#count === this.#latencies.length) {
      const larger = new Float64Array(this.#count * 2);
      larger.set(this.#latencies);
      this.#latencies = larger;
    }
    this.#latencies[this.#count++] = endedMs - beganMs;
    this.#sorted = false;
  }

  /** No endpoint could take it. */
  refused(beganMs: number): void {
    this.failures.push(beganMs);
  }

  /** Calls that have ended. */
  get calls(): number {
    return this.#count + this.failures.length;
  }

  get successRatio(): number {
    return this.#count / this.calls;
  }

  /** Mean latency of successes, in ms. */
  get meanMs(): number {
    let sum = 0;
    for (let index = 0; index < this.#count; index++) sum += this.#latencies[index] as number;
    return sum / this.#count;
  }

  /** The latency below which `share` of the successes lie, in ms. */
  quantileMs(share: number): number {
    if (!this.#sorted) {
      this.#latencies.subarray(0, this.#count).sort();
      this.#sorted = true;
    }
    return this.#latencies[Math.min(this.#count - 1, Math.floor(this.#count * share))] as number;
  }

  /** Calls of the busiest server against the mean. */
  maxOverMean(servers: number): number {
    let total = 0;
    let most = 0;
    for (const calls of this.perServer.values()) {
      total += calls;
      most = Math.max(most, calls);
    }
    return (most * servers) / total;
  }
}
