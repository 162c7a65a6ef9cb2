import type { LoadReport, Outcome } from '../endpoint/outcome.js';
import { checkNoOptions } from '../runtime/check.js';
import { CallCosts } from './call-costs.js';
import { Cells } from './cells.js';
import { CountedCalls } from './counted-calls.js';
import {
  COST,
  FAILING,
  FAILING_AT,
  FIELDS,
  FIRST,
  LATENCY,
  MOST_UNITS,
  ORDER_COST,
  PLACE,
  SAMPLES,
  UNITS,
  UPDATED,
} from './latency-cell.js';
import { FORGIVEN_MS, LatencySurvey, MOST_AT_ONCE, SLOW_RATIO, SURVEY_MS } from './latency-survey.js';
import type { LoadFactory, LoadFacts, LoadSet } from './load.js';
import { type LoadRule, RuledLoad } from './load-rule.js';
import { Preferences } from './preference.js';

/** A call moves its endpoint's average latency by at least this share of the difference. */
const LEAST_STEP = 0.1;
/**
 * The time in which an old average latency loses two thirds of its weight, in ms. After a gap between calls, a call moves the average by
 * more than `LEAST_STEP` accordingly.
 */
const AVERAGE_MS = 2_000;
/** Gaps between calls up to this long move the average latency by `LEAST_STEP`, in ms. */
const SHORT_GAP_MS = -AVERAGE_MS * Math.log(1 - LEAST_STEP);
/** Of an endpoint's first calls, up to this many, the fastest counts, because the others may have paid for a cold start. */
const FIRST_SAMPLES = 8;
/**
 * If two of the first calls are further apart than this, in ms, the later one counts even if it is slower: half of the old average is
 * forgotten by then.
 */
const LONG_GAP_MS = AVERAGE_MS * Math.LN2;
/** How far one call moves its endpoint's share of failures, as a share of the difference. */
const FAILURE_STEP = 1 / 16;
/** Below this share of failures, an endpoint's cost would rise by less than 2 %, which is not worth computing. */
const FEW_FAILURES = 0.01;
/** Failures make an endpoint at most this many times as expensive. */
const MOST_FAILING = 100;
/**
 * Calls in flight, but an endpoint that stands out costs more: one that takes more than twice as long as the median endpoint of the set
 * (and at least 5 ms longer), or one that fails. Endpoints within these bounds cost the same, so calls are spread evenly among them, as
 * with `inFlight`. In a set of 16 or more, the limit is 1.5 times the median while most endpoints have had no call for a second. The
 * default load.
 *
 * Beyond the limit, the cost grows with the ratio of the endpoint's latency to the median, after its first four calls (fewer in sets of
 * more than three). A failure never improves the cost, however fast it was: the cost is multiplied by 1 / (1 − share of failures)², at most
 * by 100. When an outage of most endpoints ends, their failures are forgotten. Without calls, an endpoint's latency drifts back to the
 * median and its share of failures to 0 within about 20 s, so that it is tried again.
 *
 * While servers report how many requests they have in flight (`evenkeel/server`, or any that sends ORCA with such a count), other clients'
 * calls count like this client's own. A report fades towards the median of all within 100 ms; an endpoint without a report counts as the
 * median. A report is only a hint: it is bounded by the median, and latency and failures still count.
 *
 * Latency is the time to the first byte of the response, where the protocol has one. A call that its caller gave up raises the latency if
 * it lasted longer, and never lowers it. One long call among short ones changes little. A call during which this process's event loop was
 * blocked is not measured.
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
  return factory;
};

/**
 * The rule of `relativeLatency` for all endpoints of one set. When a call ends, it updates what is known about the call's endpoint, and
 * computes what the next call there costs.
 */
class RelativeLatencyRule implements LoadRule {
  readonly decays = true;
  readonly calls: CallCosts = new CallCosts();
  readonly #reports = new CountedCalls(this.calls);
  readonly preferences: Preferences = new Preferences(this.calls);
  readonly #survey = new LatencySurvey();
  readonly #set: LoadSet;
  /** Computes an endpoint's cost after a survey. It is created once, because V8 would put a closure per survey on the heap. */
  readonly #reprice = (numbers: Float64Array, at: number, nowMs: number): void => this.#price(numbers, at, nowMs);

  constructor(set: LoadSet) {
    this.#set = set;
  }

  start(): void {
    this.preferences.started();
  }

  endUnmeasured(): void {
    this.preferences.ended();
  }

