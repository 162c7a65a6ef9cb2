import type { CountedCalls } from './counted-calls.js';
import { FAILING, FIRST, LATENCY, SAMPLES, UPDATED } from './latency-cell.js';
import type { LoadSet } from './load.js';
import { type LoadRule, RuledLoad } from './load-rule.js';
import { lowerMedian } from './median.js';
import type { Preferences } from './preference.js';

/** How often the latencies of all endpoints are compared in a survey, in ms. */
export const SURVEY_MS = 100;
/** In this time an endpoint without calls loses all but a third of its excess latency and of its failures, in ms. */
export const FORGIVEN_MS = 20_000;

/** An endpoint counts as slow if its latency is beyond this multiple of the median latency. */
export const SLOW_RATIO = 2;
/**
 * An endpoint counts as slow only if its latency is at least this much above the median, in ms: the cost of a farther zone is no reason to
 * avoid it.
 */
const SLOW_FLOOR_MS = 5;
/** The multiple that replaces `SLOW_RATIO` in a large set that is called rarely, where evidence is little and old. */
const SLOW_RATIO_WHEN_RARE = 1.5;
/** A set is called rarely while most endpoints have not answered a call for this long, in ms. */
const RARE_MS = 1_000;
/** A set with this many endpoints is large. */
const MANY = 16;
/**
 * A call's latency counts as at most this many times the limit or the endpoint's own average, so one long call is no evidence. With long
 * polls or reports among short calls, the endpoint that answered the last of them would otherwise look slow.
 */
export const MOST_AT_ONCE = 2;
/**
 * What replaces `MOST_AT_ONCE` for a call after a long gap in a large set. There a client calls each endpoint only now and then: it has few
 * calls to judge by, and a mistake about one endpoint costs little.
 */
const MOST_AT_ONCE_OF_MANY = 4;
/** This many calls on an endpoint are evidence that it is slow; in larger sets, fewer are. */
const EVIDENCE = 4;
/** The fewest calls that are evidence that an endpoint is slow: a single one may have paid for an unusually long cold start. */
const LEAST_EVIDENCE = 2;
/** `EVIDENCE` applies up to this many endpoints. With twice as many, half of it is enough, and so on. */
const FEW = 3;

/** Statistics over the endpoints of a set, which show which of them stands out. Taken every `SURVEY_MS`, at the end of a call. */
export class LatencySurvey {
  takenAtMs: number = Number.NEGATIVE_INFINITY;
  medianMs = 0;
  /** Latencies up to this are not slow, in ms. */
  limitMs: number = Number.POSITIVE_INFINITY;
  /** `SLOW_RATIO`, or `SLOW_RATIO_WHEN_RARE` while the set is large and called rarely. */
  slowRatio: number = SLOW_RATIO;
  /** Median of first latencies, which include the cold start. An endpoint just as slow in its first calls is not slow. */
  firstMedianMs = 0;
  /** The values that stand for `EVIDENCE` and `MOST_AT_ONCE` in a set of this size. */
  evidence: number = EVIDENCE;
  mostAfterGap: number = MOST_AT_ONCE;
  /**
   * How many endpoints the median `firstMedianMs` covers; 0 = that median is outdated, because an endpoint has had its first call since.
   */
  #firstsKnown = 0;
  /** Whether most endpoints of the set fail. */
  #isOutage = false;
  /** Scratch space for medians, reused. */
  #values = new Float64Array(16);

  /** A further endpoint has had its first call. */
  grew(): void {
    this.#firstsKnown = 0;
  }

  /**
   * Takes a survey of the loads of `set` that follow `rule`. O(n).
   * @param price Updates the cost of an endpoint.
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
        // This repeats the computation of `latencyMs`: that function would put its result on the heap, once per endpoint.
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
    // Of an even number of endpoints, the lower of the two middle latencies counts: of two endpoints, the slow one must not set the limit.
    this.medianMs = lowerMedian(this.#values, measured);
    if (isPreferring) preferences.surveyed(this.medianMs);
    this.slowRatio = size >= MANY && 2 * rare > measured ? SLOW_RATIO_WHEN_RARE : SLOW_RATIO;
    this.limitMs = Math.max(this.slowRatio * this.medianMs, this.medianMs + SLOW_FLOOR_MS);
    if (this.#firstsKnown !== measured) this.#takeFirsts(set, rule, measured);
    for (const load of set.loads) {
      if (!(load instanceof RuledLoad) || load.rule !== rule) continue;
      // Failures during an outage of most endpoints are forgotten; otherwise the last to get a call would get none for a long time.
      if (wasOutage && !this.#isOutage) load.numbers[load.at + FAILING] = 0;
      price(load.numbers, load.at, nowMs);
    }
  }

  /** The latency of an endpoint; drifts towards the median while it gets no calls. */
  latencyMs(numbers: Float64Array, at: number, nowMs: number): number {
    const latencyMs = numbers[at + LATENCY] as number;
    const ageMs = nowMs - (numbers[at + UPDATED] as number);
    if (ageMs < SURVEY_MS || this.limitMs === Number.POSITIVE_INFINITY) return latencyMs;
    return this.medianMs + (latencyMs - this.medianMs) * Math.exp(-ageMs / FORGIVEN_MS);
  }

  /** The state of the survey for a recording, as `LoadRule.memory`. */
  memory(): number[] {
    const { medianMs, limitMs, takenAtMs, firstMedianMs, evidence, mostAfterGap, slowRatio } = this;
    return [medianMs, limitMs, takenAtMs, firstMedianMs, evidence, mostAfterGap, this.#isOutage ? 1 : 0, slowRatio];
  }

  /** Restores the state that `memory` returned; returns the rest of the list. */
  recall([
    medianMs,
    limitMs,
    takenAtMs,
    firstMedianMs,
    evidence,
    mostAfterGap,
    outage,
    slowRatio,
    ...rest
  ]: readonly number[]): number[] {
    this.medianMs = medianMs ?? 0;
    this.limitMs = limitMs ?? Number.POSITIVE_INFINITY;
    this.takenAtMs = takenAtMs ?? Number.NEGATIVE_INFINITY;
    this.firstMedianMs = firstMedianMs ?? 0;
    this.#firstsKnown = 0;
    this.evidence = evidence ?? EVIDENCE;
    this.mostAfterGap = mostAfterGap ?? MOST_AT_ONCE;
    this.#isOutage = outage === 1;
    this.slowRatio = slowRatio ?? SLOW_RATIO;
    return rest;
  }

  /** Updates the median of first latencies. @param measured How many endpoints have had a call. */
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
