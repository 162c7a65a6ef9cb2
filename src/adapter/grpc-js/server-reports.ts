import { type Metadata, status } from '@grpc/grpc-js';
import type { Endpoint, LoadReport } from '../../index.js';
import { addressMark, loadReportHeader, notBegunHeader, parseLoadReport, reportsHeader } from '../kit/index.js';
import type { Http2Connection, UnaryMethod } from './http2-connection.js';

/**
 * What a server reports about itself: its load, in the trailers of calls (ORCA, gRFC A51), and its health. The few small, stable messages
 * are encoded and decoded by hand, without a dependency.
 */

/** The trailer with a server's load report in gRPC's binary form. */
export const reportTrailer: string = `${loadReportHeader}-bin`;
/** The largest load report that is read, in bytes; no server sends a longer one. */
const MAX_LENGTH = 4_096;

/** The fields of `xds.data.orca.v3.OrcaLoadReport`, by number. */
const scalars: ReadonlyMap<number, Exclude<keyof LoadReport, 'namedMetrics'>> = new Map([
  [1, 'cpuUtilization'],
  [2, 'memUtilization'],
  [6, 'rpsFractional'],
  [7, 'eps'],
  [9, 'applicationUtilization'],
]);
const NAMED_METRICS = 8;

/**
 * The load report in the trailers of a call, in gRPC's binary form or as the text that HTTP servers send; undefined if there is none, or if
 * it is invalid. Never throws.
 */
export function loadReportOf(trailers: Readonly<Record<string, string | Buffer>>): LoadReport | undefined {
  const binary = trailers[reportTrailer];
  if (typeof binary === 'object') return decodeLoadReport(binary);
  const text = trailers[loadReportHeader];
  return typeof text === 'string' ? parseLoadReport(text) : undefined;
}

/** Whether this server itself says that it reports its load to calls that ask, rather than a server behind it. */
export function announcesReports(
  trailers: Readonly<Record<string, string | Buffer>>,
  { address, port }: Endpoint,
): boolean {
  return trailers[reportsHeader] === addressMark(address, port);
}

/** The end of a call, as grpc-js passes it through filters. */
export interface EndStatus {
  readonly code: status;
  readonly details?: string;
  readonly metadata?: Metadata | null | undefined;
}

/** A status without evenkeel's own trailers: they are meant for this hop alone, and the application may pass trailers on. */
export function withoutOwnTrailers<T extends EndStatus>(ended: T): T {
  const { metadata } = ended;
  if (metadata == null || own.every((name) => metadata.get(name).length === 0)) return ended;
  // Not changed in place, because evenkeel reads them later than this.
  const kept = metadata.clone();
  for (const name of own) kept.remove(name);
  return { ...ended, metadata: kept };
}

const own: readonly string[] = [notBegunHeader, reportsHeader];

/** The names of `HealthCheckResponse.ServingStatus` of grpc.health.v1, by number. */
const SERVING_STATUS = ['UNKNOWN', 'SERVING', 'NOT_SERVING', 'SERVICE_UNKNOWN'];
const SERVING = 1;
const healthCheck: UnaryMethod<string, number> = {
  method: '/grpc.health.v1.Health/Check',
  encode: encodeHealthRequest,
  decode: decodeHealthResponse,
};

/**
 * Checks the health of `service` by grpc.health.v1, over exactly this connection. Resolves if the service is being served, or if the server
 * does not have the health service; otherwise rejects with the server's answer, or with the signal's reason.
 */
export async function checkHealth(connection: Http2Connection, service: string, signal: AbortSignal): Promise<void> {
  const { error, answer } = await connection.callUnary(healthCheck, service, signal);
  if (error === undefined) {
    if (answer === SERVING) return;
    throw new Error(`its health service answered ${SERVING_STATUS[answer] ?? answer}`);
  }
  if (error.code === status.UNIMPLEMENTED) return;
  if (error.code === status.NOT_FOUND) throw new Error(`its health service knows no service "${service}"`);
  throw new Error(`its health service failed: ${error.message}`, { cause: error });
}

/** Decodes an `OrcaLoadReport`; negative values and values that are not numbers are left out. */
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

/** Reads an entry of a protobuf `map<string, double>` into the record: key = 1, value = 2, either left out when empty or 0. */
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

/** Encodes a `HealthCheckRequest { string service = 1 }`. */
export function encodeHealthRequest(service: string): Buffer {
  const text = Buffer.from(service, 'utf8');
  if (text.length === 0) return text;
  const length: number[] = [];
  let lengthRest = text.length;
  for (; lengthRest > 0x7f; lengthRest >>>= 7) length.push((lengthRest & 0x7f) | 0x80);
  return Buffer.concat([Buffer.from([0x0a, ...length, lengthRest]), text]);
}

/** Decodes a `HealthCheckResponse { ServingStatus status = 1 }`; a status left out is 0, UNKNOWN. */
export function decodeHealthResponse(message: Buffer): number {
  let servingStatus = 0;
  readFields(message, (field, value) => {
    if (field === 1 && typeof value === 'number') servingStatus = value;
  });
  return servingStatus;
}

/**
 * Receives one protobuf field: a number for varint and fixed64 (read as a double), bytes for length-delimited fields; fixed32 is skipped.
 */
type FieldVisitor = (field: number, value: number | Buffer) => void;

/** Calls `visit` for each field of a protobuf message, in order. Throws a RangeError for an invalid message. */
export function readFields(message: Buffer, visit: FieldVisitor): void {
  let at = 0;
  const varint = (): number => {
    // Numbers beyond 2^53 lose precision; no field that evenkeel reads is that large.
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = message.readUInt8(at++);
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
      if (factor >= 128 ** 9) throw new RangeError('a number of more than 10 bytes');
    }
  };
  while (at < message.length) {
    const tag = varint();
    const field = Math.floor(tag / 8);
    switch (tag % 8) {
      case 0:
        visit(field, varint());
        break;
      case 1:
        visit(field, message.readDoubleLE(at));
        at += 8;
        break;
      case 2: {
        const end = varint() + at;
        if (end > message.length) throw new RangeError('a field beyond the end');
        visit(field, message.subarray(at, end));
        at = end;
        break;
      }
      case 5:
        if (at + 4 > message.length) throw new RangeError('a field beyond the end');
        at += 4;
        break;
      default:
        throw new RangeError(`wire type ${tag % 8}`);
    }
  }
}
