import {
  type Filled,
  LatencyQuantile,
  numberOption,
  type OptionTable,
  optionalNumber,
  optionError,
  optionTable,
} from '../kit/index.js';

/**
 * Options for hedging: a second attempt alongside a slow one. The caller gets the response that starts first, and the other attempt is
 * aborted. Only requests that may be sent twice are hedged; the hedge goes to another pod, and the retry budget pays for it.
 */
export interface HedgeOptions {
  /**
   * How long an attempt may go without a response before another pod is asked too, in ms. @defaultValue none: set this or `afterQuantile`
   */
  readonly afterMs?: number | undefined;
  /**
   * The delay as a quantile, above 0 and below 1, of the times to the response headers: 0.95 hedges one request in 20. No hedges before 100
   * responses have been measured. Excludes `afterMs`. @defaultValue none: set this or `afterMs`
   */
  readonly afterQuantile?: number | undefined;
  /** The most hedges per request, each after another such delay; they count towards `retry.maxAttempts`. @defaultValue 1 */
  readonly max?: number | undefined;
}

export const hedgeTable: OptionTable<Filled<HedgeOptions, 'afterMs' | 'afterQuantile'>> = optionTable('hedge', {
  afterMs: optionalNumber({ min: 1, max: 3_600_000 }),
  afterQuantile: optionalNumber({ above: 0, max: 0.9999 }),
  max: numberOption(1, { min: 1, max: 10, integer: true }),
});

/** Creates a `Hedging` from its options. Throws EVENKEEL_OPTION for invalid values. */
export function hedgingOf(options: unknown): Hedging {
  const { afterMs, afterQuantile, max } = hedgeTable.resolve(options);
  if ((afterMs === undefined) === (afterQuantile === undefined)) {
    throw optionError('hedge', 'an object with either afterMs or afterQuantile', options);
  }
  return new Hedging(afterMs, afterQuantile, max);
}

/** How many responses must be measured before the usual time to a response is known. */
const MIN_MEASURED = 100;
/** After how many more responses the quantile of response times is recomputed. That costs as much as counting ten requests. */
const RECOMPUTE_AFTER = 64;

/** Decides when the requests of one dispatcher or agent are hedged. */
export class Hedging {
  readonly max: number;
  readonly #quantile: number | undefined;
  readonly #latency: LatencyQuantile = new LatencyQuantile();
  #delayMs: number | undefined;
  #measured = 0;
  #sinceRecomputed = 0;

  constructor(afterMs: number | undefined, quantile: number | undefined, max: number) {
    this.max = max;
    this.#delayMs = afterMs;
    this.#quantile = quantile;
  }

  /** How long to wait for a response before a hedge is sent, in ms; undefined while that is unknown. */
  get delayMs(): number | undefined {
    return this.#delayMs;
  }

  /** Records that an attempt took at least this long to get a response, in ms. */
  took(ms: number): void {
    if (this.#quantile === undefined) return;
    this.#latency.add(ms);
    if (++this.#measured < MIN_MEASURED || (++this.#sinceRecomputed < RECOMPUTE_AFTER && this.#delayMs !== undefined))
      return;
    this.#sinceRecomputed = 0;
    this.#delayMs = Math.max(1, this.#latency.quantile(this.#quantile));
  }
}
