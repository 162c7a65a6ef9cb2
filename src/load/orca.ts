import type { LoadReport } from '../endpoint/outcome.js';

/** Response header, or gRPC trailer, that carries a server's load report. */
export const loadReportHeader = 'endpoint-load-metrics';

/**
 * Request header, or gRPC metadata key, that asks a server for a load report: `TEXT`, `JSON` or `BIN`. Name and values come from vLLM, the
 * only other software known to use such a header.
 */
export const loadReportFormatHeader = 'endpoint-load-metrics-format';

/**
 * Response header, or gRPC trailer, in which `evenkeel/server` announces that it reports to requests that ask for it. Its value is the
 * server's `addressMark`, so that clients do not believe the header when a gateway passes it on.
 */
export const reportsHeader = 'evenkeel-reports';

/** Name of the metric in which `evenkeel/server` reports the requests in flight on the whole server, including the one being answered. */
export const inFlightMetric = 'evenkeel_in_flight';

/** Name of the metric in which vLLM reports how many requests wait for their turn. */
const waitingMetric = 'num_requests_waiting';

/** The number of requests in flight in a server's report; undefined if the report has none, or an invalid number. */
export function requestsInFlight({ namedMetrics }: LoadReport): number | undefined {
  const count: unknown = namedMetrics?.[inFlightMetric];
  return isMeasure(count) ? count : undefined;
}

/** The number of waiting requests in a server's report; undefined if the report has none, or an invalid number. */
export function requestsWaiting({ namedMetrics }: LoadReport): number | undefined {
  const count: unknown = namedMetrics?.[waitingMetric];
  return isMeasure(count) ? count : undefined;
}

/** Maps the field names of ORCA load reports to the names in `LoadReport`. */
const fields: Readonly<Record<string, Exclude<keyof LoadReport, 'namedMetrics'>>> = Object.freeze({
  application_utilization: 'applicationUtilization',
  applicationUtilization: 'applicationUtilization',
  cpu_utilization: 'cpuUtilization',
  cpuUtilization: 'cpuUtilization',
  mem_utilization: 'memUtilization',
  memUtilization: 'memUtilization',
  rps_fractional: 'rpsFractional',
  rpsFractional: 'rpsFractional',
  eps: 'eps',
});
/** A load report header longer than this many characters is ignored, because no server's report is that long. */
const MAX_LENGTH = 4_096;
const MAX_NAMED_METRICS = 64;

type Draft = { -readonly [Field in keyof LoadReport]: LoadReport[Field] };

/**
 * Reads the value of an `endpoint-load-metrics` header: `TEXT cpu_utilization=0.3, rps_fractional=12, named_metrics.queue=0.7`,
 * `JSON {"cpu_utilization": 0.3}`, or either without its prefix. Unknown fields are skipped; undefined if nothing useful is
 * left. Never throws.
 */
export function parseLoadReport(header: string): LoadReport | undefined {
  if (header.length > MAX_LENGTH) return undefined;
  const text = header.trim();
  const [, word, body] = /^(?:(TEXT|JSON|BIN)\s+)?(.*)/s.exec(text) ?? [];
  if (body === undefined || word === 'BIN') return undefined;
  const report: Draft = {};
  if (word === 'JSON' || (word === undefined && body.startsWith('{'))) readJson(body, report);
  else readText(body, report);
  return Object.keys(report).length > 0 ? report : undefined;
}

function readText(body: string, report: Draft): void {
  for (const pair of body.split(',')) {
    const equals = pair.indexOf('=');
    if (equals === -1) continue;
    const name = pair.slice(0, equals).trim();
    const text = pair.slice(equals + 1).trim();
    const value = text === '' ? Number.NaN : Number(text);
    const named = /^(?:named_metrics|namedMetrics)\.(.+)$/.exec(name)?.[1];
    if (named === undefined) setField(report, name, value);
    else setNamed(report, named, value);
  }
}

function readJson(body: string, report: Draft): void {
  let parsed: unknown;
  try {
    parsed = JSON.parse(body);
  } catch {
    return;
  }
  if (typeof parsed !== 'object' || parsed === null) return;
  for (const [name, value] of Object.entries(parsed)) {
    if (name !== 'named_metrics' && name !== 'namedMetrics') setField(report, name, value);
    else if (typeof value === 'object' && value !== null) {
      for (const [metric, number] of Object.entries(value)) setNamed(report, metric, number);
    }
  }
}

function setField(report: Draft, name: string, value: unknown): void {
  const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
  if (field !== undefined && isMeasure(value)) report[field] = value;
}

function setNamed(report: Draft, name: string, value: unknown): void {
  if (!isMeasure(value)) return;
  const named = (report.namedMetrics ?? Object.create(null)) as Record<string, number>;
  if (Object.keys(named).length >= MAX_NAMED_METRICS) return;
  named[name] = value;
  report.namedMetrics = named;
}

function isMeasure(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}
