/**
 * What a lowered limit has shown. `queued`: it costs no answers, so calls were queuing. `lost`: answers fell as much as the limit.
 * Undefined: it is too early to tell.
 */
export type TrialResult = 'queued' | 'lost' | undefined;

/** A trial lasts at least this many windows. */
const FEWEST_WINDOWS = 3;
/**
 * A window counts for a trial only if the lowered limit is below this share of the limit before. Above it, both results would look alike.
 */
const LOWERED = 0.9;
/**
 * A trial can decide once the numbers of answers expected in its two possible results differ by this share of the expected answers, and by
 * this many standard deviations.
 */
const SHARE = 0.4;
const DEVIATIONS = 3.2;
/** A trial that has lasted longer than this, in ms, decides by the smaller thresholds that follow. */
const LONG_MS = 5_000;
const SHARE_WHEN_LONG = 0.2;
const DEVIATIONS_WHEN_LONG = 2;
/**
 * If at most `NOTHING_LOST` of the possible loss of answers happened, calls were queuing; from `LOST` on, answers were lost. A long trial
 * decides at `NEARER` either way.
 */
const NOTHING_LOST = 0.3;
const LOST = 0.7;
const NEARER = 0.45;
/**
 * If fewer than this share of the expected answers came, lowering the limit has certainly cost answers, so the trial need not compare any
 * further. `MIN_EXPECTED` answers must have been expected, because a share of fewer says little.
 */
const CERTAIN_LOSS = 0.4;
const MIN_EXPECTED = 40;

/**
 * Compares the number of answers under a lowered limit with that before. A Service whose calls were queuing answers as many as before,
 * because only its queue gets shorter. A Service that is slow for another reason answers fewer, in proportion to the limit.
 */
export class Trial {
  /** The limit before it was lowered, and how many answers came per ms under it. */
  limit = 0;
  #rate = 0;
  #windows = 0;
  #ms = 0;
  #answers = 0;
  /** How many answers are expected under the lowered limit if calls were queuing, and how many if they were not. */
  #expected = 0;
  #expectedIfNot = 0;

  begin(limit: number, answersPerMs: number): void {
    this.limit = limit;
    this.#rate = answersPerMs;
    this.#windows = 0;
    this.#ms = 0;
    this.#answers = 0;
    this.#expected = 0;
    this.#expectedIfNot = 0;
  }

  /** Begins the next trial, which compares with the rate of answers that this trial measured. */
  goOn(limit: number): void {
    this.begin(limit, this.#answers / this.#ms);
  }

  /** Adds a window in which the lowered limit was reached and calls were slow nevertheless. */
  add(answers: number, ms: number, limit: number): void {
    if (limit > LOWERED * this.limit) return;
    const expected = this.#rate * ms;
    this.#windows++;
    this.#ms += ms;
    this.#answers += answers;
    this.#expected += expected;
    this.#expectedIfNot += (expected * limit) / this.limit;
  }

  /**
   * Returns what the trial has shown so far.
   *
   * @param leastMs How much time must have been measured for a result, in ms.
   * @param sinceMs How long ago the limit was lowered, in ms.
   */
  verdict(leastMs: number, sinceMs: number): TrialResult {
    if (this.#windows < FEWEST_WINDOWS || this.#ms < leastMs) return undefined;
    const expected = this.#expected;
    if (leastMs === 0 && expected >= MIN_EXPECTED && this.#answers < CERTAIN_LOSS * expected) return 'lost';
    const isLong = sinceMs > LONG_MS;
    const difference = expected - this.#expectedIfNot;
    if (difference < (isLong ? SHARE_WHEN_LONG : SHARE) * expected) return undefined;
    if (difference < (isLong ? DEVIATIONS_WHEN_LONG : DEVIATIONS) * Math.sqrt(expected)) return undefined;
    const lost = (expected - this.#answers) / difference;
    if (lost <= (isLong ? NEARER : NOTHING_LOST)) return 'queued';
    return lost >= (isLong ? NEARER : LOST) ? 'lost' : undefined;
  }
}
