/** How many buckets the latency histogram has for each doubling of the latency. */
const STEPS_PER_DOUBLING = 4;
const BUCKETS = 32 * STEPS_PER_DOUBLING;
/** The latency histogram counts latencies in eighths of a millisecond. */
const UNITS_PER_MS = 8;
/** When this many samples were counted, below `quickMs` or above, all counts are halved, so that old latencies fade. */
const FADES_AFTER = 16_384;

/** A coarse histogram of latencies that forgets old ones. Adding a sample takes a few nanoseconds and allocates nothing. */
export class LatencyQuantile {
  /**
   * A quantile is at most this many times too high, because it is rounded up to the end of its bucket; latencies are cut to eighths of a ms
   * in addition.
   */
  static readonly excess: number = 1 + 1 / STEPS_PER_DOUBLING;
  readonly #quickMs: number;
  /** How many samples were below `#quickMs`. */
  #quick = 0;
  readonly #counts = new Uint32Array(BUCKETS);
  #total = 0;

  /** @param quickMs Samples below this many ms get no bucket of their own: no caller asks for quantiles that low. */
  constructor(quickMs = 0) {
    this.#quickMs = quickMs;
  }

  /** Adds a latency, in ms. Runs for every call and allocates nothing. */
  add(latencyMs: number): void {
    if (latencyMs >= this.#quickMs) this.#count(latencyMs);
    else if (++this.#quick >= FADES_AFTER) this.#fade();
  }

  #count(latencyMs: number): void {
    const units = (latencyMs * UNITS_PER_MS) | 0;
    // The bucket of a latency comes from the top bits of its number: the position of the highest bit, and the two bits behind it.
    const doubling = 31 - Math.clz32(units | 1);
    const step = doubling >= 2 ? (units >>> (doubling - 2)) & 3 : 0;
    const bucket = doubling * STEPS_PER_DOUBLING + step;
    this.#counts[bucket] = (this.#counts[bucket] as number) + 1;
    if (++this.#total >= FADES_AFTER) this.#fade();
  }

  /**
   * The latency in ms that `share` (0 to 1) of the samples do not exceed, rounded up to the end of its bucket; 0 if there are no samples,
   * or if the quantile is below `quickMs`.
   */
  quantile(share: number): number {
    let left = Math.ceil((this.#total + this.#quick) * share) - this.#quick;
    if (left <= 0) return 0;
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      left -= this.#counts[bucket] as number;
      if (left > 0) continue;
      const doubling = Math.floor(bucket / STEPS_PER_DOUBLING);
      const step = bucket % STEPS_PER_DOUBLING;
      return (2 ** doubling * (1 + (step + 1) / STEPS_PER_DOUBLING)) / UNITS_PER_MS;
    }
    return 0;
  }

  /** Halves all counts of the histogram. */
  #fade(): void {
    this.#quick >>>= 1;
    this.#total = 0;
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      const half = (this.#counts[bucket] as number) >>> 1;
      this.#counts[bucket] = half;
      this.#total += half;
    }
  }
}
