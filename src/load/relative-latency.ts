import type { LoadReport, Outcome } from '../endpoint/outcome.js';
import { checkNoOptions } from '../runtime/check.js';
import { CallCosts } from './call-costs.js';
import { Cells } from './cells.js';
import { CountedCalls } from './counted-calls.js';
import {
  COLD,
  COLD_AT,
  COST,
  FAILING,
  FAILING_AT,
  FIELDS,
  INDEX,
  KNOWN,
  MAX_UNITS,
  ONLY_FIRST,
  PRICE,
  TYPICAL,
  UNITS,
  UPDATED,
  WITHHELD,
} from './latency-cell.js';
import type { LoadFactory, LoadSet } from './load.js';
import { type LoadRule, RuledLoad } from './load-rule.js';
import { lowerMedian, nth } from './median.js';
import { LATENCY, RingStart } from './ring-start.js';

/** Latencies are compared as the logarithm of this many ms more, so that differences far below it count little. */
const FLOOR_MS = 5;
/** An endpoint's latency is the mean of the logarithms over this many calls at most. */
const MAX_KNOWN = 60;
/**
 * A call counts as at most seven times as long as its endpoint's mean (as a logarithm). Where one call in twenty takes long, some endpoint would otherwise
 * always look slow.
 */
const MAX_AT_ONCE = 2;
/** After this many calls, an endpoint's latency may be compared with that of others. */
const ENOUGH_KNOWN = 4;
/**
 * An endpoint is not judged by its first calls, so many at most and for so long at most, in ms: a process that has just started is slow,
 * and it is calls that make it fast. Judged by them, it would get few, and the others too many.
 */
const COLD_CALLS = 20;
const COLD_MS = 5_000;
/**
 * Without calls, what is known about an endpoint's latency loses two thirds of its weight in this time, in ms, or in two turns of the ring
 * if they take longer; then it is not used any more.
 */
const FORGOTTEN_MS = 30_000;
/** How often the latencies of all endpoints are compared (a survey), in ms. */
const SURVEY_MS = 500;
/** How often the median of servers' reports is computed, in ms. */
const REPORTS_MS = 100;
/** Endpoints are compared with a fast one: this share of them is faster. */
const FAST = 0.4;
/** An endpoint is slow if its latency is above that of a fast one by more than this, as a logarithm (1.2 times), … */
const SLOW = 0.2;
/** … and by more than this many standard errors of its mean: a few calls prove little. */
const STANDARD_ERRORS = 2;
/**
 * At a survey, a slow endpoint that had a call within `FRESH_MS` loses a part of its share. What it lost comes back within a turn of the
 * ring, or `RETURN_MS` if that is longer.
 */
const LOSS = 0.8;
const FRESH_MS = 2_000;
const RETURN_MS = 10_000;
/** The least share that a slow endpoint keeps, so that it is found when it is fast again. */
const LEAST_SHARE = 0.02;
/**
 * If an endpoint that lost more of its share than this answers as fast as a fast one, it has probably recovered, so what was known of it
 * counts as one call. It gets so few calls that otherwise their mean would stay high for minutes.
 */
const LEFT_OUT = 0.9;
/**
 * An endpoint stands out if its latency is above that of a fast one by more than this, as a logarithm (2.2 times), and by this many standard
 * errors. Then it costs as many times more, for pickers that compare costs.
 */
const STANDS_OUT: number = 0.8;
const STANDS_OUT_ERRORS = 2.5;
/**
 * An endpoint nearly three times as fast as three quarters of the others (as a logarithm) probably answers without doing its work. It keeps its even
 * share, but being idle gets it no more. Where more than a quarter are so fast, it is the others that are slow.
 */
const SUSPICIOUS = 1;
/** What was lost of a share counts as nothing below this. */
const NEARLY_ALL = 0.01;
/** The variance of one endpoint's latencies before it is known, and how far one call moves it. */
const FIRST_VARIANCE = 0.8;
const VARIANCE_STEP = 0.005;
/** How far one call moves its endpoint's share of failures, as a share of the difference. */
const FAILURE_STEP = 1 / 16;
/** Below this share of failures, an endpoint's cost would rise by less than 2 %, which is not worth computing. */
const FEW_FAILURES = 0.01;
/** Failures make an endpoint at most this many times as expensive. */
const MAX_FAILING = 100;
/** In this time, in ms, an endpoint without calls loses two thirds of its failures. */
const FORGIVEN_MS = 20_000;
/** How far an endpoint's own latency may explain that of a call, as a logarithm. */
const MAX_OWN = 1;

