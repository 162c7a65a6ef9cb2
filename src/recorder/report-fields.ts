import type { LoadReport } from '../endpoint/outcome.js';
import { requestsInFlight, requestsWaiting } from '../load/orca.js';
import { type Made, reportFields } from './format.js';

// These numbers are the positions in `reportFields`, the fields of a load report.
const APPLICATION = 0;
const CPU = 1;
const RPS = 2;
const EPS = 3;
const IN_FLIGHT = 4;
const WAITING = 5;
const METRIC = 6;

/** The fields of a load report that a balancer's load uses, and when: only those are recorded. */
export class ReportFields {
  readonly counts: 'at once' | 'at the end' | 'never';
  /** The values of the last load report, by bit. */
  readonly values: Float64Array = new Float64Array(reportFields.length);
  readonly #metric: string | undefined;

  constructor(load: Made | undefined) {
    this.counts = load?.name === 'relativeLatency' ? 'at once' : load?.name === 'reported' ? 'at the end' : 'never';
    const metric = load?.name === 'reported' ? load.options.metric : undefined;
    this.#metric = typeof metric === 'string' ? metric : undefined;
  }

  /** Puts the fields of a load report into `values`. Returns which of them are present, by bit. */
  read(report: LoadReport): number {
    if (this.counts === 'at once') {
      const inFlight = requestsInFlight(report);
      return inFlight !== undefined ? this.#write(IN_FLIGHT, inFlight) : this.#write(WAITING, requestsWaiting(report));
    }
    const utilizationBit =
      this.#metric !== undefined
        ? this.#write(METRIC, report.namedMetrics?.[this.#metric])
        : // The load uses the application's utilization, if there is one above 0.
          this.#write(APPLICATION, report.applicationUtilization || undefined) ||
          this.#write(CPU, report.cpuUtilization);
    return (
      utilizationBit | this.#write(RPS, report.rpsFractional || undefined) | this.#write(EPS, report.eps || undefined)
    );
  }

  /** Creates a load report with the recorded fields, for a load that uses those fields. */
  static report(mask: number, values: readonly number[], metric: string | undefined): LoadReport {
    let next = 0;
    const take = (bit: number): number | undefined => ((mask & (1 << bit)) === 0 ? undefined : values[next++]);
    const [application, cpu, rps, eps] = [take(APPLICATION), take(CPU), take(RPS), take(EPS)];
    const [inFlight, waiting, named] = [take(IN_FLIGHT), take(WAITING), take(METRIC)];
    const namedMetrics: Record<string, number> = {};
    if (inFlight !== undefined) namedMetrics.evenkeel_in_flight = inFlight;
    if (waiting !== undefined) namedMetrics.num_requests_waiting = waiting;
    if (named !== undefined && metric !== undefined) namedMetrics[metric] = named;
    return {
      ...(application !== undefined && { applicationUtilization: application }),
      ...(cpu !== undefined && { cpuUtilization: cpu }),
      ...(rps !== undefined && { rpsFractional: rps }),
      ...(eps !== undefined && { eps }),
      namedMetrics,
    };
  }

  #write(bit: number, value: unknown): number {
    if (typeof value !== 'number') return 0;
    this.values[bit] = value;
    return 1 << bit;
  }
}
