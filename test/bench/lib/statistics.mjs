/**
 * How a number is judged on a noisy machine: many interleaved rounds, the median of the per-round values with a bootstrap
 * interval, and the baseline measured against itself (A/A) to see how far the machine can be trusted.
 */

/** How far below a wanted ratio the interval may reach: what rounds of this length cannot resolve. */
const TOLERANCE = 0.02;
/** How far the A/A interval may stray from 1 before the machine is called too noisy to judge. */
const AA_TOLERANCE = 0.03;

/**
 * @typedef {object} Interval  A median with its bootstrap 95 % interval.
 * @property {number} median
 * @property {number} low
 * @property {number} high
 *
 * @typedef {'holds' | 'falls short' | 'undecided here'} Verdict
 */

/** @param {readonly number[]} values at least one; not changed */
export function median(values) {
  if (values.length === 0) throw new RangeError('median of nothing');
  const sorted = Float64Array.from(values).sort();
  const middle = sorted.length >> 1;
  const upper = Number(sorted[middle]);
  return sorted.length % 2 === 1 ? upper : (Number(sorted[middle - 1]) + upper) / 2;
}

/** @param {readonly number[]} values at least one */
export function mean(values) {
  if (values.length === 0) throw new RangeError('mean of nothing');
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/**
 * The value below which `share` (0 to 1) of the values lie, by the nearest rank.
 * @param {readonly number[]} values at least one; not changed
 * @param {number} share
 */
export function quantile(values, share) {
  if (values.length === 0) throw new RangeError('quantile of nothing');
  const sorted = Float64Array.from(values).sort();
  const rank = Math.min(sorted.length, Math.max(1, Math.ceil(share * sorted.length)));
  return Number(sorted[rank - 1]);
}

/**
 * The median of `values` with its 95 % interval: the middle 95 % of the medians of resamples drawn with replacement.
 * Source: Efron, Bootstrap Methods: Another Look at the Jackknife, Annals of Statistics 7(1), 1979 (percentile interval).
 * @param {readonly number[]} values one per round
 * @param {() => number} random uniform in [0, 1); seeded, so that the same rounds give the same interval
 * @param {number} resamples
 * @returns {Interval}
 */
export function bootstrapMedian(values, random, resamples = 4_000) {
  const medians = new Array(resamples);
  const sample = new Array(values.length);
  for (let round = 0; round < resamples; round++) {
    for (let i = 0; i < sample.length; i++) sample[i] = values[Math.floor(random() * values.length)];
    medians[round] = median(sample);
  }
  return { median: median(values), low: quantile(medians, 0.025), high: quantile(medians, 0.975) };
}

/**
 * Judges a ratio that shall be at least, or at most, `number`.
 *
 * - *holds*: the interval is on the right side of the number, give or take `TOLERANCE`, and A/A lies within 1 ± `AA_TOLERANCE`.
 * - *falls short*: the interval lies wholly on the wrong side, by more than A/A itself strays from 1.
 * - *undecided here*: anything else.
 * @param {Interval} ratio
 * @param {{ atLeast?: number, atMost?: number }} wanted one of the two
 * @param {Interval} aa the baseline against itself
 * @returns {Verdict}
 */
export function judgeRatio(ratio, { atLeast, atMost }, aa) {
  const stray = Math.max(0, 1 - aa.low, aa.high - 1);
  if (atLeast !== undefined) {
    if (ratio.low >= atLeast - TOLERANCE && stray <= AA_TOLERANCE) return 'holds';
    return ratio.high < atLeast - stray ? 'falls short' : 'undecided here';
  }
  if (atMost === undefined) throw new TypeError('atLeast or atMost is needed');
  if (ratio.high <= atMost + TOLERANCE && stray <= AA_TOLERANCE) return 'holds';
  return ratio.low > atMost + stray ? 'falls short' : 'undecided here';
}

/**
 * Judges an absolute number that shall be at most `limit`, by its interval alone.
 * @param {Interval} value
 * @param {number} limit
 * @returns {Verdict}
 */
export function judgeLimit(value, limit) {
  if (value.high <= limit) return 'holds';
  return value.low > limit ? 'falls short' : 'undecided here';
}

/** A copy in random order (Fisher–Yates). @template T @param {readonly T[]} items @param {() => number} random @returns {T[]} */
export function shuffled(items, random) {
  const result = [...items];
  for (let i = result.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [result[i], result[j]] = [/** @type {T} */ (result[j]), /** @type {T} */ (result[i])];
  }
  return result;
}
