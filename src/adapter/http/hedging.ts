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
 * A second attempt alongside a slow one: the caller gets the response that starts first, and the other attempt is aborted. Only for
 * requests that may be sent twice; on another pod, and paid from the retry budget.
 */
export interface HedgeOptions {
  /** How long an attempt may go without a response before another pod is asked too, in ms. @defaultValue none: give this or `afterQuantile` */
  readonly afterMs?: number | undefined;
  /**
   * The delay as a quantile, above 0 and below 1, of the times to the response headers: 0.95 hedges one request in 20. No hedges before
   * 100 responses have been measured. Either this or `afterMs`.
   * @defaultValue none: give this or `afterMs`
   */
  readonly afterQuantile?: number | undefined;
  /** Maximum hedges per request, each after the same delay; they count towards `retry.maxAttempts`. @defaultValue 1 */
  readonly max?: number | undefined;
}

export const hedgeTable: OptionTable<Filled<HedgeOptions, 'afterMs' | 'afterQuantile'>> = optionTable('hedge', {
  afterMs: optionalNumber({ min: 1, max: 3_600_000 }),
  afterQuantile: optionalNumber({ above: 0, max: 0.9999 }),
  max: numberOption(1, { min: 1, max: 10, integer: true }),
});

/** Throws EVENKEEL_OPTION for invalid values. */
export function hedgingOf(options: unknown): Hedging {
  const { afterMs, afterQuantile, max } = hedgeTable.resolve(options);
  if ((afterMs === undefined) === (afterQuantile === undefined)) {
    throw optionError('hedge', 'an object with either afterMs or afterQuantile', options);
  }
  return new Hedging(afterMs, afterQuantile, max);
}

/** How many responses must be measured before their usual time is known. */
const MIN_MEASURED = 100;
/** After how many more responses the quantile of response times is recomputed. That costs as much as counting ten requests. */
const LOOK_UP_AFTER = 64;

/** Decides when the requests of one entry point are hedged. */
export class Hedging {
  readonly max: number;
  readonly #quantile: number | undefined;
  readonly #latency: LatencyQuantile = new LatencyQuantile();
  #delayMs: number | undefined;
  #measured = 0;
  #sinceLookUp = 0;

  constructor(afterMs: number | undefined, quantile: number | undefined, max: number) {
    this.max = max;
    this.#delayMs = afterMs;
    this.#quantile = quantile;
  }

  /** Milliseconds to wait for a response before a hedge is sent; undefined while unknown. */
  get delayMs(): number | undefined {
    return this.#delayMs;
  }

  /** Records that an attempt took at least this long without a response. */
  took(ms: number): void {
    if (this.#quantile === undefined) return;
    this.#latency.add(ms);
    if (++this.#measured < MIN_MEASURED || (++this.#sinceLookUp < LOOK_UP_AFTER && this.#delayMs !== undefined)) return;
    this.#sinceLookUp = 0;
    this.#delayMs = Math.max(1, this.#latency.quantile(this.#quantile));
  }
}
