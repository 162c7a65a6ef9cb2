import type { LoadReport, Outcome } from '../endpoint/outcome.js';
import type { Filled } from '../runtime/complete.js';
import { numberOption, type OptionTable, optionalString, optionTable } from '../runtime/options.js';
import { type Cell, Cells } from './cells.js';
import type { Load } from './load.js';
import { type LoadRule, RuledLoad } from './load-rule.js';

/** Options of `reported`: how long reports count, what errors cost, and which metric to use. Invalid options throw EVENKEEL_OPTION. */
export interface ReportedOptions {
  /** How long a report is valid, in ms. @defaultValue 180000 */
  readonly expireAfterMs?: number | undefined;
  /**
   * For how long an endpoint's first reports do not count for its rate, in ms, because caches fill and code compiles. @defaultValue 10000
   */
  readonly blackoutMs?: number | undefined;
  /** How much utilization one error per call adds. @defaultValue 1 */
  readonly errorPenalty?: number | undefined;
  /** The name of a metric in the reports to use in place of utilizations; smaller values are better. @defaultValue none */
  readonly metric?: string | undefined;
}

type ReportedSettings = Filled<ReportedOptions, 'metric'>;
export const reportedTable: OptionTable<ReportedSettings> = optionTable('reported', {
  expireAfterMs: numberOption(180_000, { min: 1, infinite: true }),
  blackoutMs: numberOption(10_000, { min: 0, max: 3_600_000 }),
  errorPenalty: numberOption(1, { min: 0, max: 1_000 }),
  metric: optionalString,
});

/** The utilization that endpoints are assumed to have before two endpoints have reported. */
const UNKNOWN_UTILIZATION = 0.5;
/** No utilization counts as less than this, because close to 0 small differences would be large ratios. */
const MIN_UTILIZATION = 0.05;
/** The values of `reported` are in thousandths of utilization, so that they can be integers. */
const UNITS = 1_000;
/** Values below this are integers of 32 bits; V8 may put larger ones on the heap. */
const MAX_WHOLE = 2 ** 31;
/** The largest cost: larger than that of any sensible metric, and small enough to compute with. */
const MAX_COST = 1e300;
/**
 * A report counts as at least this share of the median. An endpoint that claims to be idle (by mistake or on purpose) must not attract all
 * calls: a client that makes one call at a time would send all of them to an endpoint that costs less than two thirds of the others. An
 * endpoint that claims to be busy harms only itself.
 */
const MIN_OF_USUAL = 0.7;
const MAX_OF_USUAL = 10;
/**
 * An endpoint that reports less than the median attracts at most this many times an even share of this client's calls. If it gets more, it
 * counts as `ABOVE_SHARE` times the median: a picker that always takes the least loaded endpoint would otherwise choose only the one with
 * the lowest claim.
 */
const MAX_SHARE = 1.5;
const ABOVE_SHARE = 1.25;
/** An endpoint's share of our calls is measured over about this many calls per endpoint. */
const SHARE_CALLS = 16;
/** The median utilization covers at most this many endpoints, those that began to report last. */
const MAX_REPORTERS = 1_024;
/** How often the median utilization is computed, in ms. With fewer than `FEW` reporters, it is also computed at every new one. */
const SURVEY_MS = 1_000;
const FEW = 16;

/**
 * The load that servers report (ORCA), times this client's calls in flight: a report covers all clients, and the calls react at once. Uses
 * the application's utilization, or the CPU's if there is none. With `weightedRoundRobin`, an endpoint's rate is its calls per second
 * divided by its utilization.
 *
 * A report is only a hint: no endpoint counts as less busy than 0.7 times the median of the endpoints, errors count up to the number of
 * calls, and values that are not finite are ignored. An endpoint without a report counts as the median. Reports arrive with outcomes;
 * `parseLoadReport` reads the header.
 * Source: gRFC A58 (weighted_round_robin), including its defaults; ORCA (xds.data.orca.v3).
 */
export const reported = (options: ReportedOptions = {}): (() => Load) => {
  const rule = new ReportedRule(reportedTable.resolve(options));
  const cells = new Cells(FIELDS);
  return () => new RuledLoad(rule, cells.take());
};

// Indexes into the numbers that the load keeps for an endpoint; the first number is the endpoint's utilization.
const UTILIZATION = 0;
/**
 * Index into an endpoint's numbers: the time until which the endpoint's last report is valid, in ms on the balancer's clock; 0 = no report
 * yet.
 */
const VALID_UNTIL = 1;
/** Index into an endpoint's numbers: the endpoint's rate: its calls per second divided by its utilization; 0 = not reported. */
const RATE = 2;
/** Index into an endpoint's numbers: the time since when the endpoint has always had a valid report. */
const SINCE = 3;
/** Index into an endpoint's numbers: the endpoint's position in `#reporters`, from 1; 0 = it has not reported. */
const PLACE = 4;
/**
 * Indexes into an endpoint's numbers: this client's number of calls on the endpoint, in which old calls fade as others follow, and the
 * number of calls on all endpoints when that was last updated.
 */
const CALLS = 5;
const CALLS_AT = 6;
const FIELDS = 7;

/** Returns a number from a report, or 0 if it is invalid: reports are untrusted input. */
function measured(value: unknown): number {
  return typeof value === 'number' && value > 0 && value < Number.POSITIVE_INFINITY ? value : 0;
}

