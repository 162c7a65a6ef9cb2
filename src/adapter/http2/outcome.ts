import {
  constants,
  type IncomingHttpHeaders,
  type IncomingHttpStatusHeader,
  type OutgoingHttpHeaders,
} from 'node:http2';
import { type Endpoint, type LoadReport, type Outcome, outcomes } from '../../index.js';
import { outcomeOfAnswer } from '../http/answer.js';
import { outcomeAtDeadline, outcomeOfGrpcStatus, outcomeOfSystemError } from '../kit/index.js';
import { EndMessage } from './end-message.js';

/** Codes of RST_STREAM by which a pod breaks the rules of HTTP/2, or says that its peer does. */
const protocolCodes: ReadonlySet<number> = new Set([
  constants.NGHTTP2_PROTOCOL_ERROR,
  constants.NGHTTP2_FLOW_CONTROL_ERROR,
  constants.NGHTTP2_SETTINGS_TIMEOUT,
  constants.NGHTTP2_STREAM_CLOSED,
  constants.NGHTTP2_FRAME_SIZE_ERROR,
  constants.NGHTTP2_COMPRESSION_ERROR,
  constants.NGHTTP2_CONNECT_ERROR,
  constants.NGHTTP2_INADEQUATE_SECURITY,
  constants.NGHTTP2_HTTP_1_1_REQUIRED,
]);

/** The outcome of a request whose stream ended before its response was complete. */
export function outcomeOfReset(rstCode: number, error: Error | undefined): Outcome {
  const known = outcomeOfSystemError((error as NodeJS.ErrnoException | undefined)?.code);
  if (known !== undefined) return known;
  if (rstCode === constants.NGHTTP2_ENHANCE_YOUR_CALM) return outcomes.overload;
  return protocolCodes.has(rstCode) ? outcomes.protocol : outcomes.reset;
}

/** What the head of a response says about its pod. A call of Connect may have been refused by a pod that works (501), or have timed out. */
export function outcomeOfHead(
  headers: IncomingHttpHeaders & IncomingHttpStatusHeader,
  report: LoadReport | undefined,
  endpoint: Endpoint | undefined,
  isConnect: boolean,
): Outcome {
  const status = Number(headers[':status']);
  const code = grpcStatusOf(headers);
  const known = code === undefined ? undefined : outcomeOfGrpcStatus(code, (name) => headers[name], endpoint);
  const outcome = known ?? (isConnect ? connectStatuses[status] : undefined);
  if (outcome === undefined) return outcomeOfAnswer(status, (name) => headers[name], report, endpoint);
  return report === undefined ? outcome : { ...outcome, report };
}

/**
 * Response statuses that mean something else with Connect than with plain HTTP (source: the table of error codes in Connect's protocol).
 */
const connectStatuses: Readonly<Record<number, Outcome>> = {
  // canceled
  499: outcomes.cancelled,
  // unimplemented
  501: outcomes.success,
  // deadline_exceeded
  504: outcomes.timeout,
};

/** What the trailers of a gRPC call say about its pod; undefined if there is no status among them. */
export function outcomeOfTrailers(trailers: IncomingHttpHeaders, endpoint: Endpoint | undefined): Outcome | undefined {
  const code = grpcStatusOf(trailers);
  return code === undefined ? undefined : outcomeOfGrpcStatus(code, (name) => trailers[name], endpoint);
}

function grpcStatusOf(headers: IncomingHttpHeaders): number | undefined {
  const status = headers['grpc-status'];
  return status === undefined ? undefined : Number(status);
}

/**
 * Creates a reader for the message in a response's body that says how the call ended, if its content type has such a message; undefined if
 * not.
 */
export function endMessageOf({ 'content-type': type }: IncomingHttpHeaders): EndMessage | undefined {
  if (type === undefined) return undefined;
  if (type.startsWith('application/connect+')) return new EndMessage(0x02);
  return type.startsWith('application/grpc-web') ? new EndMessage(0x80) : undefined;
}

/** What the end message of a body says about its pod; undefined if it says nothing, or cannot be read. */
export function outcomeOfEndMessage({ text }: EndMessage, endpoint: Endpoint | undefined): Outcome | undefined {
  if (text === undefined) return undefined;
  const status = /^grpc-status: *(\d+) *$/im.exec(text)?.[1];
  if (status !== undefined) return outcomeOfGrpcStatus(Number(status), () => undefined, endpoint);
  let code: unknown;
  try {
    code = (JSON.parse(text) as { readonly error?: { readonly code?: unknown } } | null)?.error?.code;
  } catch {
    return undefined;
  }
  return code === undefined
    ? undefined
    : outcomeOfGrpcStatus(connectCodes.indexOf(String(code)), () => undefined, endpoint);
}

/** The error codes of Connect, which are those of gRPC by name, from 1. */
const connectCodes: readonly string[] = [
  '',
  'canceled',
  'unknown',
  'invalid_argument',
  'deadline_exceeded',
  'not_found',
  'already_exists',
  'permission_denied',
  'resource_exhausted',
  'failed_precondition',
  'aborted',
  'out_of_range',
  'unimplemented',
  'internal',
  'unavailable',
  'data_loss',
  'unauthenticated',
];

/**
 * The outcome when the caller of a request gives up: a timeout if the caller's own deadline is over by then (`grpc-timeout`,
 * `connect-timeout-ms`), and the pod had the request for most of that.
 *
 * @param heldMs How long the pod had the request. @param sinceMs How long ago the call began.
 */
export function outcomeOfAbort(
  headers: OutgoingHttpHeaders,
  heldMs: number,
  sinceMs: number,
  answered: boolean,
): Outcome {
  const limitMs = timeoutOf(headers);
  if (limitMs === undefined || sinceMs < AT_DEADLINE * limitMs) return outcomes.cancelled;
  return outcomeAtDeadline(heldMs, limitMs, answered);
}

/** The share of a deadline after which it counts as over: timers round, and the caller's timer began earlier. */
const AT_DEADLINE = 0.95;

const unitMs: ReadonlyMap<string, number> = new Map(
  Object.entries({ H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 }),
);

/** How long the whole call may take according to its headers, in ms; undefined = no limit. */
export function timeoutOf(headers: OutgoingHttpHeaders): number | undefined {
  const connect = headers['connect-timeout-ms'];
  if (connect !== undefined) return /^\d{1,10}$/.test(String(connect)) ? Number(connect) : undefined;
  const [, value, unit = ''] = /^(\d{1,8})([HMSmun])$/.exec(String(headers['grpc-timeout'])) ?? [];
  return value === undefined ? undefined : Number(value) * (unitMs.get(unit) as number);
}
