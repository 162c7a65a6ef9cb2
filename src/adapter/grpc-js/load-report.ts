import { type Metadata, status } from '@grpc/grpc-js';
import type { LoadReport } from '../../index.js';
import { loadReportHeader, loadReportMethod, parseLoadReport } from '../kit/index.js';
import { type Askable, askOver, type OwnMethod } from './own-call.js';
import { readFields } from './wire.js';

/** The trailer with a server's load report (ORCA, gRFC A51). */
const TRAILER = `${loadReportHeader}-bin`;
/** Reports longer than this are not read; no server sends any. */
const MAX_LENGTH = 4_096;

/** Fields of `xds.data.orca.v3.OrcaLoadReport`, by number. */
const scalars: ReadonlyMap<number, Exclude<keyof LoadReport, 'namedMetrics'>> = new Map([
  [1, 'cpuUtilization'],
  [2, 'memUtilization'],
  [6, 'rpsFractional'],
  [7, 'eps'],
  [9, 'applicationUtilization'],
]);
const NAMED_METRICS = 8;

/**
 * The load report in the trailers of a call, in gRPC's binary form or as the text HTTP servers send; undefined if there is none, or it
 * is invalid. Never throws.
 */
export function loadReportOf(metadata: Metadata): LoadReport | undefined {
  const [binary] = metadata.get(TRAILER);
  if (typeof binary === 'object') return decodeLoadReport(binary);
  const [text] = metadata.get(loadReportHeader);
  return typeof text === 'string' ? parseLoadReport(text) : undefined;
}

const nothing = Buffer.alloc(0);
const reportQuestion: OwnMethod<undefined, LoadReport | undefined> = {
  method: loadReportMethod,
  encode: () => nothing,
  decode: decodeLoadReport,
};

/** Asks the server behind this connection for a report. Resolves with undefined if it knows none; rejects if it did not answer. */
export async function askForReport(connection: Askable, signal: AbortSignal): Promise<LoadReport | undefined> {
  const { error, answer } = await askOver(connection, reportQuestion, undefined, signal);
  if (error === undefined) return answer;
  if (error.code === status.UNAVAILABLE) throw error;
  return undefined;
}

/** Reads an `OrcaLoadReport`; negative values and values that are not numbers are left out. */
export function decodeLoadReport(message: Buffer): LoadReport | undefined {
  if (message.length > MAX_LENGTH) return undefined;
  const report: { -readonly [Field in keyof LoadReport]: LoadReport[Field] } = {};
  const named: Record<string, number> = Object.create(null);
  try {
    readFields(message, (field, value) => {
      if (typeof value === 'number') {
        const name = scalars.get(field);
        if (name !== undefined && isMeasure(value)) report[name] = value;
      } else if (field === NAMED_METRICS) readEntry(value, named);
    });
  } catch {
    return undefined;
  }
  if (Object.keys(named).length > 0) report.namedMetrics = named;
  return Object.keys(report).length > 0 ? report : undefined;
}

/** An entry of `map<string, double>`: key = 1, value = 2, either left out when empty or 0. */
function readEntry(entry: Buffer, into: Record<string, number>): void {
  let key = '';
  let measure = 0;
  readFields(entry, (field, value) => {
    if (field === 1 && typeof value !== 'number') key = value.toString('utf8');
    if (field === 2 && typeof value === 'number') measure = value;
  });
  if (isMeasure(measure)) into[key] = measure;
}

function isMeasure(value: number): boolean {
  return Number.isFinite(value) && value >= 0;
}
