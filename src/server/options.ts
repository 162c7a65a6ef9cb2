import { checkFunction, checkKeys, checkNumber, optionError } from '../runtime/check.js';
import { type Clock, systemClock } from '../runtime/clock.js';

/** Options of `createPod`. */
export interface PodOptions {
  /** What this pod tells callers that ask how busy it is; false = nothing. @defaultValue {}, see `ReportOptions` */
  readonly reports?: ReportOptions | false | undefined;
  /** For tests. */
  readonly clock?: Clock | undefined;
}

/** What a report says, besides the number of requests in flight. */
export interface ReportOptions {
  /**
   * How full the application is, from 0 to 1 and above. Called once per sample; what it throws is ignored.
   * @defaultValue the larger of event loop and CPU utilization
   */
  readonly utilization?: (() => number) | undefined;
  /**
   * Numbers of the application's own, from 0 up, as named metrics: at most 32, names of letters, digits and `_.:/-`. Called once per
   * sample; what it throws, and what does not fit, is left out. @defaultValue none
   */
  readonly metrics?: (() => Readonly<Record<string, number>>) | undefined;
  /** How often all that is sampled, in ms. @defaultValue 1000 */
  readonly sampleMs?: number | undefined;
}

/** The defaults of the numeric options. */
export const podDefaults: { readonly sampleMs: number } = Object.freeze({ sampleMs: 1_000 });

/** The same, complete and checked. */
export interface ResolvedPodOptions {
  readonly reports: ResolvedReportOptions | undefined;
  readonly clock: Clock;
}

export interface ResolvedReportOptions {
  readonly utilization: (() => number) | undefined;
  readonly metrics: (() => Readonly<Record<string, number>>) | undefined;
  readonly sampleMs: number;
}

/** Fills in defaults and checks everything. Throws EVENKEEL_OPTION. */
export function resolvePodOptions(options: PodOptions): ResolvedPodOptions {
  checkKeys('options', options, ['reports', 'clock']);
  const { reports = {}, clock = systemClock } = options;
  checkFunction('clock.now', clock?.now);
  checkFunction('clock.timer', clock.timer);
  return { reports: reports === false ? undefined : resolveReportOptions(reports), clock };
}

function resolveReportOptions(reports: ReportOptions): ResolvedReportOptions {
  if (typeof reports !== 'object' || reports === null) throw optionError('reports', 'an object, or false', reports);
  checkKeys('reports', reports, ['utilization', 'metrics', 'sampleMs']);
  const { utilization, metrics } = reports;
  if (utilization !== undefined) checkFunction('reports.utilization', utilization);
  if (metrics !== undefined) checkFunction('reports.metrics', metrics);
  const bounds = { min: 10, max: 3_600_000 };
  return {
    utilization,
    metrics,
    sampleMs: checkNumber('reports.sampleMs', reports.sampleMs, podDefaults.sampleMs, bounds),
  };
}
