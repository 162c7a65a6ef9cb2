import type { CountedCalls } from './counted-calls.js';
import { FAILING, FIRST, LATENCY, SAMPLES, UPDATED } from './latency-cell.js';
import type { LoadSet } from './load.js';
import { type LoadRule, RuledLoad } from './load-rule.js';
import { lowerMedian } from './median.js';
import type { Preferences } from './preference.js';

/** How often the latencies of all endpoints are compared (a survey), in ms. */
export const SURVEY_MS = 100;
/** In this time, in ms, an endpoint without calls loses two thirds of its excess latency and of its failures. */
export const FORGIVEN_MS = 20_000;

/** An endpoint counts as slow if its latency is beyond this multiple of the median latency. */
export const SLOW_RATIO = 2;
/**
 * An endpoint counts as slow only if its latency also exceeds the median by this many ms, because the longer way to another zone is no
 * reason to avoid it.
 */
const SLOW_FLOOR_MS = 5;
/** Used in place of `SLOW_RATIO` in a large set that is called rarely, where there are few and old measurements. */
const SLOW_RATIO_WHEN_RARE = 1.5;
/** A set is called rarely while most of its endpoints have not answered a call for this long, in ms. */
const RARE_MS = 1_000;
/** A set with this many endpoints is large. */
const MANY = 16;
/**
 * A single call's latency counts as at most this many times the limit, or the endpoint's own average if that is larger. So one long call
 * proves nothing: with long polls or reports among short calls, the endpoint with the latest of them would otherwise look slow.
 */
export const MOST_AT_ONCE = 2;
/**
 * Used in place of `MOST_AT_ONCE` for a call after a long gap in a large set. There, a client calls each endpoint only now and then, so it
 * has few calls to judge by, and a mistake about one endpoint costs little.
 */
const MOST_AT_ONCE_OF_MANY = 4;
/** How many calls on an endpoint it takes to count the endpoint as slow. In larger sets, fewer are enough. */
const EVIDENCE = 4;
/**
 * However large the set, this many calls are needed to count an endpoint as slow, because a single call may have paid for a cold start.
 */
const LEAST_EVIDENCE = 2;
/** `EVIDENCE` applies to sets of up to this many endpoints. In a set twice as large, half of it is enough, and so on. */
const FEW = 3;

/** Statistics over the endpoints of a set that show which of them stand out. They are updated every `SURVEY_MS`, at the end of a call. */
export class LatencySurvey {
  takenAtMs: number = Number.NEGATIVE_INFINITY;
  medianMs = 0;
  /** The latency in ms up to which an endpoint is not slow. */
  limitMs: number = Number.POSITIVE_INFINITY;
  /** The ratio that is used now: `SLOW_RATIO`, or `SLOW_RATIO_WHEN_RARE` while the set is large and called rarely. */
  slowRatio: number = SLOW_RATIO;
  /**
   * The median of the endpoints' first latencies, which include their cold starts. An endpoint whose few calls were no slower than twice
   * this is not slow yet.
   */
  firstMedianMs = 0;
  /** The values of `EVIDENCE` and `MOST_AT_ONCE` that apply to a set of this size. */
  evidence: number = EVIDENCE;
  mostAfterGap: number = MOST_AT_ONCE;
  /** How many endpoints `firstMedianMs` covers; 0 = another endpoint has had its first call, so that median is out of date. */
  #firstsKnown = 0;
  /** Whether most endpoints of the set were failing at the last survey. */
  #isOutage = false;
  /** Space for the numbers of a median, which is reused. */
  #values = new Float64Array(16);

  /** One more endpoint has had its first call. */
  grew(): void {
    this.#firstsKnown = 0;
  }

