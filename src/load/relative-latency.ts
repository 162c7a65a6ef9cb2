import type { LoadReport, Outcome } from '../endpoint/outcome.js';
import { checkNoOptions } from '../runtime/check.js';
import { described } from '../runtime/described.js';
import { Cells } from './cells.js';
import {
  COST,
  COUNTS,
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
  OTHERS,
  REPORTED_AT,
  SAMPLES,
  SHORT_GAP_MS,
  UPDATED,
} from './latency-cell.js';
import type { LoadFactory, LoadSet } from './load.js';
import { DEFAULT_CHOICES, type LoadFacts, type LoadRule, RuledLoad } from './load-rule.js';
import { lowerMedian } from './median.js';
import { requestsInFlight, requestsWaiting } from './orca.js';

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
/** Costs are integers (hundredths of a call), because fractions would be boxed at every pick. */
const UNITS = 100;
const MOST_UNITS = 2 ** 31 - 1;

/** In this time a report fades to a third, and the median of all takes its place, in ms. */
const REPORT_FADES_MS = 100;
/** A report older than this is ignored, in ms. */
const REPORT_LASTS_MS = 6 * REPORT_FADES_MS;
/** Weights of reports by age, one entry per ms: `Math.exp` would be half the cost of a pick. */
const reportWeights: Float64Array = Float64Array.from({ length: REPORT_LASTS_MS + 1 }, (_, ageMs) =>
  Math.exp(-ageMs / REPORT_FADES_MS),
);
/**
 * A report counts as at most this many times the median, plus the same number of calls. A server that claims more gets few calls
 * anyway, and must not affect how the servers without reports are judged.
 */
