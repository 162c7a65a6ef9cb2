/** Interleaved rounds: every subject once per round or more often, the baseline twice as often, in a new random order each time. */
import { seededRng } from 'evenkeel/testing';
import { bootstrapMedian, judgeRatio, mean, median, shuffled } from './statistics.mjs';

/** The fewest rounds a verdict may rest on; fewer (`--quick`) print figures without one. */
export const MIN_ROUNDS = 40;

/**
 * @typedef {object} Sample  What one run of one subject measured. Ratios are taken of each of them.
 * @property {number} perSecond requests per second
 * @property {number} cpuUs CPU time of this process per request, user and system, in µs
 * @property {number} [p50] latency in ms
 * @property {number} [p99]
 * @property {number} [p999]
 *
 * @typedef {{ readonly name: string, readonly run: () => Promise<Sample> }} Subject
 *
 * @typedef {Subject & { readonly again?: () => Promise<Sample> }} Baseline
 *   `again` runs its second appearance in a round, if that is not the same `run`
 */

/** The second appearance of the baseline in a round. */
const TWIN = '\0baseline again';

/**
 * Runs `rounds` rounds after `warmUp` ones that are thrown away: code that has just been compiled, or is not yet, tells
 * of the compiler. A round is `visits` passes over all subjects: a machine that stands still for a moment then spoils only a
 * part of one subject's round.
 * @param {{ baseline: Baseline, subjects: readonly Subject[], rounds: number, visits?: number, minutes?: number, warmUp?: number, seed?: number,
 *   progress?: (round: number, rounds: number) => void, now?: () => number }} options
 *   `minutes`: how long all rounds may take; if `visits` would take longer, by the time of the last warm-up round, there are fewer
 */
export async function measure({
  baseline,
  subjects,
  rounds,
  visits: wantedVisits = 1,
  minutes = Number.POSITIVE_INFINITY,
  warmUp = 1,
  seed = 1,
  progress = () => {},
  now = () => performance.now(),
}) {
  const rng = seededRng(seed);
  const random = () => rng.next();
  const all = [baseline, { name: TWIN, run: baseline.again ?? baseline.run }, ...subjects];
  /** @type {Map<string, Sample[]>} */
  const samples = new Map(all.map(({ name }) => [name, []]));
  let visits = wantedVisits;
  for (let round = 1 - warmUp; round <= rounds; round++) {
    const begunMs = now();
    progress(round, rounds);
    /** @type {Map<string, Sample[]>} */
    const seen = new Map(all.map(({ name }) => [name, []]));
    for (let visit = 0; visit < (round > 0 ? visits : 1); visit++) {
      for (const { name, run } of shuffled(all, random)) {
        // A full collection would find no call alive, and V8 forgets what it has learnt of objects of which there is none.
        globalThis.gc?.({ type: 'minor' });
        seen.get(name)?.push(await run());
      }
    }
    if (round > 0) for (const [name, parts] of seen) samples.get(name)?.push(merged(parts));
    if (round === 0)
      visits = Math.max(1, Math.min(visits, Math.floor((minutes * 60_000) / rounds / (now() - begunMs))));
  }
  return new Results(baseline.name, samples, random, visits);
}

/** The visits of one round as one sample: requests over time, and the mean of all else. @param {readonly Sample[]} parts @returns {Sample} */
function merged(parts) {
  const over = (/** @type {keyof Sample} */ figure) => mean(parts.map((part) => part[figure] ?? Number.NaN));
  const perSecond = 1 / mean(parts.map((part) => 1 / part.perSecond));
  return { perSecond, cpuUs: over('cpuUs'), p50: over('p50'), p99: over('p99'), p999: over('p999') };
}

export class Results {
  #baseline;
  #samples;
  #random;

  /** @param {string} baseline @param {Map<string, Sample[]>} samples @param {() => number} random @param {number} visits in each round */
  constructor(baseline, samples, random, visits) {
    /** How often each subject had its turn in a round; the baseline twice as often. */
    this.visits = visits;
    this.#baseline = baseline;
    this.#samples = samples;
    this.#random = random;
  }

  get rounds() {
    return this.#of(this.#baseline).length;
  }

  /** The median of one figure of one subject over all rounds. @param {string} name @param {keyof Sample} figure */
  median(name, figure) {
    return median(this.#of(name).map((sample) => sample[figure] ?? Number.NaN));
  }

  /**
   * Per-round ratios of `name` to `against`. The baseline's own value is the geometric mean of its two runs in the round.
   * @param {string} name @param {keyof Sample} figure @param {string} against
   */
  ratio(name, figure, against = this.#baseline) {
    const own = this.#figures(name, figure);
    const other = this.#figures(against, figure);
    return bootstrapMedian(
      own.map((value, round) => value / /** @type {number} */ (other[round])),
      this.#random,
    );
  }

  /** The baseline's second run against its first. @param {keyof Sample} figure */
  aa(figure) {
    const first = this.#of(this.#baseline);
    const second = this.#of(TWIN);
    return bootstrapMedian(
      first.map((sample, round) => Number(second[round]?.[figure]) / Number(sample[figure])),
      this.#random,
    );
  }

  /**
   * The verdict on a ratio, or `too few rounds`.
   * @param {string} name @param {keyof Sample} figure @param {{ atLeast?: number, atMost?: number }} wanted
   * @param {string} [against]
   */
  verdict(name, figure, wanted, against) {
    if (this.rounds < MIN_ROUNDS) return 'too few rounds';
    return judgeRatio(this.ratio(name, figure, against), wanted, this.aa(figure));
  }

  /** @param {string} name @param {keyof Sample} figure */
  #figures(name, figure) {
    const own = this.#of(name).map((sample) => Number(sample[figure]));
    if (name !== this.#baseline) return own;
    const twin = this.#of(TWIN);
    return own.map((value, round) => Math.sqrt(value * Number(twin[round]?.[figure])));
  }

  /** @param {string} name */
  #of(name) {
    const samples = this.#samples.get(name);
    if (samples === undefined) throw new RangeError(`no subject is called ${name}`);
    return samples;
  }
}