class ReportedRule implements LoadRule {
  readonly decays = true;
  readonly start = undefined;
  readonly #expireAfterMs: number;
  readonly #blackoutMs: number;
  readonly #errorPenalty: number;
  readonly #metric: string | undefined;
  /** The median utilization, and the smallest and largest utilization that a report may count for. */
  #usual = UNKNOWN_UTILIZATION;
  #least = UNKNOWN_UTILIZATION * MIN_OF_USUAL;
  #most = Number.POSITIVE_INFINITY;
  readonly #reporters: Cell[] = [];
  /** Where in `#reporters` the next new reporter goes once the list is full. */
  #oldest = 0;
  #surveyedAtMs = Number.NEGATIVE_INFINITY;
  /** How many calls on all endpoints have ended. */
  #ended = 0;

  constructor({ expireAfterMs, blackoutMs, errorPenalty, metric }: ReportedSettings) {
    this.#expireAfterMs = expireAfterMs;
    this.#blackoutMs = blackoutMs;
    this.#errorPenalty = errorPenalty;
    this.#metric = metric;
  }

  end(numbers: Float64Array, at: number, _startedMs: number, nowMs: number, outcome: Outcome): void {
    numbers[at + CALLS] = this.#callsOf(numbers, at) + 1;
    numbers[at + CALLS_AT] = ++this.#ended;
    if (outcome.report !== undefined) this.#learn(numbers, at, outcome.report, nowMs);
  }

  value(numbers: Float64Array, at: number, inFlight: number, nowMs: number): number {
    const isValid = nowMs < (numbers[at + VALID_UNTIL] as number);
    let utilization = isValid ? (numbers[at + UTILIZATION] as number) : this.#usual;
    if (utilization < this.#usual && this.#callsOf(numbers, at) > MAX_SHARE * SHARE_CALLS) {
      utilization = ABOVE_SHARE * this.#usual;
    }
    const cost = Math.min(Math.max(utilization, this.#least), this.#most) * UNITS * (inFlight + 1);
    // A metric in bytes may not fit into 32 bits: truncated, it could become the smallest value.
    return cost < MAX_WHOLE ? cost | 0 : Math.min(cost, MAX_COST);
  }

  rate(numbers: Float64Array, at: number, nowMs: number): number | undefined {
    const rate = numbers[at + RATE] as number;
    if (rate === 0 || nowMs >= (numbers[at + VALID_UNTIL] as number)) return undefined;
    return nowMs - (numbers[at + SINCE] as number) < this.#blackoutMs ? undefined : rate;
  }

  /** How many of this client's last calls went to the endpoint; `SHARE_CALLS` if it had an even share. */
  #callsOf(numbers: Float64Array, at: number): number {
    const since = this.#ended - (numbers[at + CALLS_AT] as number);
    return (numbers[at + CALLS] as number) * Math.exp(-since / (SHARE_CALLS * Math.max(1, this.#reporters.length)));
  }

  #learn(numbers: Float64Array, at: number, report: LoadReport, nowMs: number): void {
    const reported = this.#utilizationIn(report);
    if (reported === undefined) return;
    const calls = measured(report.rpsFractional);
    const errors = calls > 0 ? Math.min(measured(report.eps) / calls, 1) : 0;
    const utilization = reported + errors * this.#errorPenalty;
    const rate = calls / Math.max(utilization, MIN_UTILIZATION);
    numbers[at + UTILIZATION] = utilization;
    numbers[at + RATE] = Number.isFinite(rate) ? rate : 0;
    if (nowMs >= (numbers[at + VALID_UNTIL] as number)) numbers[at + SINCE] = nowMs;
    numbers[at + VALID_UNTIL] = nowMs + this.#expireAfterMs;
    const isNew = numbers[at + PLACE] === 0;
    if (isNew) this.#enlist(numbers, at);
    if (nowMs - this.#surveyedAtMs >= SURVEY_MS || (isNew && this.#reporters.length < FEW)) this.#survey(nowMs);
  }

  /** The utilization in a report; undefined if the report has none. */
  #utilizationIn(report: LoadReport): number | undefined {
    const value: unknown =
      this.#metric === undefined
        ? measured(report.applicationUtilization) || report.cpuUtilization
        : report.namedMetrics?.[this.#metric];
    return value === 0 ? 0 : measured(value) || undefined;
  }

  #enlist(numbers: Float64Array, at: number): void {
    let index = this.#reporters.length;
    if (index === MAX_REPORTERS) {
      index = this.#oldest;
      this.#oldest = (index + 1) % MAX_REPORTERS;
      const before = this.#reporters[index] as Cell;
      before.numbers[before.at + PLACE] = 0;
    }
    this.#reporters[index] = { numbers, at };
    numbers[at + PLACE] = index + 1;
  }

  /** Computes the median utilization. Each endpoint counts once, however many reports it sends. */
  #survey(nowMs: number): void {
    this.#surveyedAtMs = nowMs;
    const utilizations: number[] = [];
    for (const { numbers, at } of this.#reporters) {
      if (nowMs < (numbers[at + VALID_UNTIL] as number)) utilizations.push(numbers[at + UTILIZATION] as number);
    }
    const isKnown = utilizations.length > 1;
    // For an even number of reporters, the larger of the two middle utilizations is the median: if only two endpoints report, one that
    // claims to be idle must not set it.
    const median = utilizations.sort((a, b) => a - b)[utilizations.length >> 1] as number;
    this.#usual = isKnown ? Math.max(median, MIN_UTILIZATION) : UNKNOWN_UTILIZATION;
    this.#least = this.#usual * MIN_OF_USUAL;
    // A metric's unit is unknown until several endpoints have reported, so one report alone has no upper bound.
    this.#most = isKnown ? this.#usual * MAX_OF_USUAL : Number.POSITIVE_INFINITY;
  }
}
