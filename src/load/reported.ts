import type { LoadReport, Outcome } from '../endpoint/outcome.js';
import { checkKeys, checkNumber } from '../runtime/check.js';
import type { Load, LoadFactory } from './load.js';

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

interface ReportedRules {
  readonly expireAfterMs: number;
  readonly blackoutMs: number;
  readonly errorPenalty: number;
  readonly metric: string | undefined;
}

/** An endpoint without a valid report counts as this busy. */
const UNKNOWN_UTILIZATION = 0.5;
/** Nobody counts as less busy than this: close to 0 small differences would be large ratios. */
const MIN_UTILIZATION = 0.05;
/** Values are whole numbers: per mille of utilisation. */
const UNITS = 1_000;

/**
 * What servers say of their own load (ORCA), times calls in flight here: the report tells of all clients, the calls
 * tell at once. Utilisation is the application's own word, else the CPU's. With `weightedRoundRobin`, an endpoint's rate
 * is its calls per second over its utilisation.
 * Reports come with outcomes; `parseLoadReport` reads the header.
 * Source: gRFC A58 (weighted_round_robin), its defaults included; ORCA (xds.data.orca.v3).
 */
export const reported = (options: ReportedOptions = {}): LoadFactory => {
  checkKeys('reported', options, ['expireAfterMs', 'blackoutMs', 'errorPenalty', 'metric']);
  const rules: ReportedRules = {
    expireAfterMs: checkNumber('reported.expireAfterMs', options.expireAfterMs, 180_000, { min: 1, infinite: true }),
    blackoutMs: checkNumber('reported.blackoutMs', options.blackoutMs, 10_000, { min: 0, max: 3_600_000 }),
    errorPenalty: checkNumber('reported.errorPenalty', options.errorPenalty, 1, { min: 0, max: 1_000 }),
    metric: options.metric,
  };
  return () => new ReportedLoad(rules);
};

class ReportedLoad implements Load {
  readonly decays = true;
  readonly #rules: ReportedRules;
  #inFlight = 0;
  #utilization = UNKNOWN_UTILIZATION;
  /** Calls per second over utilisation; 0 = not reported. */
  #rate = 0;
  #reportedAtMs = Number.NEGATIVE_INFINITY;
  /** When the reports that are believed without a gap began. */
  #sinceMs = 0;

  constructor(rules: ReportedRules) {
    this.#rules = rules;
  }

  start(): void {
    this.#inFlight++;
  }

  end(_startedMs: number, nowMs: number, outcome: Outcome): void {
    this.#inFlight--;
    if (outcome.report !== undefined) this.#learn(outcome.report, nowMs);
  }

  value(nowMs: number): number {
    const utilization = this.#valid(nowMs) ? this.#utilization : UNKNOWN_UTILIZATION;
    return (Math.max(utilization, MIN_UTILIZATION) * UNITS * (this.#inFlight + 1)) | 0;
  }

  rate(nowMs: number): number | undefined {
    if (this.#rate === 0 || !this.#valid(nowMs) || nowMs - this.#sinceMs < this.#rules.blackoutMs) return undefined;
    return this.#rate;
  }

  #learn(report: LoadReport, nowMs: number): void {
    const { errorPenalty, metric } = this.#rules;
    const said =
      metric === undefined ? report.applicationUtilization || report.cpuUtilization : report.namedMetrics?.[metric];
    if (said === undefined || !(said >= 0) || !Number.isFinite(said)) return;
    const calls = report.rpsFractional ?? 0;
    const errors = calls > 0 ? (report.eps ?? 0) / calls : 0;
    this.#utilization = said + errors * errorPenalty;
    this.#rate = calls > 0 && this.#utilization > 0 ? calls / this.#utilization : 0;
    if (!this.#valid(nowMs)) this.#sinceMs = nowMs;
    this.#reportedAtMs = nowMs;
  }

  #valid(nowMs: number): boolean {
    return nowMs - this.#reportedAtMs < this.#rules.expireAfterMs;
  }
}
