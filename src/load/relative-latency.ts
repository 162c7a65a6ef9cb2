import type { Outcome } from '../endpoint/outcome.js';
import { checkNoOptions } from '../runtime/check.js';
import { Cells } from './cells.js';
import type { LoadFactory, LoadSet } from './load.js';
import { type LoadRule, RuledLoad } from './load-rule.js';

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
/** Of so many first calls the fastest counts, since they also pay for a cold start. */
const FIRST_SAMPLES = 8;
/** So many calls are evidence that an endpoint is slow. */
const EVIDENCE = 4;
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
const FIELDS = 6;

/**
 * Calls in flight, more expensive on an endpoint that stands out: one that takes more than twice as long as the median endpoint
 * of the set (and at least 5 ms longer), or one that fails. Endpoints within these bounds count alike, so calls stay even among
 * them, as with `inFlight`. The default.
 *
 * An endpoint beyond the limit costs as many times more as it is slower than the median, after its first four calls.
 * A failure never improves the cost, however fast it was: the cost is multiplied by 1 / (1 − share of failures)², at most by 100.
 * When an outage of most endpoints ends, their failures are forgotten. Without calls an endpoint's latency drifts back to the
 * median and its share of failures to 0 within about 20 s, so that it is tried again.
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
  /** Whether most endpoints fail. */
  #isOutage = false;

  constructor(set: LoadSet) {
    this.#set = set;
  }

  end(numbers: Float64Array, at: number, startedMs: number, nowMs: number, outcome: Outcome): void {
    const { kind } = outcome;
    if (kind === 'not-started') return;
    const tookMs = nowMs - startedMs;
    const latencyMs = numbers[at + LATENCY] as number;
    if (kind === 'success' || tookMs > latencyMs) {
      learn(numbers, at, Math.min(tookMs, MOST_AT_ONCE * Math.max(this.#limitMs, latencyMs)), nowMs);
    }
    if (kind === 'failure') learnFailure(numbers, at, 1, nowMs);
    else if (kind === 'success' && numbers[at + FAILING] !== 0) learnFailure(numbers, at, 0, nowMs);
    if (nowMs - this.#surveyedAtMs >= SURVEY_MS) this.#survey(nowMs);
    else this.#price(numbers, at, nowMs);
  }

  value(numbers: Float64Array, at: number, inFlight: number): number {
    const cost = (inFlight + 1) * ((numbers[at + COST] as number) || UNITS);
    return cost < MOST_UNITS ? cost | 0 : MOST_UNITS;
  }

  /** Takes the median anew and prices every endpoint by it. O(n log n), at the end of a call at most every `SURVEY_MS`. */
  #survey(nowMs: number): void {
    this.#surveyedAtMs = nowMs;
    const latencies: number[] = [];
    let failing = 0;
    for (const load of this.#set.loads) {
      if (!(load instanceof RuledLoad) || load.rule !== this) continue;
      const { numbers, at } = load;
      if ((numbers[at + SAMPLES] as number) > 0) latencies.push(this.#latencyMs(numbers, at, nowMs));
      if ((numbers[at + FAILING] as number) > 1 / 2) failing++;
    }
    const wasOutage = this.#isOutage;
    this.#isOutage = 2 * failing > latencies.length;
    if (latencies.length === 0) return;
    // The lower of the two middle ones: of two endpoints the faster, or the slow one would set the limit.
    this.#medianMs = Float64Array.from(latencies).sort()[(latencies.length - 1) >> 1] as number;
    this.#limitMs = Math.max(SLOW_RATIO * this.#medianMs, this.#medianMs + SLOW_FLOOR_MS);
    for (const load of this.#set.loads) {
      if (!(load instanceof RuledLoad) || load.rule !== this) continue;
      // What all did is held against none: the last to get a call would have none for a long time.
      if (wasOutage && !this.#isOutage) load.numbers[load.at + FAILING] = 0;
      this.#price(load.numbers, load.at, nowMs);
    }
  }

  /** The latency of an endpoint, nearer to the median the longer it had no call. */
  #latencyMs(numbers: Float64Array, at: number, nowMs: number): number {
    const latencyMs = numbers[at + LATENCY] as number;
    const ageMs = nowMs - (numbers[at + UPDATED] as number);
    if (ageMs < SURVEY_MS || this.#limitMs === Number.POSITIVE_INFINITY) return latencyMs;
    return this.#medianMs + (latencyMs - this.#medianMs) * Math.exp(-ageMs / FORGIVEN_MS);
  }

  #price(numbers: Float64Array, at: number, nowMs: number): void {
    let cost = UNITS;
    const latencyMs = this.#latencyMs(numbers, at, nowMs);
    if (latencyMs > this.#limitMs && (numbers[at + SAMPLES] as number) >= EVIDENCE) {
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
  if (samples === 0) numbers[at + LATENCY] = sampleMs;
  else if (samples < FIRST_SAMPLES) numbers[at + LATENCY] = Math.min(latencyMs, sampleMs);
  else {
    const gapMs = nowMs - (numbers[at + UPDATED] as number);
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
