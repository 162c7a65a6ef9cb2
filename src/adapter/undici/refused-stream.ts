/** The error code REFUSED_STREAM (RFC 9113, 7). */
const REFUSED_STREAM = 7;
/** What undici fails a request with that a GOAWAY without an error left out. */
const GOAWAY = 'HTTP/2: "GOAWAY" frame received with code 0';

/**
 * Whether `error` says that the pod did nothing of an HTTP/2 request that was sent: it refused the stream (RFC 9113, 8.7),
 * or its GOAWAY names an earlier stream as the last it looked at (6.8). It may then be sent again, whatever its method.
 * undici 8 does that itself, once; it fails with this what is refused again, or has a body that is there no more.
 *
 * To the letter, since a POST depends on it. undici 8.0 and 8.1 fail any request that runs when a GOAWAY comes, but with
 * UND_ERR_SOCKET; from 8.2 (seen to 8.12) those with UND_ERR_INFO are only the ones that were left out. The code of a
 * refused stream is told from 8.10 on.
 */
export function isRefusedError(error: Error): boolean {
  const { code, message, http2ErrorCode } = error as Error & { code?: unknown; http2ErrorCode?: unknown };
  if (code === 'ERR_HTTP2_STREAM_ERROR') return http2ErrorCode === REFUSED_STREAM;
  return code === 'UND_ERR_INFO' && message === GOAWAY;
}
