/** What a lower limit has shown: it costs no answers (the calls queued), it costs as many as it stops, or it is too early to tell. */
export type TrialResult = 'queued' | 'lost' | undefined;

/** A trial lasts at least this many windows. */
const FEWEST_WINDOWS = 3;
/**
 * A window counts for a trial while the lowered limit is below this share of the one it is compared with. Above, the results of both would
 * look the same.
 */
const LOWERED = 0.9;
/**
 * How far apart the answers under both limits must be before a trial can decide: as a share of the answers expected, and in standard
 * deviations of their number.
 */
const SHARE = 0.4;
const DEVIATIONS = 3.2;
/** After a trial has lasted this long, in ms, it decides by the shares below. */
const LONG_MS = 5_000;
const SHARE_WHEN_LONG = 0.2;
const DEVIATIONS_WHEN_LONG = 2;
/**
 * Up to the first of these shares of the possible loss of answers, nothing was lost; from the second on it was. In a long trial, the nearer
 * of the two decides.
 */
const NOTHING_LOST = 0.3;
const LOST = 0.7;
const NEARER = 0.45;
/** If at least `MOST_OF` answers were expected, fewer than this share of them are a loss of answers, whatever the limits. */
const MOST_GONE = 0.4;
const MOST_OF = 40;

/**
 * Compares answers under a lowered limit with those before. A Service that queues answers as many as before, because its queue gets
 * shorter, not its work. A Service that is slow for another reason answers fewer, in proportion to the limit.
 */
export class Trial {
  /** The limit before it was lowered, and the answers per ms under that limit. */
  limit = 0;
  #rate = 0;
  #windows = 0;
  #ms = 0;
  #answers = 0;
  /** How many answers are expected under the lowered limit if calls queue, and how many if they do not. */
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

  /** Begins the trial anew, compared with what has been measured so far. */
  goOn(limit: number): void {
    this.begin(limit, this.#answers / this.#ms);
  }

  /** Adds a window to the trial: one in which the limit was reached, and calls were slow nevertheless. */
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
   * What the trial has shown so far.
   * @param leastMs How much time has to be measured, in ms.
   * @param sinceMs For how long the limit has been lowered, in ms.
   */
  verdict(leastMs: number, sinceMs: number): TrialResult {
    if (this.#windows < FEWEST_WINDOWS || this.#ms < leastMs) return undefined;
    const expected = this.#expected;
    if (leastMs === 0 && expected >= MOST_OF && this.#answers < MOST_GONE * expected) return 'lost';
    const isLong = sinceMs > LONG_MS;
    const difference = expected - this.#expectedIfNot;
    if (difference < (isLong ? SHARE_WHEN_LONG : SHARE) * expected) return undefined;
    if (difference < (isLong ? DEVIATIONS_WHEN_LONG : DEVIATIONS) * Math.sqrt(expected)) return undefined;
    const lost = (expected - this.#answers) / difference;
    if (lost <= (isLong ? NEARER : NOTHING_LOST)) return 'queued';
    return lost >= (isLong ? NEARER : LOST) ? 'lost' : undefined;
  }
}
