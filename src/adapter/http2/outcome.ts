import {
  constants,
  type IncomingHttpHeaders,
  type IncomingHttpStatusHeader,
  type OutgoingHttpHeaders,
} from 'node:http2';
import { type LoadReport, type Outcome, outcomes } from '../../index.js';
import { outcomeOfAnswer } from '../http/answer.js';
import { outcomeAtDeadline, outcomeOfGrpcStatus, outcomeOfSystemError, type RefusalCheck } from '../kit/index.js';
import { EndMessage } from './end-message.js';

/** Codes of RST_STREAM that mean a violation of HTTP/2, by the pod or, in the pod's view, by its client. */
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

/**
 * What the response headers say about the pod. With Connect, two HTTP statuses mean something else than usual: 501 comes from a pod that
 * works, and 504 says that the call timed out.
 */
export function outcomeOfHead(
  headers: IncomingHttpHeaders & IncomingHttpStatusHeader,
  report: LoadReport | undefined,
  refusals: RefusalCheck,
  isConnect: boolean,
): Outcome {
  const status = Number(headers[':status']);
  const code = grpcStatusOf(headers);
  const known = code === undefined ? undefined : outcomeOfGrpcStatus(code, (name) => headers[name], refusals);
  const outcome = known ?? (isConnect ? connectStatuses[status] : undefined);
  if (outcome === undefined) return outcomeOfAnswer(status, (name) => headers[name], report, refusals);
  return report === undefined ? outcome : { ...outcome, report };
}

/**
 * The HTTP statuses that mean something else in Connect's protocol than in plain HTTP (source: the table of error codes in that protocol).
 */
const connectStatuses: Readonly<Record<number, Outcome>> = {
  // Connect's code `canceled`.
  499: outcomes.cancelled,
  // Connect's code `unimplemented`.
  501: outcomes.success,
  // Connect's code `deadline_exceeded`.
  504: outcomes.timeout,
};

/** What the trailers of a gRPC call say about the pod; undefined if they contain no status. */
export function outcomeOfTrailers(trailers: IncomingHttpHeaders, refusals: RefusalCheck): Outcome | undefined {
  const code = grpcStatusOf(trailers);
  return code === undefined ? undefined : outcomeOfGrpcStatus(code, (name) => trailers[name], refusals);
}

function grpcStatusOf(headers: IncomingHttpHeaders): number | undefined {
  const status = headers['grpc-status'];
  return status === undefined ? undefined : Number(status);
}

/**
 * Whether a request belongs to an RPC that is over when its response is complete, even if its request is not: a call of gRPC or gRPC-web, or
 * a stream of Connect. Connect's client does not end such a request, and the stream would stay open.
 */
export function endsWithResponse({ 'content-type': type }: OutgoingHttpHeaders): boolean {
  return /^application\/(grpc|connect\+)/.test(String(type));
}

/** Creates a reader for the end message of a response's body, if responses of this content type have one; else returns undefined. */
export function endMessageOf({ 'content-type': type }: IncomingHttpHeaders): EndMessage | undefined {
  if (type === undefined) return undefined;
  if (type.startsWith('application/connect+')) return new EndMessage(0x02);
  return type.startsWith('application/grpc-web') ? new EndMessage(0x80) : undefined;
}

/** What the end message of a response's body says about the pod; undefined if it says nothing or cannot be read. */
export function outcomeOfEndMessage({ text }: EndMessage): Outcome | undefined {
  if (text === undefined) return undefined;
  const status = /^grpc-status: *(\d+) *$/im.exec(text)?.[1];
  if (status !== undefined) return outcomeOfGrpcStatus(Number(status), () => undefined, undefined);
  let code: unknown;
  try {
    code = (JSON.parse(text) as { readonly error?: { readonly code?: unknown } } | null)?.error?.code;
  } catch {
    return undefined;
  }
  return code === undefined
    ? undefined
    : outcomeOfGrpcStatus(connectCodes.indexOf(String(code)), () => undefined, undefined);
}

/** Connect's error codes. Each stands at the index that is the number of the gRPC status with the same name. */
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
 * The outcome when the caller gives up a request: a timeout if the caller's own deadline (`grpc-timeout`, `connect-timeout-ms`) has passed
 * and the pod had the request for at least half of that time; else `cancelled`.
 *
 * @param heldMs How long the pod had the request, in ms.
 * @param sinceMs How long ago the call began, in ms.
 */
export function outcomeOfAbort(
  headers: OutgoingHttpHeaders,
  heldMs: number,
  sinceMs: number,
  answered: boolean,
): Outcome {
  const limitMs = timeoutOf(headers);
  if (limitMs === undefined || sinceMs < COUNTS_AS_DEADLINE_SHARE * limitMs) return outcomes.cancelled;
  return outcomeAtDeadline(heldMs, limitMs, answered);
}

/**
 * A caller that gives up after this share of its deadline gave up because of the deadline: timers round, and the caller's timer began
 * earlier.
 */
const COUNTS_AS_DEADLINE_SHARE = 0.95;

const unitMs: ReadonlyMap<string, number> = new Map(
  Object.entries({ H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 }),
);

/** How long the whole call may take according to its request headers, in ms; undefined = no limit. */
export function timeoutOf(headers: OutgoingHttpHeaders): number | undefined {
  const connect = headers['connect-timeout-ms'];
  if (connect !== undefined) return /^\d{1,10}$/.test(String(connect)) ? Number(connect) : undefined;
  const [, value, unit = ''] = /^(\d{1,8})([HMSmun])$/.exec(String(headers['grpc-timeout'])) ?? [];
  return value === undefined ? undefined : Number(value) * (unitMs.get(unit) as number);
}
