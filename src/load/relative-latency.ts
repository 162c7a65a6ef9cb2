import type { LoadReport, Outcome } from '../endpoint/outcome.js';
import { checkNoOptions } from '../runtime/check.js';
import { described } from '../runtime/described.js';
import { Cells } from './cells.js';
import { CountedCalls, MOST_UNITS, UNITS } from './counted-calls.js';
import {
  COST,
  FAILING,
  FAILING_AT,
  FEW_FAILURES,
  FIELDS,
  FIRST,
  FIRST_SAMPLES,
  FORGIVEN_MS,
  LATENCY,
  learn,
  learnFailure,
  SAMPLES,
  SHORT_GAP_MS,
  UPDATED,
} from './latency-cell.js';
import type { LoadFactory, LoadFacts, LoadSet } from './load.js';
import { type LoadRule, RuledLoad } from './load-rule.js';
import { lowerMedian } from './median.js';

/** An endpoint is slow beyond this multiple of the median latency … */
const SLOW_RATIO = 2;
/** … if that is at least this much above the median, in ms: the cost of a farther zone is no reason to avoid it. */
const SLOW_FLOOR_MS = 5;
/**
 * A call counts as at most this many times the limit or the endpoint's own average, so one long call is no evidence. With long
 * polls or reports among short calls, the endpoint that answered the last of them would otherwise look slow.
 */
const MOST_AT_ONCE = 2;
/**
 * The same for a call after a long gap in a large set. There a client calls each endpoint only now and then: it has few calls to
 * judge by, and a mistake about one endpoint costs little.
 */
const MOST_AT_ONCE_OF_MANY = 4;
/** A set with this many endpoints is large. */
const MANY = 16;
/** In a large set that is called rarely, an endpoint is slow beyond this multiple: what is known of it is old, and tells little. */
const SLOW_RATIO_WHEN_RARE = 1.5;
/** A set is called rarely while most endpoints have not answered a call for this long, in ms. */
const RARE_MS = 1_000;
/** This many calls are evidence that an endpoint is slow; fewer in larger sets. */
const EVIDENCE = 4;
/** One call is never evidence: it may have paid for an unusually long cold start. */
const LEAST_EVIDENCE = 2;
/** `EVIDENCE` applies up to this many endpoints. With twice as many, half of it is enough, and so on. */
const FEW = 3;
/** Failures make an endpoint at most this many times as expensive. */
const MOST_FAILING = 100;
/** How often the median is updated, in ms. */
const SURVEY_MS = 100;
/**
 * Calls in flight, but an endpoint that stands out costs more: one that takes more than twice as long as the median endpoint of
 * the set (and at least 5 ms longer), or one that fails. Endpoints within these bounds count alike, so calls stay even among
 * them, as with `inFlight`. In a set of 16 or more, the limit is 1.5 times the median while most endpoints have had no call for a
 * second. The default.
 *
 * Beyond the limit, the cost grows with the ratio of the endpoint's latency to the median, after its first four calls (fewer in
 * sets of more than three). A failure never improves the cost, however fast it was: the cost is multiplied by
 * 1 / (1 − share of failures)², at most by 100. When an outage of most endpoints ends, their failures are forgotten. Without
 * calls, an endpoint's latency drifts back to the median and its share of failures to 0 within about 20 s, so that it is tried
 * again.
 *
 * While servers report how many requests they have in flight (`evenkeel/server`, or any that sends ORCA with such a count), other
 * clients' calls count like our own. A report fades towards the median of all within 100 ms; an endpoint without a report counts
 * as the median. Where calls are too rare to keep reports fresh, the balancer probes a few endpoints per call. A report is only a
 * hint: it is bounded by the median, and latency and failures still count.
 *
 * Latency is the time to the first byte of the response, where the protocol has one. A call the caller abandoned raises the
 * latency if it lasted longer, and never lowers it. One long call among short ones changes little. A call during which our own
 * event loop was blocked is not measured.
 */
export const relativeLatency = (...none: []): LoadFactory => {
  checkNoOptions('relativeLatency', none);
  const rules = new WeakMap<LoadSet, RelativeLatencyRule>();
  const cells = new Cells(FIELDS);
  const factory: LoadFactory = (set) => {
    let rule = rules.get(set);
    if (rule === undefined) {
      rule = new RelativeLatencyRule(set);
      rules.set(set, rule);
    }
    return new RuledLoad(rule, cells.take());
  };
  return described(factory, 'relativeLatency');
};

