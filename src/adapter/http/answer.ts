import { type Endpoint, endpointAddress, type LoadReport, type Outcome, outcomes } from '../../index.js';
import {
  type FailedAttempt,
  notBegunHeader,
  type RefusalCheck,
  type RetryPolicy,
  reportsHeader,
} from '../kit/index.js';
import type { HeaderOf } from './pod-signals.js';

/** The longest Retry-After of a response that is honored, in ms. */
const MAX_RETRY_AFTER_MS = 3_600_000;

/**
 * The outcome of an HTTP response for its pod: 5xx is a failure, pushback is overload, any other status (404 included) is work done. A pod
 * that says it has not begun the request has not failed: the request may be sent to another pod. With `report`, the outcome includes the
 * pod's load report.
 */
export function outcomeOfAnswer(
  status: number,
  header: HeaderOf,
  report: LoadReport | undefined,
  refusals?: RefusalCheck,
): Outcome {
  const outcome = outcomeOfStatus(status, header);
  if (status === 503 && refusals?.hasNotBegun(header(notBegunHeader)) === true) {
    return { ...outcome, kind: 'not-started', cause: 'overload' };
  }
  return report === undefined ? outcome : { ...outcome, report };
}

/** The head of a final response, and what its request allows. */
interface AnsweredRequest {
  readonly verdict: Outcome;
  readonly status: number;
  readonly header: HeaderOf;
  readonly method: string;
  /** Whether the request may be sent twice. */
  readonly idempotent: boolean;
}

/**
 * Describes an attempt whose response another pod's may replace: its pod has not begun the request, or the retry options look at responses.
 * Undefined if the response is final.
 */
export function failedBy(answered: AnsweredRequest, retries: RetryPolicy): FailedAttempt | undefined {
  const { verdict, status, header, method, idempotent } = answered;
  if (verdict.kind === 'not-started') {
    const error = new Error('the pod did not begin the request: it has too much to do');
    return { outcome: verdict, error, idempotent: true, answered: false, method };
  }
  if (status < 400 || !idempotent || !retries.looksAtAnswers) return undefined;
  return { outcome: verdict, error: undefined, idempotent, answered: false, method, status, header };
}

/**
 * Takes evenkeel's own headers out of a response, after they have been read: they are meant for this hop alone, and the application may be
 * a gateway that passes response headers on.
 *
 * @param headers By their lower-case names. @returns Whether there were any.
 */
export function takeOwnHeaders(headers: Record<string, unknown>): boolean {
  if (headers[notBegunHeader] === undefined && headers[reportsHeader] === undefined) return false;
  delete headers[notBegunHeader];
  delete headers[reportsHeader];
  return true;
}

/** A list of alternating names and values without evenkeel's own headers; the same list if it has none of them. */
export function withoutOwnHeaders<T>(raw: readonly T[]): readonly T[] {
  let kept: T[] | undefined;
  for (let index = 0; index + 1 < raw.length; index += 2) {
    if (isOwnHeader(raw[index] as string | Buffer)) kept ??= raw.slice(0, index);
    else kept?.push(raw[index] as T, raw[index + 1] as T);
  }
  return kept ?? raw;
}

/** The lengths are compared first, because this runs for each header of each response. */
function isOwnHeader(name: string | Buffer): boolean {
  if (name.length !== notBegunHeader.length && name.length !== reportsHeader.length) return false;
  const text = name.toString().toLowerCase();
  return text === notBegunHeader || text === reportsHeader;
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
 * Reads a Retry-After header, in ms. Its value is a number of seconds, or a date, which is taken relative to the response's own Date
 * header, so that clocks need not agree. Source: RFC 9110, 10.2.3.
 */
export function parseRetryAfter(retryAfter: unknown, date: unknown): number | undefined {
  // Node returns a list for a header that was sent more than once.
  if (typeof retryAfter !== 'string') return undefined;
  const text = retryAfter.trim();
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - Date.parse(String(date));
  return Number.isFinite(ms) && ms >= 0 ? Math.min(ms, MAX_RETRY_AFTER_MS) : undefined;
}

/** The messages with which HTTP clients report that the pod closed the connection. */
const ended: ReadonlySet<string> = new Set(['other side closed', 'socket hang up']);

/**
 * Adds a likely reason to an error's message if a pod closed a plain connection without ever having sent a byte: TLS servers do that when
 * they get plain HTTP. The error's code stays.
 */
export function explainSilentEnd(error: Error, endpoint: Endpoint, bytesRead: number | undefined): void {
  if (bytesRead !== 0 || !ended.has(error.message)) return;
  const hint = `${endpointAddress(endpoint)} closed it without a byte; if it speaks TLS, use https://`;
  error.message = `${error.message} (${hint})`;
}

/** The frame type SETTINGS. It is the first frame of an HTTP/2 connection, where the type follows three bytes of length. */
const SETTINGS = 4;

/**
 * Adds the likely reason to an error's message if a pod answered a plain HTTP/1.1 request with HTTP/2: the pod speaks nothing else.
 *
 * @param unparsed The bytes that could not be parsed, one character each.
 */
export function explainHttp2Answer(error: Error, endpoint: Endpoint, unparsed: string | undefined): void {
  if (unparsed?.charCodeAt(0) !== 0 || unparsed.charCodeAt(3) !== SETTINGS) return;
  const hint = `${endpointAddress(endpoint)} speaks HTTP/2 only; useH2c of evenkeel/undici speaks it, with undici 8.10`;
  error.message = `${error.message} (${hint})`;
}