  /**
   * Makes a survey of those loads in `set` that follow `rule`. O(n).
   *
   * @param price Updates the cost of an endpoint after the survey.
   */
  take(
    set: LoadSet,
    rule: LoadRule,
    calls: CountedCalls,
    preferences: Preferences,
    nowMs: number,
    price: (numbers: Float64Array, at: number, nowMs: number) => void,
  ): void {
    this.takenAtMs = nowMs;
    const hasReports = calls.surveying(nowMs);
    const isPreferring = preferences.surveying(nowMs);
    const { medianMs } = this;
    const isFading = this.limitMs !== Number.POSITIVE_INFINITY;
    let measured = 0;
    let rare = 0;
    let failing = 0;
    let size = 0;
    for (const load of set.loads) {
      if (!(load instanceof RuledLoad) || load.rule !== rule) continue;
      const { numbers, at } = load;
      if (++size > this.#values.length) this.#grow();
      if ((numbers[at + SAMPLES] as number) > 0) {
        const ageMs = nowMs - (numbers[at + UPDATED] as number);
        if (ageMs > RARE_MS) rare++;
        // The computation of `latencyMs` stands here once more, because a call of that function would put its result on the heap for each
        // endpoint.
        const faded = isFading && ageMs >= SURVEY_MS ? Math.exp(-ageMs / FORGIVEN_MS) : 1;
        this.#values[measured++] = medianMs + ((numbers[at + LATENCY] as number) - medianMs) * faded;
      }
      if ((numbers[at + FAILING] as number) > 1 / 2) failing++;
      if (hasReports) calls.survey(numbers, at, nowMs);
      if (isPreferring) preferences.survey(numbers, at);
    }
    if (hasReports) calls.surveyed();
    const share = Math.min(1, FEW / size);
    this.evidence = Math.max(LEAST_EVIDENCE, Math.ceil(EVIDENCE * share));
    this.mostAfterGap = size >= MANY ? MOST_AT_ONCE_OF_MANY : MOST_AT_ONCE;
    const wasOutage = this.#isOutage;
    this.#isOutage = 2 * failing > measured;
    if (measured === 0) return;
    // For an even number of endpoints, the lower of the two middle latencies is the median: of two endpoints, the slow one must not set the
    // limit.
    this.medianMs = lowerMedian(this.#values, measured);
    if (isPreferring) preferences.surveyed(this.medianMs);
    this.slowRatio = size >= MANY && 2 * rare > measured ? SLOW_RATIO_WHEN_RARE : SLOW_RATIO;
    this.limitMs = Math.max(this.slowRatio * this.medianMs, this.medianMs + SLOW_FLOOR_MS);
    if (this.#firstsKnown !== measured) this.#takeFirsts(set, rule, measured);
    for (const load of set.loads) {
      if (!(load instanceof RuledLoad) || load.rule !== rule) continue;
      // When an outage of most endpoints ends, failures during it are forgotten. Otherwise the endpoint that is tried last would get no
      // calls for a long time.
      if (wasOutage && !this.#isOutage) load.numbers[load.at + FAILING] = 0;
      price(load.numbers, load.at, nowMs);
    }
  }

  /** The latency of an endpoint in ms, which drifts towards the median while the endpoint gets no calls. */
  latencyMs(numbers: Float64Array, at: number, nowMs: number): number {
    const latencyMs = numbers[at + LATENCY] as number;
    const ageMs = nowMs - (numbers[at + UPDATED] as number);
    if (ageMs < SURVEY_MS || this.limitMs === Number.POSITIVE_INFINITY) return latencyMs;
    return this.medianMs + (latencyMs - this.medianMs) * Math.exp(-ageMs / FORGIVEN_MS);
  }

  /** Computes the median of the endpoints' first latencies. @param measured How many endpoints have had a call. */
  #takeFirsts(set: LoadSet, rule: LoadRule, measured: number): void {
    let count = 0;
    for (const load of set.loads) {
      if (!(load instanceof RuledLoad) || load.rule !== rule) continue;
      const { numbers, at } = load;
      if ((numbers[at + SAMPLES] as number) > 0) this.#values[count++] = numbers[at + FIRST] as number;
    }
    this.firstMedianMs = lowerMedian(this.#values, count);
    this.#firstsKnown = measured;
  }

  #grow(): void {
    const values = new Float64Array(2 * this.#values.length);
    values.set(this.#values);
    this.#values = values;
  }
}
