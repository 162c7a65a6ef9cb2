import type { LoadReport, Outcome } from '../endpoint/outcome.js';
import { checkKeys, checkNumber, checkString } from '../runtime/check.js';
import { Cells } from './cells.js';
import type { LoadFactory } from './load.js';
import { type LoadRule, RuledLoad } from './load-rule.js';

/** Options of `reported`. */
export interface ReportedOptions {
  /** How long a report is believed, in ms. @defaultValue 180000 */
  readonly expireAfterMs?: number;
  /** How long the first reports of an endpoint are not used for its rate: caches fill, code compiles. In ms. @defaultValue 10000 */
  readonly blackoutMs?: number;
  /** How much each error per call adds to the utilisation. @defaultValue 1 */
  readonly errorPenalty?: number;
  /** A named metric to use instead of the utilisations. @defaultValue none */
  readonly metric?: string;
}

/** An endpoint without a valid report counts as this busy. */
const UNKNOWN_UTILIZATION = 0.5;
/** Nobody counts as less busy than this: close to 0 small differences would be large ratios. */
const MIN_UTILIZATION = 0.05;
/** Values are whole numbers: per mille of utilisation. */
const UNITS = 1_000;
/** Up to here they are; above they may be boxed. */
const MAX_WHOLE = 2 ** 31;
/** Large enough for any metric, small enough to reckon with. */
const MAX_COST = 1e300;

/**
 * What servers say of their own load (ORCA), times calls in flight here: the report tells of all clients, the calls
 * tell at once. Utilisation is the application's own word, else the CPU's. With `weightedRoundRobin`, an endpoint's rate
 * is its calls per second over its utilisation.
 * Reports come with outcomes; `parseLoadReport` reads the header.
 * Source: gRFC A58 (weighted_round_robin), its defaults included; ORCA (xds.data.orca.v3).
 */
export const reported = (options: ReportedOptions = {}): LoadFactory => {
  checkKeys('reported', options, ['expireAfterMs', 'blackoutMs', 'errorPenalty', 'metric']);
  const rule = new ReportedRule(
    checkNumber('reported.expireAfterMs', options.expireAfterMs, 180_000, { min: 1, infinite: true }),
    checkNumber('reported.blackoutMs', options.blackoutMs, 10_000, { min: 0, max: 3_600_000 }),
    checkNumber('reported.errorPenalty', options.errorPenalty, 1, { min: 0, max: 1_000 }),
    options.metric === undefined ? undefined : checkString('reported.metric', options.metric),
  );
  const cells = new Cells(FIELDS);
  return () => new RuledLoad(rule, cells.take());
};

// The numbers of one endpoint, by their place in its cell.
const UTILIZATION = 0;
/** Until when the last report is believed; 0 = there was none. */
const VALID_UNTIL = 1;
/** Calls per second over utilisation; 0 = not reported. */
const RATE = 2;
/** When the reports that are believed without a gap began. */
const SINCE = 3;
const FIELDS = 4;

class ReportedRule implements LoadRule {
  readonly decays = true;
  readonly #expireAfterMs: number;
  readonly #blackoutMs: number;
  readonly #errorPenalty: number;
  readonly #metric: string | undefined;

  constructor(expireAfterMs: number, blackoutMs: number, errorPenalty: number, metric: string | undefined) {
    this.#expireAfterMs = expireAfterMs;
    this.#blackoutMs = blackoutMs;
    this.#errorPenalty = errorPenalty;
    this.#metric = metric;
  }

  end(numbers: Float64Array, at: number, _startedMs: number, nowMs: number, outcome: Outcome): void {
    if (outcome.report !== undefined) this.#learn(numbers, at, outcome.report, nowMs);
  }

  value(numbers: Float64Array, at: number, inFlight: number, nowMs: number): number {
    const isValid = nowMs < (numbers[at + VALID_UNTIL] as number);
    const utilization = isValid ? (numbers[at + UTILIZATION] as number) : UNKNOWN_UTILIZATION;
    const cost = Math.max(utilization, MIN_UTILIZATION) * UNITS * (inFlight + 1);
    // A metric in bytes, say, may not fit: cut to 32 bits it could be the least of all.
    return cost < MAX_WHOLE ? cost | 0 : Math.min(cost, MAX_COST);
  }

  rate(numbers: Float64Array, at: number, nowMs: number): number | undefined {
    const rate = numbers[at + RATE] as number;
    if (rate === 0 || nowMs >= (numbers[at + VALID_UNTIL] as number)) return undefined;
    return nowMs - (numbers[at + SINCE] as number) < this.#blackoutMs ? undefined : rate;
  }

  #learn(numbers: Float64Array, at: number, report: LoadReport, nowMs: number): void {
    const said =
      this.#metric === undefined
        ? report.applicationUtilization || report.cpuUtilization
        : report.namedMetrics?.[this.#metric];
    if (said === undefined || !(said >= 0) || !Number.isFinite(said)) return;
    const calls = report.rpsFractional ?? 0;
    const errors = calls > 0 ? (report.eps ?? 0) / calls : 0;
    const utilization = said + errors * this.#errorPenalty;
    numbers[at + UTILIZATION] = utilization;
    numbers[at + RATE] = calls > 0 && utilization > 0 ? calls / utilization : 0;
    if (nowMs >= (numbers[at + VALID_UNTIL] as number)) numbers[at + SINCE] = nowMs;
    numbers[at + VALID_UNTIL] = nowMs + this.#expireAfterMs;
  }
}
