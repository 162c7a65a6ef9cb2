import type { LoadReport, Outcome } from '../endpoint/outcome.js';
import { checkNoOptions } from '../runtime/check.js';
import { Cells } from './cells.js';
import type { LoadFactory, LoadSet } from './load.js';
import { DEFAULT_CHOICES, type LoadRule, RuledLoad } from './load-rule.js';
import { lowerMedian } from './median.js';
import { requestsInFlight, requestsWaiting } from './orca.js';

/** An endpoint is slow beyond this multiple of the median latency … */
const SLOW_RATIO = 2;
/** … if that is at least this much above the median, in ms: what a zone farther away costs is no reason to avoid it. */
const SLOW_FLOOR_MS = 5;
/** One sample moves the average by at least this share … */
const LEAST_STEP = 0.1;
/** … and by more if the last one is old, in ms. */
const AVERAGE_MS = 2_000;
/** Gaps up to this long move the average by `LEAST_STEP`, in ms. */
const SHORT_GAP_MS = -AVERAGE_MS * Math.log(1 - LEAST_STEP);
/** In this time an endpoint that gets no calls is forgiven all but a third of its latency and of its failures, in ms. */
const FORGIVEN_MS = 20_000;
/**
 * A call counts as at most this many times the limit, or the endpoint's own average. One long call is then no evidence: with long
 * polls or reports among short calls, the endpoint that answered the last of them would look slow.
 */
const MOST_AT_ONCE = 2;
/**
 * The same for a call after a long gap, in a set of many endpoints. There a client asks each endpoint now and then: it has only few
 * calls to go by, and to be wrong about one endpoint costs little.
 */
const MOST_AT_ONCE_OF_MANY = 4;
/** That many endpoints are many. */
const MANY = 16;
/**
 * Of so many first calls the fastest counts, since they also pay for a cold start. Not if it is long ago: by then it is forgotten.
 */
const FIRST_SAMPLES = 8;
/** That long ago, in ms: half of it is. */
const LONG_GAP_MS = AVERAGE_MS * Math.LN2;
/** So many calls are evidence that an endpoint is slow; fewer in larger sets. */
const EVIDENCE = 4;
/** One call is never evidence: it may have paid for a cold start that took longer than those of the others. */
const LEAST_EVIDENCE = 2;
/** Up to so many endpoints these numbers hold; with twice as many they are half as large, and so on. */
const FEW = 3;
/** How much one call changes the share of failures. */
const FAILURE_STEP = 1 / 16;
/** Failures make an endpoint at most this many times as expensive. */
const MOST_FAILING = 100;
/** Below this share the factor is 1.02: not worth computing. */
const FEW_FAILURES = 0.01;
/** How often the median is taken anew, in ms. */
const SURVEY_MS = 100;
/** Costs are integers (hundredths of a call), because fractions would be boxed at every pick. */
const UNITS = 100;
const MOST_UNITS = 2 ** 31 - 1;

/** In this time all but a third of a report is forgotten, and the median of all takes its place, in ms. */
const REPORT_FADES_MS = 100;
/** A report older than this counts for nothing, in ms. */
const REPORT_LASTS_MS = 6 * REPORT_FADES_MS;
/** Weights of reports by their age, a step per ms: `Math.exp` would be half the cost of a pick. */
const reportWeights: Float64Array = Float64Array.from({ length: REPORT_LASTS_MS + 1 }, (_, ageMs) =>
  Math.exp(-ageMs / REPORT_FADES_MS),
);
/**
 * How far above the median a report may be: at most so many times, plus the same number of calls. A server that claims more gets few
 * calls as it is, and must not change what is thought of those that say nothing.
 */
