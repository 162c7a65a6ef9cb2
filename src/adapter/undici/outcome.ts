import { type Outcome, outcomes, parseLoadReport } from '../../index.js';
import { isDialError } from './dial.js';

/** Longest wait a Retry-After is believed, in ms. */
const MAX_RETRY_AFTER_MS = 3_600_000;

/** One header of an answer, by its name in lower case. */
export type HeaderOf = (name: string) => unknown;

/**
 * What an answer says about the pod: 5xx is a failure, pushback is overload, all else (404 included) is work done.
 * With `report`, the value of its load report header, what the pod says about itself goes along.
 */
export function outcomeOfAnswer(status: number, header: HeaderOf, report: unknown): Outcome {
  const outcome = outcomeOfStatus(status, header);
  const parsed = typeof report === 'string' ? parseLoadReport(report) : undefined;
  return parsed === undefined ? outcome : { ...outcome, report: parsed };
}

function outcomeOfStatus(status: number, header: HeaderOf): Outcome {
  if (status === 429 || status === 503) {
    const retryAfterMs = parseRetryAfter(header('retry-after'), header('date'));
    if (retryAfterMs !== undefined) return { ...outcomes.overload, retryAfterMs };
  }
  if (status === 429) return outcomes.overload;
  return status >= 500 ? outcomes.status : outcomes.success;
}

/**
 * Retry-After in ms: seconds, or a date, taken relative to the answer's own Date so that nobody's clock matters.
 * Source: RFC 9110, 10.2.3.
 */
export function parseRetryAfter(retryAfter: unknown, date: unknown): number | undefined {
  // A header that came twice is a list.
  if (typeof retryAfter !== 'string') return undefined;
  const text = retryAfter.trim();
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - Date.parse(String(date));
  return Number.isFinite(ms) && ms >= 0 ? Math.min(ms, MAX_RETRY_AFTER_MS) : undefined;
}

/** The value of one header in undici's raw form, `[name, value, …]` of buffers or strings. */
export function rawHeader(headers: unknown, wanted: string): string | undefined {
  if (!Array.isArray(headers)) return undefined;
  for (let index = 0; index + 1 < headers.length; index += 2) {
    const name = headers[index] as Buffer | string;
    if (name.length === wanted.length && name.toString().toLowerCase() === wanted) return String(headers[index + 1]);
  }
  return undefined;
}

/** Errors that end a request after it may have been sent, by code. */
const byCode: Readonly<Record<string, Outcome>> = {
  UND_ERR_HEADERS_TIMEOUT: outcomes.timeout,
  UND_ERR_BODY_TIMEOUT: outcomes.timeout,
  // The kernel gave up on the peer: the connection died.
  ETIMEDOUT: outcomes.reset,
  UND_ERR_SOCKET: outcomes.reset,
  ECONNRESET: outcomes.reset,
  ECONNABORTED: outcomes.reset,
  EPIPE: outcomes.reset,
  EHOSTUNREACH: outcomes.reset,
  ENETUNREACH: outcomes.reset,
  // HTTP/2: undici's word for a stream the other side ended, and Node's for streams and sessions that did.
  UND_ERR_INFO: outcomes.reset,
  ERR_HTTP2_STREAM_ERROR: outcomes.reset,
  ERR_HTTP2_SESSION_ERROR: outcomes.reset,
  ERR_HTTP2_GOAWAY_SESSION: outcomes.reset,
  ERR_HTTP2_STREAM_CANCEL: outcomes.reset,
  ERR_HTTP2_INVALID_SESSION: outcomes.reset,
  UND_ERR_HEADERS_OVERFLOW: outcomes.protocol,
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: outcomes.protocol,
  // The pod did its work; the answer was more than the caller allows.
  UND_ERR_RES_EXCEEDED_MAX_SIZE: outcomes.cancelled,
  // Our own doing.
  UND_ERR_ABORTED: outcomes.cancelled,
  UND_ERR_DESTROYED: outcomes.cancelled,
  UND_ERR_CLOSED: outcomes.cancelled,
  UND_ERR_INVALID_ARG: outcomes.cancelled,
  UND_ERR_NOT_SUPPORTED: outcomes.cancelled,
  UND_ERR_REQ_CONTENT_LENGTH_MISMATCH: outcomes.cancelled,
};

/** Errors of a request that was never sent which another pod would not answer otherwise: the request is wrong. */
const wrongRequest: ReadonlySet<string> = new Set([
  'UND_ERR_ABORTED',
  'UND_ERR_INVALID_ARG',
  'UND_ERR_NOT_SUPPORTED',
  'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH',
]);

/**
 * How an attempt ended that failed with `error`. `sent`: it may have reached the pod. An error nobody here knows came
 * from the caller (his body stream, his reason for an abort) and says nothing about the pod.
 */
export function outcomeOfError(error: Error, sent: boolean): Outcome {
  const code = codeOf(error);
  if (!sent) {
    if (isDialError(error)) return outcomes.notConnected;
    return code === '' || wrongRequest.has(code) ? outcomes.cancelled : outcomes.notStarted;
  }
  const known = byCode[code];
  if (known !== undefined) return known;
  // llhttp's verdicts on what the pod sent, and TLS alerts in mid-connection.
  if (code.startsWith('HPE_') || error.name === 'HTTPParserError') return outcomes.protocol;
  return code.startsWith('ERR_SSL_') || code === 'EPROTO' ? outcomes.reset : outcomes.cancelled;
}

function codeOf(error: Error): string {
  const { code } = error as { code?: unknown };
  return typeof code === 'string' ? code : '';
}