// Offsets in the array of numbers about all endpoints of a set.
/** The time of the last survey. */
const SURVEYED_AT = 0;
/** The latency of a fast endpoint and of the median one, as logarithms; NaN = too few are known. */
const FAST_LATENCY = 1;
const MEDIAN = 2;
/** The variance of the logarithm of one endpoint's latencies. */
const VARIANCE = 3;
/** The logarithm of the latency of the call that ended last. */
const LATEST = 4;
/** The time of the last median of reports. */
const REPORTS_AT = 5;
/** The latency that a quarter of the endpoints are faster than, as a logarithm; NaN = too few are known. */
const QUARTER = 6;

/**
 * Calls in flight, but an endpoint that stands out costs more: one that is slower than the others, or one that fails. Equal endpoints cost
 * the same, so calls are spread evenly among them, as with `inFlight`. The default load.
 *
 * Latencies are compared as the mean of their logarithms over the endpoint's last calls, up to 60, so that one long call among short ones
 * changes little. An endpoint that takes more than about twice as long as a fast one of the set (and 5 ms, and more than chance explains) costs
 * as many times more. It is not judged by its first 20 calls, or for 5 s if it has fewer: a process that has just started is slow. Without
 * calls, its latency is forgotten within 30 s, or two turns of the ring of `rotatingAperture`.
 *
 * A failure never improves the cost, however fast it was: the cost is multiplied by 1 / (1 − share of failures)², at most by 100. Without
 * calls, failures are forgotten within about 20 s, and all at once when an outage of most endpoints ends.
 *
 * While servers report how many requests they have in flight (`evenkeel/server`, or any that sends ORCA with such a count), other clients'
 * calls count like this client's own. A report fades towards the median of all within 100 ms; an endpoint without a report counts as the
 * median. A report is only a hint: it is bounded by the median, and latency and failures still count.
 *
 * Latency is the time to the first byte of the response, where the protocol has one. A call that its caller gave up raises the latency if
 * it lasted longer, and never lowers it. A call during which this process's event loop was blocked is not measured.
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
  readonly ring: RingStart = new RingStart(this.calls);
  readonly #reports = new CountedCalls(this.calls);
  readonly #set: LoadSet;
  readonly #state = new Float64Array([
    Number.NEGATIVE_INFINITY,
    Number.NaN,
    Number.NaN,
    FIRST_VARIANCE,
    0,
    0,
    Number.NaN,
  ]);
  /** Whether most endpoints of the set were failing at the last survey. */
  #isOutage = false;
  /** Space for the latencies of a survey, which is reused. */
  #values = new Float64Array(16);

  constructor(set: LoadSet) {
    this.#set = set;
  }

  start(): void {
    this.ring.started();
  }

  endUnmeasured(numbers: Float64Array, at: number): void {
    this.ring.ended((numbers[at + INDEX] as number) | 0);
  }

  end(numbers: Float64Array, at: number, startedMs: number, nowMs: number, outcome: Outcome): void {
    const { kind } = outcome;
    const index = (numbers[at + INDEX] as number) | 0;
    this.ring.ended(index);
    if (kind === 'not-started') return;
    const state = this.#state;
    const latency = Math.log(Math.max(0, nowMs - startedMs) + FLOOR_MS);
    state[LATEST] = latency;
    // A failure, or a call that its caller gave up, never improves what is known.
    if (kind === 'success' || latency > (numbers[at + TYPICAL] as number)) this.#learn(numbers, at, nowMs);
    if (kind === 'failure') learnFailure(numbers, at, 1, nowMs);
    else if (kind === 'success') {
      if (numbers[at + FAILING] !== 0) learnFailure(numbers, at, 0, nowMs);
      // What is slow about the endpoint itself says nothing of other clients. Only where that is proven: on a large ring, the calls of the
      // last seconds are most of what is known of an endpoint, and to compare with these would hide where other clients crowd.
      const own = (numbers[at + TYPICAL] as number) - (state[MEDIAN] as number);
      const isProven = numbers[at + WITHHELD] !== 0 && !Number.isNaN(own);
      this.ring.state[LATENCY] = isProven ? latency - Math.max(-MAX_OWN, Math.min(MAX_OWN, own)) : latency;
      this.ring.learn(index, startedMs);
    }
    // The distance, because the clock may have been set back.
    if (Math.abs(nowMs - (state[REPORTS_AT] as number)) >= REPORTS_MS) this.#surveyReports(nowMs);
    if (Math.abs(nowMs - (state[SURVEYED_AT] as number)) >= SURVEY_MS) this.#survey(nowMs);
    else this.#price(numbers, at, nowMs);
  }

  /**
   * A pod that was restarted fails no more, but without calls that would not show for a while. If it still fails, the next calls count from
   * where an endpoint begins to cost more.
   */
  connected(numbers: Float64Array, at: number): void {
    if ((numbers[at + FAILING] as number) <= FEW_FAILURES) return;
    numbers[at + FAILING] = FEW_FAILURES;
    numbers[at + PRICE] = 0;
    numbers[at + COST] = 0;
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

  share(numbers: Float64Array, at: number): number {
    return 1 - Math.max(0, numbers[at + WITHHELD] as number);
  }

  /** Learns from a call whose latency is in `LATEST`: as an argument, V8 would put it on the heap. */
  #learn(numbers: Float64Array, at: number, nowMs: number): void {
    const state = this.#state;
    const idleMs = nowMs - (numbers[at + UPDATED] as number);
    const hasRecovered =
      (numbers[at + WITHHELD] as number) > LEFT_OUT &&
      (state[LATEST] as number) < (state[FAST_LATENCY] as number) + SLOW;
    const before = hasRecovered ? 1 : (numbers[at + KNOWN] as number);
    const known = Math.min(
      (idleMs > SURVEY_MS ? before * Math.exp(-idleMs / this.#forgottenMs) : before) + 1,
      MAX_KNOWN,
    );
    const above = (state[LATEST] as number) - (numbers[at + TYPICAL] as number);
    const difference = known > ENOUGH_KNOWN ? Math.min(above, MAX_AT_ONCE) : above;
    if (known > ENOUGH_KNOWN)
      state[VARIANCE] =
        (state[VARIANCE] as number) + (difference * difference - (state[VARIANCE] as number)) * VARIANCE_STEP;
    numbers[at + TYPICAL] = (numbers[at + TYPICAL] as number) + difference / known;
    numbers[at + KNOWN] = known;
    numbers[at + UPDATED] = nowMs;
    if ((numbers[at + COLD] as number) < COLD_CALLS) warmUp(numbers, at, nowMs);
  }

  /** Compares all endpoints. O(n). */
  #survey(nowMs: number): void {
    const state = this.#state;
    state[SURVEYED_AT] = nowMs;
    let known = 0;
    let failing = 0;
    let recent = 0;
    for (const load of this.#set.loads) {
      if (!(load instanceof RuledLoad) || load.rule !== this) continue;
      const { numbers, at } = load;
      if (known === this.#values.length) this.#grow();
      if (nowMs - (numbers[at + UPDATED] as number) < this.#forgottenMs && (numbers[at + KNOWN] as number) > 0) {
        recent++;
        if ((numbers[at + FAILING] as number) > 1 / 2) failing++;
        if (knownOf(numbers, at) >= ENOUGH_KNOWN) this.#values[known++] = numbers[at + TYPICAL] as number;
      }
    }
    const wasOutage = this.#isOutage;
    this.#isOutage = 2 * failing > recent;
    state[FAST_LATENCY] = known < 2 ? Number.NaN : nth(this.#values, known, Math.round(FAST * (known - 1)));
    state[QUARTER] = known < 2 ? Number.NaN : nth(this.#values, known, Math.round((known - 1) / 4));
    state[MEDIAN] = known < 2 ? Number.NaN : lowerMedian(this.#values, known);
    for (const load of this.#set.loads) {
      if (!(load instanceof RuledLoad) || load.rule !== this) continue;
      const { numbers, at } = load;
      // When an outage of most endpoints ends, failures during it are forgotten. Otherwise the endpoint that is tried last would get no
      // calls for a long time.
      if (wasOutage && !this.#isOutage) numbers[at + FAILING] = 0;
      this.#withhold(numbers, at, nowMs);
      this.#price(numbers, at, nowMs);
    }
  }

  /** Computes the median of what servers report, if they do. O(n). */
  #surveyReports(nowMs: number): void {
    this.#state[REPORTS_AT] = nowMs;
    if (!this.#reports.surveying(nowMs)) return;
    for (const load of this.#set.loads) {
      if (load instanceof RuledLoad && load.rule === this) this.#reports.survey(load.numbers, load.at, nowMs);
    }
    this.#reports.surveyed();
  }

  /** A slow endpoint loses a part of its share of the calls, another gets back a part of what it lost. */
  #withhold(numbers: Float64Array, at: number, nowMs: number): void {
    const state = this.#state;
    const known = knownOf(numbers, at);
    const idleMs = nowMs - (numbers[at + UPDATED] as number);
    const above = (numbers[at + TYPICAL] as number) - (state[FAST_LATENCY] as number);
    const most = Math.max(SLOW, STANDARD_ERRORS * Math.sqrt((state[VARIANCE] as number) / known));
    const withheld = Math.max(0, numbers[at + WITHHELD] as number);
    if (known >= ENOUGH_KNOWN && (numbers[at + TYPICAL] as number) < (state[QUARTER] as number) - SUSPICIOUS) {
      numbers[at + WITHHELD] = ONLY_FIRST;
      return;
    }
    if (known < ENOUGH_KNOWN || idleMs > this.#forgottenMs || !(above > most)) {
      const left = withheld * (1 - SURVEY_MS / Math.max(RETURN_MS, this.ring.periodMs));
      numbers[at + WITHHELD] = left < NEARLY_ALL ? 0 : left;
    } else if (idleMs < FRESH_MS) {
      numbers[at + WITHHELD] = 1 - Math.max(LEAST_SHARE, (1 - withheld) * Math.exp(LOSS * (most - above)));
    }
  }

  #price(numbers: Float64Array, at: number, nowMs: number): void {
    let price = UNITS;
    if ((numbers[at + FAILING] as number) > FEW_FAILURES) {
      const working = 1 - failingNow(numbers, at, nowMs);
      price *= Math.min(1 / (working * working), MAX_FAILING);
    }
    numbers[at + PRICE] = price | 0;
    const state = this.#state;
    const known = knownOf(numbers, at);
    const above = (numbers[at + TYPICAL] as number) - (state[FAST_LATENCY] as number);
    // NaN is not above anything.
    if (above > STANDS_OUT && known >= ENOUGH_KNOWN && nowMs - (numbers[at + UPDATED] as number) < this.#forgottenMs) {
      if (above > STANDS_OUT_ERRORS * Math.sqrt((state[VARIANCE] as number) / known)) price *= Math.exp(above);
    }
    numbers[at + COST] = Math.min(price, MAX_UNITS) | 0;
  }

  get #forgottenMs(): number {
    return Math.max(FORGOTTEN_MS, 2 * this.ring.periodMs);
  }

  #grow(): void {
    const values = new Float64Array(2 * this.#values.length);
    values.set(this.#values);
    this.#values = values;
  }
}

/** How many calls are known of an endpoint that may be judged by them. */
function knownOf(numbers: Float64Array, at: number): number {
  return (numbers[at + COLD] as number) < COLD_CALLS ? 0 : (numbers[at + KNOWN] as number);
}

/** Counts one of an endpoint's first calls. When they are over, what was learned from them is forgotten, unless they were few. */
function warmUp(numbers: Float64Array, at: number, nowMs: number): void {
  if (numbers[at + COLD] === 0) numbers[at + COLD_AT] = nowMs;
  (numbers[at + COLD] as number)++;
  if (numbers[at + COLD] === COLD_CALLS) numbers[at + KNOWN] = 0;
  else if (nowMs - (numbers[at + COLD_AT] as number) > COLD_MS) numbers[at + COLD] = COLD_CALLS;
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
  const sinceMs = Math.max(0, nowMs - (numbers[at + FAILING_AT] as number));
  return (numbers[at + FAILING] as number) * Math.exp(-sinceMs / FORGIVEN_MS);
}