const MOST_OF_USUAL = 8;
/** And never beyond this many calls. */
const MOST_OTHERS = 10_000;
/** The first report of all is believed up to this many calls: there is nothing to compare it with. */
const MOST_AT_FIRST = 16;
/** Without reports for this long the set counts as one without, in ms. */
const REPORTS_END_MS = 5_000;
/** How many endpoints are compared for a call while servers report. More of them are known well enough to be worth it. */
const CHOICES_WITH_REPORTS = 8;
/** And while endpoints are asked as well, besides the last that answered. */
const CHOICES_WITH_PROBES = 12;
/** An endpoint whose report is younger than this need not be asked, in ms … */
const FRESH_MS = 50;
/** … and none need be while this share of them has such a report. */
const FRESH_SHARE = 1 / 2;
/** How much one endpoint that was drawn changes what is thought of that share. */
const FRESH_STEP = 1 / 64;

// Offsets in an endpoint's cell.
/** What a pick reads: the cost of a call, in units. 0 = `UNITS`, since nothing is known. */
const COST = 0;
/** Moving average of the latency, in ms. */
const LATENCY = 1;
/** When the latency was last updated. */
const UPDATED = 2;
/** Calls that made up the latency. */
const SAMPLES = 3;
/** Share of recent calls that failed, 0 to 1. */
const FAILING = 4;
/** When it was last updated. */
const FAILING_AT = 5;
/** Others' calls in flight there as last reported, plus 1; 0 = never reported. */
const OTHERS = 6;
/** When that was. */
const REPORTED_AT = 7;
/** Latency of the first call, in ms. */
const FIRST = 8;
/** Whether it counts its requests in flight: 1. Then it can be asked. */
const COUNTS = 9;
const FIELDS = 10;

/**
 * Calls in flight, more expensive on an endpoint that stands out: one that takes more than twice as long as the median endpoint
 * of the set (and at least 5 ms longer), or one that fails. Endpoints within these bounds count alike, so calls stay even among
 * them, as with `inFlight`. The default.
 *
 * An endpoint beyond the limit costs as many times more as it is slower than the median, after its first four calls; after fewer in
 * sets of more than three.
 * A failure never improves the cost, however fast it was: the cost is multiplied by 1 / (1 − share of failures)², at most by 100.
 * When an outage of most endpoints ends, their failures are forgotten. Without calls an endpoint's latency drifts back to the
 * median and its share of failures to 0 within about 20 s, so that it is tried again.
 *
 * While servers report how many requests they have in flight (`evenkeel/server`, or any that sends ORCA with such a count), the
 * calls of other clients count like our own. A report fades towards the median of all within 100 ms; an endpoint without one
 * counts as the median. Where calls are too rare to know by them, the balancer asks a few endpoints per call. A report is only a hint: it is bounded by the median, and latency and failures count as ever.
 *
 * Latency is the time to the first byte of the response, where the protocol has one. A call its caller abandoned raises the
 * latency if it lasted longer, and never lowers it. One long call among short ones changes little. Nothing is learned from a call
 * in which our own event loop was blocked.
 */
export const relativeLatency = (...none: []): LoadFactory => {
  checkNoOptions('relativeLatency', none);
  const rules = new WeakMap<LoadSet, RelativeLatencyRule>();
  const cells = new Cells(FIELDS);
  return (set) => {
    let rule = rules.get(set);
    if (rule === undefined) {
      rule = new RelativeLatencyRule(set);
      rules.set(set, rule);
    }
    return new RuledLoad(rule, cells.take());
  };
};

/** The rule for the endpoints of one set. */
class RelativeLatencyRule implements LoadRule {
  readonly decays = true;
  readonly #set: LoadSet;
  #medianMs = 0;
  /** Up to here an endpoint is not slow. */
  #limitMs = Number.POSITIVE_INFINITY;
  #surveyedAtMs = Number.NEGATIVE_INFINITY;
  /** Median of the first latencies, which pay for a cold start: one that is as slow with its first calls is not slow. */
  #firstMedianMs = 0;
  /** As `EVIDENCE` and `MOST_AT_ONCE_OF_MANY`, for a set of this size. */
  #evidence = EVIDENCE;
  #mostAfterGap = MOST_AT_ONCE;
  /** Whether most endpoints fail. */
  #isOutage = false;
  choices: number = DEFAULT_CHOICES;
  /** Median of others' calls in flight over the endpoints, each with its latest report, and the most that is believed. */
  #usualOthers = 0;
  #mostOthers = 0;
  /** Whether there are reports. */
  #hasReports = false;
  #reportedAtMs = 0;
  /** Share of endpoints with a fresh report, as seen on those drawn to be asked. */
  #fresh = 0;
  /** Whether some have answered a call without counting their requests: then those that have not answered one yet may not either. */
  #isMixed = true;
  /** When the last one was to be asked. */
  #askedAtMs = Number.NEGATIVE_INFINITY;

