import { errors } from 'undici';
import { type Endpoint, type Outcome, outcomes } from '../../index.js';
import { isDialError } from '../http/dial.js';
import { asPodLeftError, isPodLeftError, podLeftMessage } from '../http/pod-left.js';
import { outcomeOfSystemError } from '../kit/index.js';
import { isRefusedError } from './http2.js';

/** What undici says of a WebSocket over HTTP/2 to a server that does not offer them (RFC 8441); it has no code of its own. */
const NO_EXTENDED_CONNECT = 'HTTP/2: Extended CONNECT protocol not supported by server';

/** Errors that end a request after it may have been sent, by code; those of the system are the core's to tell. */
const byCode: Readonly<Record<string, Outcome>> = {
  UND_ERR_HEADERS_TIMEOUT: outcomes.timeout,
  UND_ERR_BODY_TIMEOUT: outcomes.timeout,
  UND_ERR_SOCKET: outcomes.reset,
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
 * How an attempt ended that failed with `error`. `sent`: it may have reached the pod. An error nobody here knows came from the
 * caller (its body stream, its reason for an abort) and says nothing about the pod.
 */
export function outcomeOfError(error: Error, sent: boolean): Outcome {
  // Also of a request that was begun: undici 8 takes back what a GOAWAY says was not processed (RFC 9113, 6.8), and opens
  // a new connection for it. One that was lost with its connection fails with what ended that.
  if (isDialError(error)) return outcomes.notConnected;
  if (isPodLeftError(error) || isRefusedError(error)) return outcomes.notStarted;
  const code = codeOf(error);
  if (!sent) return code === '' || wrongRequest.has(code) ? outcomes.cancelled : outcomes.notStarted;
  // The caller has to ask otherwise, as undici's WebSocket does; nothing was sent, and nothing is wrong with the pod.
  if (code === 'UND_ERR_INFO' && error.message === NO_EXTENDED_CONNECT) return outcomes.cancelled;
  const known = byCode[code] ?? outcomeOfSystemError(code);
  if (known !== undefined) return known;
  // llhttp's verdicts on what the pod sent.
  return code.startsWith('HPE_') || error.name === 'HTTPParserError' ? outcomes.protocol : outcomes.cancelled;
}

function codeOf(error: Error): string {
  const { code } = error as { code?: unknown };
  return typeof code === 'string' ? code : '';
}

/** What undici fails an attempt with that must not be sent any more, because its pod has left the Service. */
export function podLeftError(endpoint: Endpoint): Error {
  return asPodLeftError(new errors.SocketError(podLeftMessage(endpoint)));
}

/** What undici says of a request for a pool that is closed or destroyed. */
const givenUpCodes: ReadonlySet<unknown> = new Set(['UND_ERR_CLOSED', 'UND_ERR_DESTROYED']);

/**
 * Whether an attempt of which nothing was sent failed because its pod's last connection died, and the pool was given up, after
 * the pod was picked. undici's own Pool would have opened another connection for it.
 */
export function isGivenUpError(error: Error): boolean {
  return givenUpCodes.has((error as { readonly code?: unknown }).code);
}