  end(numbers: Float64Array, at: number, startedMs: number, nowMs: number, outcome: Outcome): void {
    const { kind } = outcome;
    this.preferences.ended();
    if (kind === 'not-started') return;
    const survey = this.#survey;
    const tookMs = nowMs - startedMs;
    const latencyMs = numbers[at + LATENCY] as number;
    if (kind === 'success' || tookMs > latencyMs) {
      if (numbers[at + SAMPLES] === 0) survey.grew();
      this.preferences.learn(numbers, at, startedMs, nowMs);
      learn(numbers, at, startedMs, nowMs, survey);
    }
    if (kind === 'failure') learnFailure(numbers, at, 1, nowMs);
    else if (kind === 'success' && numbers[at + FAILING] !== 0) learnFailure(numbers, at, 0, nowMs);
    if (nowMs - survey.takenAtMs < SURVEY_MS) this.#price(numbers, at, nowMs);
    else survey.take(this.#set, this, this.#reports, this.preferences, nowMs, this.#reprice);
  }

  value(numbers: Float64Array, at: number, inFlight: number, nowMs: number): number {
    return this.calls.cost(numbers, at, inFlight, nowMs);
  }

  unit(numbers: Float64Array, at: number): number {
    return this.calls.hasReports ? (numbers[at + COST] as number) || UNITS : 0;
  }

  get choices(): number {
    return this.#reports.choices;
  }

  reported(numbers: Float64Array, at: number, report: LoadReport, inFlight: number, nowMs: number): void {
    this.#reports.reported(numbers, at, report, inFlight, nowMs);
  }

  facts(numbers: Float64Array, at: number, nowMs: number): LoadFacts {
    const failing = failingNow(numbers, at, nowMs);
    const place = numbers[at + PLACE] as number;
    return {
      ...(place > 0 && { place }),
      ...((numbers[at + SAMPLES] as number) > 0 && { latencyMs: this.#survey.latencyMs(numbers, at, nowMs) }),
      ...(failing > FEW_FAILURES && { failing }),
      ...this.#reports.facts(numbers, at, nowMs),
    };
  }

  #price(numbers: Float64Array, at: number, nowMs: number): void {
    const survey = this.#survey;
    let cost = UNITS;
    // Drifting towards the median never takes an endpoint beyond the limit, so the drift needs to be computed only for endpoints beyond it.
    if ((numbers[at + LATENCY] as number) > survey.limitMs) {
      const latencyMs = survey.latencyMs(numbers, at, nowMs);
      if (latencyMs > survey.limitMs && this.#isEvidence(latencyMs, numbers[at + SAMPLES] as number)) {
        cost *= (survey.slowRatio * latencyMs) / survey.limitMs;
      }
    }
    let orderCost = UNITS * this.preferences.price(numbers, at, nowMs);
    if ((numbers[at + FAILING] as number) > FEW_FAILURES) {
      const working = 1 - failingNow(numbers, at, nowMs);
      const factor = Math.min(1 / (working * working), MOST_FAILING);
      cost *= factor;
      orderCost *= factor;
    }
    numbers[at + COST] = Math.min(cost, MOST_UNITS) | 0;
    numbers[at + ORDER_COST] = Math.min(orderCost, MOST_UNITS) | 0;
  }

  #isEvidence(latencyMs: number, samples: number): boolean {
    const { evidence, firstMedianMs } = this.#survey;
    if (samples < evidence) return false;
    return samples >= FIRST_SAMPLES || latencyMs > SLOW_RATIO * firstMedianMs;
  }
}

/**
 * Learns from a measured call that began at `startedMs`. Its duration is computed here, because a computed number as an argument would be
 * put on the heap.
 */
function learn(numbers: Float64Array, at: number, startedMs: number, nowMs: number, survey: LatencySurvey): void {
  const samples = numbers[at + SAMPLES] as number;
  const latencyMs = numbers[at + LATENCY] as number;
  const gapMs = nowMs - (numbers[at + UPDATED] as number);
  const most = (gapMs > SHORT_GAP_MS ? survey.mostAfterGap : MOST_AT_ONCE) * Math.max(survey.limitMs, latencyMs);
  const sampleMs = Math.min(nowMs - startedMs, most);
  if (samples === 0) {
    numbers[at + LATENCY] = sampleMs;
    numbers[at + FIRST] = sampleMs;
  } else if (samples < FIRST_SAMPLES && gapMs < LONG_GAP_MS) numbers[at + LATENCY] = Math.min(latencyMs, sampleMs);
  else {
    const step = gapMs > SHORT_GAP_MS ? 1 - Math.exp(-gapMs / AVERAGE_MS) : LEAST_STEP;
    numbers[at + LATENCY] = latencyMs + (sampleMs - latencyMs) * step;
  }
  numbers[at + SAMPLES] = samples + 1;
  numbers[at + UPDATED] = nowMs;
}

/** Learns from the outcome of a call. @param failed 1 if the call failed, else 0. */
function learnFailure(numbers: Float64Array, at: number, failed: number, nowMs: number): void {
  const failing = failingNow(numbers, at, nowMs);
  const next = failing + (failed - failing) * FAILURE_STEP;
  numbers[at + FAILING] = failed === 0 && next < FEW_FAILURES / 10 ? 0 : next;
  numbers[at + FAILING_AT] = nowMs;
}

/** The share of an endpoint's calls that failed; it fades while the endpoint gets no calls. */
function failingNow(numbers: Float64Array, at: number, nowMs: number): number {
  return (numbers[at + FAILING] as number) * Math.exp(((numbers[at + FAILING_AT] as number) - nowMs) / FORGIVEN_MS);
}
