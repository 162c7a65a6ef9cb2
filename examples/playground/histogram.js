// @ts-check
/**
 * Counts of latencies in buckets that grow by 4 %, so a quantile is right to within 4 % from 0.05 ms to a minute.
 * Travels between processes as pairs of (bucket, count).
 */

const FIRST_MS = 0.05;
const GROWTH = Math.log(1.04);
const BUCKETS = 360;

/** @typedef {[bucket: number, count: number][]} HistogramPairs */

export class Histogram {
  #counts = new Float64Array(BUCKETS);
  #total = 0;

  get total() {
    return this.#total;
  }

  /** @param {number} ms */
  record(ms) {
    this.#add(Math.floor(Math.log(Math.max(ms, FIRST_MS) / FIRST_MS) / GROWTH), 1);
  }

  /** @param {HistogramPairs} pairs */
  addPairs(pairs) {
    for (const [bucket, count] of pairs) this.#add(bucket, count);
  }

  /** The latency that a share `q` (0 to 1) of all stayed below, in ms; undefined when nothing was counted. @param {number} q */
  quantile(q) {
    if (this.#total === 0) return undefined;
    let rest = q * this.#total;
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      rest -= /** @type {number} */ (this.#counts[bucket]);
      if (rest <= 0) return FIRST_MS * Math.exp((bucket + 0.5) * GROWTH);
    }
    return FIRST_MS * Math.exp(BUCKETS * GROWTH);
  }

  /** What was counted. @returns {HistogramPairs} */
  pairs() {
    /** @type {HistogramPairs} */
    const pairs = [];
    this.#counts.forEach((count, bucket) => {
      if (count > 0) pairs.push([bucket, count]);
    });
    return pairs;
  }

  /** @param {number} bucket @param {number} count */
  #add(bucket, count) {
    const index = Math.min(bucket, BUCKETS - 1);
    this.#counts[index] = /** @type {number} */ (this.#counts[index]) + count;
    this.#total += count;
  }
}
