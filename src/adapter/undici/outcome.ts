import { errors } from 'undici';
import { type Endpoint, type Outcome, outcomes } from '../../index.js';
import { asPodLeftError, isDialError, isPodLeftError, podLeftMessage } from '../http/dial.js';
import { isDeadlineError, type RequestDeadline } from '../http/request-deadline.js';
import { outcomeAtDeadline, outcomeOfSystemError } from '../kit/index.js';
import { isNoExtendedConnect, isRefusedError } from './internals.js';

/** The outcomes of errors that end a request after it may have been sent, by error code. The core knows the codes of system errors. */
const byCode: ReadonlyMap<string, Outcome> = new Map([
  ['UND_ERR_HEADERS_TIMEOUT', outcomes.timeout],
  ['UND_ERR_BODY_TIMEOUT', outcomes.timeout],
  ['UND_ERR_SOCKET', outcomes.reset],
  // These codes say that the other side ended an HTTP/2 stream or session. The first is undici's, the others are Node's.
  ['UND_ERR_INFO', outcomes.reset],
  ['ERR_HTTP2_STREAM_ERROR', outcomes.reset],
  ['ERR_HTTP2_SESSION_ERROR', outcomes.reset],
  ['ERR_HTTP2_GOAWAY_SESSION', outcomes.reset],
  ['ERR_HTTP2_STREAM_CANCEL', outcomes.reset],
  ['ERR_HTTP2_INVALID_SESSION', outcomes.reset],
  ['UND_ERR_HEADERS_OVERFLOW', outcomes.protocol],
  ['UND_ERR_RES_CONTENT_LENGTH_MISMATCH', outcomes.protocol],
  // The pod did its work, but the response was larger than the caller allows.
  ['UND_ERR_RES_EXCEEDED_MAX_SIZE', outcomes.cancelled],
  // These errors are caused by the client, not by the pod.
  ['UND_ERR_ABORTED', outcomes.cancelled],
  ['UND_ERR_DESTROYED', outcomes.cancelled],
  ['UND_ERR_CLOSED', outcomes.cancelled],
  ['UND_ERR_INVALID_ARG', outcomes.cancelled],
  ['UND_ERR_NOT_SUPPORTED', outcomes.cancelled],
  ['UND_ERR_REQ_CONTENT_LENGTH_MISMATCH', outcomes.cancelled],
]);

/** The codes of errors about an invalid request, which no pod would get. */
const wrongRequest: ReadonlySet<string> = new Set([
  'UND_ERR_ABORTED',
  'UND_ERR_INVALID_ARG',
  'UND_ERR_NOT_SUPPORTED',
  'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH',
]);

/**
 * The outcome of an attempt that failed with `error`. `sent` says that the attempt may have reached the pod. An unknown error came from the
 * caller (its body stream, its reason for an abort) and does not count against the pod.
 */
export function outcomeOfError(error: Error, sent: boolean): Outcome {
  // An attempt that had begun may fail with a dial error too: undici 8 takes back requests that a GOAWAY left unprocessed (RFC 9113, 6.8)
  // and opens a new connection for them. A request that was lost with its connection fails with the error that ended the connection.
  if (isDialError(error)) return outcomes.notConnected;
  if (isPodLeftError(error) || isRefusedError(error)) return outcomes.notStarted;
  const code = codeOf(error);
  if (!sent) return code === '' || wrongRequest.has(code) ? outcomes.cancelled : outcomes.notStarted;
  // The caller has to open its WebSocket another way, as undici's WebSocket does. Nothing was sent, and nothing is wrong with the pod.
  if (isNoExtendedConnect(error)) return outcomes.cancelled;
  const byItsCode = byCode.get(code) ?? outcomeOfSystemError(code);
  if (byItsCode !== undefined) return byItsCode;
  // llhttp, undici's HTTP/1.1 parser, could not read what the pod sent.
  return code.startsWith('HPE_') || error.name === 'HTTPParserError' ? outcomes.protocol : outcomes.cancelled;
}

function codeOf(error: Error): string {
  const { code } = error as { code?: unknown };
  return typeof code === 'string' ? code : '';
}

/**
 * The outcome of an attempt whose caller gave up, or whose deadline passed.
 * @param heldMs How long the pod had the attempt.
 */
export function outcomeOfAbort({ abortReason, deadline }: AbortedCall, heldMs: number, answered: boolean): Outcome {
  if (deadline === undefined || !isDeadlineError(abortReason)) return outcomes.cancelled;
  return outcomeAtDeadline(heldMs, deadline.limitMs, answered);
}

/** The outcome of an attempt whose caller had given up before it was sent. `error` is what undici dropped it with. */
export function outcomeOfUnsent(error: Error): Outcome {
  return isDialError(error) ? outcomes.notConnected : outcomes.notStarted;
}

/** The part of a call that decides the outcome of its abort. */
interface AbortedCall {
  readonly abortReason: Error | undefined;
  readonly deadline: RequestDeadline | undefined;
}

/** The error of an attempt that must no longer be sent, because its pod has left the Service. */
export function podLeftError(endpoint: Endpoint): Error {
  return asPodLeftError(new errors.SocketError(podLeftMessage(endpoint)));
}

/** undici's error codes for a request to a pool that is closed or destroyed. */
const givenUpCodes: ReadonlySet<unknown> = new Set(['UND_ERR_CLOSED', 'UND_ERR_DESTROYED']);

/**
 * Whether an attempt failed before its pod was tried: the pod has left the Service, or its last connection died after the pod was picked,
 * and its pool was closed before anything was sent. undici's own Pool would have opened another connection for the request.
 */
export function isUntried(error: Error, sent: boolean): boolean {
  return isPodLeftError(error) || (!sent && givenUpCodes.has((error as { readonly code?: unknown }).code));
}
