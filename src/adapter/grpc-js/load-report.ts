import type { Metadata } from '@grpc/grpc-js';
import type { LoadReport } from '../../index.js';
import { readFields } from './wire.js';

/** Where servers put their load with each answer (ORCA, gRFC A51). */
const TRAILER = 'endpoint-load-metrics-bin';

const scalars: Readonly<
  Record<number, 'cpuUtilization' | 'memUtilization' | 'rpsFractional' | 'eps' | 'applicationUtilization'>
> = { 1: 'cpuUtilization', 2: 'memUtilization', 6: 'rpsFractional', 7: 'eps', 9: 'applicationUtilization' };
const NAMED_METRICS = 8;

/** What the server said of its load in the trailers of a call; undefined when it said nothing that can be read. */
export function loadReportOf(metadata: Metadata): LoadReport | undefined {
  const [value] = metadata.get(TRAILER);
  return value === undefined || typeof value === 'string' ? undefined : decodeLoadReport(value);
}

/** `xds.data.orca.v3.OrcaLoadReport`. Values below 0 and what is no number are left out. */
export function decodeLoadReport(message: Buffer): LoadReport | undefined {
  const report: { -readonly [Key in keyof LoadReport]: LoadReport[Key] } = {};
  const named: Record<string, number> = {};
  try {
    readFields(message, (field, value) => {
      const name = scalars[field];
      if (name !== undefined && typeof value === 'number' && value >= 0) report[name] = value;
      if (field === NAMED_METRICS && typeof value !== 'number') readEntry(value, named);
    });
  } catch {
    return undefined;
  }
  if (Object.keys(named).length > 0) report.namedMetrics = named;
  return report;
}

/** An entry of `map<string, double>`: key = 1, value = 2, both left out when empty or 0. */
function readEntry(entry: Buffer, into: Record<string, number>): void {
  let key = '';
  let number = 0;
  readFields(entry, (field, value) => {
    if (field === 1 && typeof value !== 'number') key = value.toString('utf8');
    if (field === 2 && typeof value === 'number') number = value;
  });
  if (Number.isFinite(number) && key !== '__proto__') into[key] = number;
}