  /** What medians are taken of, kept for the next time. */
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
    // The count of all includes ours; of those that only wait it is not known how many are.
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
    this.#askedAtMs = nowMs;
    this.choices = CHOICES_WITH_PROBES;
    return numbers[at + COUNTS] === 1 || (!this.#isMixed && numbers[at + SAMPLES] === 0);
  }

  /** Takes the median anew and prices every endpoint by it. O(n), at the end of a call at most every `SURVEY_MS`. */
  #survey(nowMs: number): void {
    this.#surveyedAtMs = nowMs;
    if (this.#hasReports) this.#surveyReports(nowMs);
    let measured = 0;
    let failing = 0;
    let size = 0;
    for (const load of this.#set.loads) {
      if (!(load instanceof RuledLoad) || load.rule !== this) continue;
      const { numbers, at } = load;
      if (++size > this.#values.length) this.#grow();
      if ((numbers[at + SAMPLES] as number) > 0) {
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
    // The lower of the two middle ones: of two endpoints the faster, or the slow one would set the limit.
    this.#medianMs = lowerMedian(this.#values, measured);
    this.#firstMedianMs = lowerMedian(this.#firsts, measured);
    this.#limitMs = Math.max(SLOW_RATIO * this.#medianMs, this.#medianMs + SLOW_FLOOR_MS);
    for (const load of this.#set.loads) {
      if (!(load instanceof RuledLoad) || load.rule !== this) continue;
      // What all did is held against none: the last to get a call would have none for a long time.
      if (wasOutage && !this.#isOutage) load.numbers[load.at + FAILING] = 0;
      this.#price(load.numbers, load.at, nowMs);
    }
  }

  /** Each endpoint counts once, however many reports it sends. */
  #surveyReports(nowMs: number): void {
    if (nowMs - this.#reportedAtMs > REPORTS_END_MS) {
      this.#hasReports = false;
      this.choices = DEFAULT_CHOICES;
      return;
    }
    if (nowMs - this.#askedAtMs > REPORTS_END_MS) this.choices = CHOICES_WITH_REPORTS;
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

  /** The latency of an endpoint, nearer to the median the longer it had no call. */
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
      cost *= (SLOW_RATIO * latencyMs) / this.#limitMs;
    }
    const failing = numbers[at + FAILING] as number;
    if (failing > FEW_FAILURES) {
      const working = 1 - failing * Math.exp(((numbers[at + FAILING_AT] as number) - nowMs) / FORGIVEN_MS);
      cost *= Math.min(1 / (working * working), MOST_FAILING);
    }
    numbers[at + COST] = Math.min(cost, MOST_UNITS) | 0;
  }
}

function learn(numbers: Float64Array, at: number, sampleMs: number, nowMs: number): void {
  const samples = numbers[at + SAMPLES] as number;
  const latencyMs = numbers[at + LATENCY] as number;
  const gapMs = nowMs - (numbers[at + UPDATED] as number);
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

/** @param failed 1 or 0. */
function learnFailure(numbers: Float64Array, at: number, failed: number, nowMs: number): void {
  const kept = Math.exp(((numbers[at + FAILING_AT] as number) - nowMs) / FORGIVEN_MS);
  const failing = (numbers[at + FAILING] as number) * kept;
  const next = failing + (failed - failing) * FAILURE_STEP;
  numbers[at + FAILING] = failed === 0 && next < FEW_FAILURES / 10 ? 0 : next;
  numbers[at + FAILING_AT] = nowMs;
}