/** The rule for all endpoints of one set. */
class RelativeLatencyRule implements LoadRule {
  readonly decays = true;
  readonly calls = new CountedCalls();
  readonly #set: LoadSet;
  #medianMs = 0;
  /** Latencies up to this are not slow. */
  #limitMs = Number.POSITIVE_INFINITY;
  #surveyedAtMs = Number.NEGATIVE_INFINITY;
  /** Median of first latencies, which include the cold start. An endpoint just as slow in its first calls is not slow. */
  #firstMedianMs = 0;
  /** How many endpoints that median is of; 0 = an endpoint has had its first call since. */
  #firstsKnown = 0;
  /** `EVIDENCE` and `MOST_AT_ONCE` for a set of this size. */
  #evidence = EVIDENCE;
  #mostAfterGap = MOST_AT_ONCE;
  /** `SLOW_RATIO`, or the one for a large set that is called rarely. */
  #slowRatio = SLOW_RATIO;
  /** Whether most endpoints fail. */
  #isOutage = false;
  /** Scratch space for medians, reused. */
  #values = new Float64Array(16);

  constructor(set: LoadSet) {
    this.#set = set;
  }

  end(numbers: Float64Array, at: number, startedMs: number, nowMs: number, outcome: Outcome): void {
    const { kind } = outcome;
    if (kind === 'not-started') return;
    const tookMs = nowMs - startedMs;
    const latencyMs = numbers[at + LATENCY] as number;
    if (kind === 'success' || tookMs > latencyMs) {
      const isAfterGap = nowMs - (numbers[at + UPDATED] as number) > SHORT_GAP_MS;
      const most = (isAfterGap ? this.#mostAfterGap : MOST_AT_ONCE) * Math.max(this.#limitMs, latencyMs);
      if (numbers[at + SAMPLES] === 0) this.#firstsKnown = 0;
      learn(numbers, at, Math.min(tookMs, most), nowMs);
    }
    if (kind === 'failure') learnFailure(numbers, at, 1, nowMs);
    else if (kind === 'success' && numbers[at + FAILING] !== 0) learnFailure(numbers, at, 0, nowMs);
    if (nowMs - this.#surveyedAtMs >= SURVEY_MS) this.#survey(nowMs);
    else this.#price(numbers, at, nowMs);
  }

  value(numbers: Float64Array, at: number, inFlight: number, nowMs: number): number {
    return this.calls.cost(numbers, at, inFlight, nowMs);
  }

  unit(numbers: Float64Array, at: number): number {
    return this.calls.hasReports ? (numbers[at + COST] as number) || UNITS : 0;
  }

  get choices(): number {
    return this.calls.choices;
  }

  get usesReports(): boolean {
    return this.calls.hasReports;
  }

  reported(numbers: Float64Array, at: number, report: LoadReport, inFlight: number, nowMs: number): void {
    this.calls.reported(numbers, at, report, inFlight, nowMs);
  }

  wantsReport(numbers: Float64Array, at: number, nowMs: number): boolean {
    return this.calls.wantsReport(numbers, at, nowMs);
  }

  facts(numbers: Float64Array, at: number, nowMs: number): LoadFacts {
    const failing =
      (numbers[at + FAILING] as number) * Math.exp(((numbers[at + FAILING_AT] as number) - nowMs) / FORGIVEN_MS);
    return {
      ...((numbers[at + SAMPLES] as number) > 0 && { latencyMs: this.#latencyMs(numbers, at, nowMs) }),
      ...(failing > FEW_FAILURES && { failing }),
      ...this.calls.facts(numbers, at, nowMs),
    };
  }

  memory(): number[] {
    return [
      this.#medianMs,
      this.#limitMs,
      this.#surveyedAtMs,
      this.#firstMedianMs,
      this.#evidence,
      this.#mostAfterGap,
      this.#isOutage ? 1 : 0,
      ...this.calls.memory(),
      this.#slowRatio,
    ];
  }

  recall(memory: readonly number[]): void {
    const number = (at: number): number => memory[at] ?? 0;
    this.#medianMs = number(0);
    this.#limitMs = number(1);
    this.#surveyedAtMs = number(2);
    this.#firstMedianMs = number(3);
    this.#firstsKnown = 0;
    this.#evidence = number(4);
    this.#mostAfterGap = number(5);
    this.#isOutage = number(6) === 1;
    this.calls.recall(memory.slice(7));
    this.#slowRatio = memory[14] ?? SLOW_RATIO;
  }

  /** Updates the median and the cost of every endpoint. O(n), at the end of a call, at most every `SURVEY_MS`. */
  #survey(nowMs: number): void {
    this.#surveyedAtMs = nowMs;
    const { calls } = this;
    calls.surveying(nowMs);
    const { hasReports } = calls;
    let measured = 0;
    let rare = 0;
    let failing = 0;
    let size = 0;
    for (const load of this.#set.loads) {
      if (!(load instanceof RuledLoad) || load.rule !== this) continue;
      const { numbers, at } = load;
      if (++size > this.#values.length) this.#grow();
      if ((numbers[at + SAMPLES] as number) > 0) {
        if (nowMs - (numbers[at + UPDATED] as number) > RARE_MS) rare++;
        this.#values[measured++] = this.#latencyMs(numbers, at, nowMs);
      }
      if ((numbers[at + FAILING] as number) > 1 / 2) failing++;
      if (hasReports) calls.survey(numbers, at, nowMs);
    }
    if (hasReports) calls.surveyed();
    const share = Math.min(1, FEW / size);
    this.#evidence = Math.max(LEAST_EVIDENCE, Math.ceil(EVIDENCE * share));
    this.#mostAfterGap = size >= MANY ? MOST_AT_ONCE_OF_MANY : MOST_AT_ONCE;
    const wasOutage = this.#isOutage;
    this.#isOutage = 2 * failing > measured;
    if (measured === 0) return;
    // For an even number the lower of the two middle ones: of two endpoints, the slow one must not set the limit.
    this.#medianMs = lowerMedian(this.#values, measured);
    this.#slowRatio = size >= MANY && 2 * rare > measured ? SLOW_RATIO_WHEN_RARE : SLOW_RATIO;
    this.#limitMs = Math.max(this.#slowRatio * this.#medianMs, this.#medianMs + SLOW_FLOOR_MS);
    if (this.#firstsKnown !== measured) this.#surveyFirsts(measured);
    for (const load of this.#set.loads) {
      if (!(load instanceof RuledLoad) || load.rule !== this) continue;
      // Failures in an outage of all are forgotten; otherwise the last to get a call would get none for a long time.
      if (wasOutage && !this.#isOutage) load.numbers[load.at + FAILING] = 0;
      this.#price(load.numbers, load.at, nowMs);
    }
  }

  /** @param measured How many endpoints have had a call. */
  #surveyFirsts(measured: number): void {
    let count = 0;
    for (const load of this.#set.loads) {
      if (!(load instanceof RuledLoad) || load.rule !== this) continue;
      const { numbers, at } = load;
      if ((numbers[at + SAMPLES] as number) > 0) this.#values[count++] = numbers[at + FIRST] as number;
    }
    this.#firstMedianMs = lowerMedian(this.#values, count);
    this.#firstsKnown = measured;
  }

  #grow(): void {
    const values = new Float64Array(2 * this.#values.length);
    values.set(this.#values);
    this.#values = values;
  }

  /** The latency of an endpoint; drifts towards the median while it gets no calls. */
  #latencyMs(numbers: Float64Array, at: number, nowMs: number): number {
    const latencyMs = numbers[at + LATENCY] as number;
    const ageMs = nowMs - (numbers[at + UPDATED] as number);
    if (ageMs < SURVEY_MS || this.#limitMs === Number.POSITIVE_INFINITY) return latencyMs;
    return this.#medianMs + (latencyMs - this.#medianMs) * Math.exp(-ageMs / FORGIVEN_MS);
  }

  #isEvidence(latencyMs: number, samples: number): boolean {
    if (samples < this.#evidence) return false;
    return samples >= FIRST_SAMPLES || latencyMs > SLOW_RATIO * this.#firstMedianMs;
  }

  #price(numbers: Float64Array, at: number, nowMs: number): void {
    let cost = UNITS;
    // Drifting towards the median takes no endpoint beyond the limit.
    if ((numbers[at + LATENCY] as number) > this.#limitMs) {
      const latencyMs = this.#latencyMs(numbers, at, nowMs);
      if (latencyMs > this.#limitMs && this.#isEvidence(latencyMs, numbers[at + SAMPLES] as number)) {
        cost *= (this.#slowRatio * latencyMs) / this.#limitMs;
      }
    }
    const failing = numbers[at + FAILING] as number;
    if (failing > FEW_FAILURES) {
      const working = 1 - failing * Math.exp(((numbers[at + FAILING_AT] as number) - nowMs) / FORGIVEN_MS);
      cost *= Math.min(1 / (working * working), MOST_FAILING);
    }
    numbers[at + COST] = Math.min(cost, MOST_UNITS) | 0;
  }
}