const MOST_OF_USUAL = 8;
/** Absolute limit of a report, in calls. */
const MOST_OTHERS = 10_000;
/** Limit of the very first report, in calls: there is nothing to compare it with. */
const MOST_AT_FIRST = 16;
/** After this long without reports, the set counts as one without reports, in ms. */
const REPORTS_END_MS = 5_000;
/** How many endpoints a pick compares while servers report: enough is known about them to make it worthwhile. */
const CHOICES_WITH_REPORTS = 8;
/** An endpoint whose report is younger than this need not be probed, in ms … */
const FRESH_MS = 50;
/** … and none need be probed while this share of endpoints has such a report. */
const FRESH_SHARE = 1 / 2;
/** How much one drawn endpoint changes the estimate of that share. */
const FRESH_STEP = 1 / 64;

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
  readonly #set: LoadSet;
  #medianMs = 0;
  /** Latencies up to this are not slow. */
  #limitMs = Number.POSITIVE_INFINITY;
  #surveyedAtMs = Number.NEGATIVE_INFINITY;
  /** Median of first latencies, which include the cold start. An endpoint just as slow in its first calls is not slow. */
  #firstMedianMs = 0;
  /** `EVIDENCE` and `MOST_AT_ONCE` for a set of this size. */
  #evidence = EVIDENCE;
  #mostAfterGap = MOST_AT_ONCE;
  /** `SLOW_RATIO`, or the one for a large set that is called rarely. */
  #slowRatio = SLOW_RATIO;
  /** Whether most endpoints fail. */
  #isOutage = false;
  choices: number = DEFAULT_CHOICES;
  /** Median over endpoints of other clients' calls in flight, by their latest reports; and the limit of a report. */
  #usualOthers = 0;
  #mostOthers = 0;
  /** Whether servers report. */
  #hasReports = false;
  #reportedAtMs = 0;
  /** Share of endpoints with a fresh report, estimated from those drawn for a probe. */
  #fresh = 0;
  /** Whether some endpoints answer calls without counting their requests. If so, ones that have not answered yet may not count either. */
  #isMixed = true;

  /** Scratch space for medians, reused. */
  #values = new Float64Array(16);
  #firsts = new Float64Array(16);

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
      learn(numbers, at, Math.min(tookMs, most), nowMs);
    }
    if (kind === 'failure') learnFailure(numbers, at, 1, nowMs);
    else if (kind === 'success' && numbers[at + FAILING] !== 0) learnFailure(numbers, at, 0, nowMs);
    if (nowMs - this.#surveyedAtMs >= SURVEY_MS) this.#survey(nowMs);
    else this.#price(numbers, at, nowMs);
  }

  value(numbers: Float64Array, at: number, inFlight: number, nowMs: number): number {
    const unit = (numbers[at + COST] as number) || UNITS;
    let calls = inFlight + 1;
    if (this.#hasReports) {
      const usual = this.#usualOthers;
      const others = numbers[at + OTHERS] as number;
      const ageMs = Math.max(0, nowMs - (numbers[at + REPORTED_AT] as number));
      calls += usual;
      if (others !== 0 && ageMs < REPORT_LASTS_MS) calls += (others - 1 - usual) * (reportWeights[ageMs | 0] as number);
    }
    const cost = calls * unit + 0.5;
    return cost < MOST_UNITS ? cost | 0 : MOST_UNITS;
  }

  unit(numbers: Float64Array, at: number): number {
    return this.#hasReports ? (numbers[at + COST] as number) || UNITS : 0;
  }

  reported(numbers: Float64Array, at: number, report: LoadReport, inFlight: number, nowMs: number): void {
    const said = requestsInFlight(report);
    // The count of all requests includes ours; how many of the waiting ones are ours is unknown.
    const others = said === undefined ? requestsWaiting(report) : Math.max(0, said - inFlight);
    if (others === undefined) return;
    if (!this.#hasReports) {
      this.#hasReports = true;
      this.choices = CHOICES_WITH_REPORTS;
      this.#usualOthers = Math.min(others, MOST_AT_FIRST);
      this.#mostOthers = MOST_OF_USUAL * (this.#usualOthers + 1);
    }
    numbers[at + COUNTS] = said === undefined ? 0 : 1;
    numbers[at + OTHERS] = Math.min(others, this.#mostOthers) + 1;
    numbers[at + REPORTED_AT] = nowMs;
    this.#reportedAtMs = nowMs;
  }

  get usesReports(): boolean {
    return this.#hasReports;
  }

  wantsReport(numbers: Float64Array, at: number, nowMs: number): boolean {
    const isFresh = numbers[at + OTHERS] !== 0 && nowMs - (numbers[at + REPORTED_AT] as number) < FRESH_MS;
    this.#fresh += ((isFresh ? 1 : 0) - this.#fresh) * FRESH_STEP;
    if (isFresh || this.#fresh >= FRESH_SHARE || this.#usualOthers === 0) return false;
    return numbers[at + COUNTS] === 1 || (!this.#isMixed && numbers[at + SAMPLES] === 0);
  }

  facts(numbers: Float64Array, at: number, nowMs: number): LoadFacts {
    const failing =
      (numbers[at + FAILING] as number) * Math.exp(((numbers[at + FAILING_AT] as number) - nowMs) / FORGIVEN_MS);
    const isReported = this.#hasReports && numbers[at + OTHERS] !== 0;
    return {
      ...((numbers[at + SAMPLES] as number) > 0 && { latencyMs: this.#latencyMs(numbers, at, nowMs) }),
      ...(failing > FEW_FAILURES && { failing }),
      ...(isReported && {
        others: (numbers[at + OTHERS] as number) - 1,
        reportAgeMs: nowMs - (numbers[at + REPORTED_AT] as number),
      }),
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
      this.choices,
      this.#usualOthers,
      this.#mostOthers,
      this.#hasReports ? 1 : 0,
      this.#reportedAtMs,
      this.#fresh,
      this.#isMixed ? 1 : 0,
      this.#slowRatio,
    ];
  }

  recall(memory: readonly number[]): void {
    const number = (at: number): number => memory[at] ?? 0;
    this.#medianMs = number(0);
    this.#limitMs = number(1);
    this.#surveyedAtMs = number(2);
    this.#firstMedianMs = number(3);
    this.#evidence = number(4);
    this.#mostAfterGap = number(5);
    this.#isOutage = number(6) === 1;
    this.choices = number(7);
    this.#usualOthers = number(8);
    this.#mostOthers = number(9);
    this.#hasReports = number(10) === 1;
    this.#reportedAtMs = number(11);
    this.#fresh = number(12);
    this.#isMixed = number(13) === 1;
    this.#slowRatio = memory[14] ?? SLOW_RATIO;
  }

  /** Updates the median and the cost of every endpoint. O(n), at the end of a call, at most every `SURVEY_MS`. */
  #survey(nowMs: number): void {
    this.#surveyedAtMs = nowMs;
    if (this.#hasReports) this.#surveyReports(nowMs);
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
        this.#values[measured] = this.#latencyMs(numbers, at, nowMs);
        this.#firsts[measured++] = numbers[at + FIRST] as number;
      }
      if ((numbers[at + FAILING] as number) > 1 / 2) failing++;
    }
    const share = Math.min(1, FEW / size);
    this.#evidence = Math.max(LEAST_EVIDENCE, Math.ceil(EVIDENCE * share));
    this.#mostAfterGap = size >= MANY ? MOST_AT_ONCE_OF_MANY : MOST_AT_ONCE;
    const wasOutage = this.#isOutage;
    this.#isOutage = 2 * failing > measured;
    if (measured === 0) return;
    // For an even number the lower of the two middle ones: of two endpoints, the slow one must not set the limit.
    this.#medianMs = lowerMedian(this.#values, measured);
    this.#firstMedianMs = lowerMedian(this.#firsts, measured);
    this.#slowRatio = size >= MANY && 2 * rare > measured ? SLOW_RATIO_WHEN_RARE : SLOW_RATIO;
    this.#limitMs = Math.max(this.#slowRatio * this.#medianMs, this.#medianMs + SLOW_FLOOR_MS);
    for (const load of this.#set.loads) {
      if (!(load instanceof RuledLoad) || load.rule !== this) continue;
      // Failures in an outage of all are forgotten; otherwise the last to get a call would get none for a long time.
      if (wasOutage && !this.#isOutage) load.numbers[load.at + FAILING] = 0;
      this.#price(load.numbers, load.at, nowMs);
    }
  }

  /** Each endpoint counts once, no matter how many reports it sends. */
  #surveyReports(nowMs: number): void {
    if (nowMs - this.#reportedAtMs > REPORTS_END_MS) {
      this.#hasReports = false;
      this.choices = DEFAULT_CHOICES;
      return;
    }
    let reports = 0;
    this.#isMixed = false;
    for (const load of this.#set.loads) {
      if (!(load instanceof RuledLoad) || load.rule !== this) continue;
      const { numbers, at } = load;
      const others = numbers[at + OTHERS] as number;
      if (numbers[at + COUNTS] !== 1 && (numbers[at + SAMPLES] as number) > 0) this.#isMixed = true;
      if (others !== 0 && nowMs - (numbers[at + REPORTED_AT] as number) <= REPORTS_END_MS) {
        if (reports === this.#values.length) this.#grow();
        this.#values[reports++] = others - 1;
      }
    }
    if (reports === 0) return;
    this.#usualOthers = lowerMedian(this.#values, reports);
    this.#mostOthers = Math.min(MOST_OF_USUAL * (this.#usualOthers + 1), MOST_OTHERS);
  }

  #grow(): void {
    const values = new Float64Array(2 * this.#values.length);
    values.set(this.#values);
    this.#values = values;
    const firsts = new Float64Array(values.length);
    firsts.set(this.#firsts);
    this.#firsts = firsts;
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
    const latencyMs = this.#latencyMs(numbers, at, nowMs);
    if (latencyMs > this.#limitMs && this.#isEvidence(latencyMs, numbers[at + SAMPLES] as number)) {
      cost *= (this.#slowRatio * latencyMs) / this.#limitMs;
    }
    const failing = numbers[at + FAILING] as number;
    if (failing > FEW_FAILURES) {
      const working = 1 - failing * Math.exp(((numbers[at + FAILING_AT] as number) - nowMs) / FORGIVEN_MS);
      cost *= Math.min(1 / (working * working), MOST_FAILING);
    }
    numbers[at + COST] = Math.min(cost, MOST_UNITS) | 0;
  }
}
