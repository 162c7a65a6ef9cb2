/** The head of a response: enough to decide whether the caller gets it. */
export interface ResponseHead {
  readonly status: number;
  /** By name in lower case; repeated ones are joined. */
  readonly headers: Readonly<Record<string, string>>;
  /** Where the body begins. */
  readonly end: number;
  /** Length of the body, in bytes; undefined if it ends with the connection. */
  readonly bodyBytes: number | 'chunked' | undefined;
  /** Whether the connection can carry another request after the body. */
  readonly keepsAlive: boolean;
}

const BEGIN = Buffer.from('HTTP/1.');
const END_OF_HEAD = Buffer.from('\r\n\r\n');

/**
 * Parses the head of the response to a request with this method. Undefined while it is incomplete; null if it cannot be parsed here.
 * Node's own parser gets the same bytes later: a doubt here is never an error, it only costs a retry or a connection.
 */
export function responseHead(bytes: Buffer, method: string): ResponseHead | undefined | null {
  const begun = Math.min(bytes.length, BEGIN.length);
  if (bytes.compare(BEGIN, 0, begun, 0, begun) !== 0) return null;
  const end = bytes.indexOf(END_OF_HEAD);
  if (end === -1) return undefined;
  const [statusLine = '', ...lines] = bytes.toString('latin1', 0, end).split('\r\n');
  const status = /^HTTP\/1\.([01]) (\d{3})(?: |$)/.exec(statusLine);
  if (status === null) return null;
  const headers: Record<string, string> = Object.create(null);
  for (const line of lines) {
    const colon = line.indexOf(':');
    if (colon < 1) return null;
    const name = line.slice(0, colon).toLowerCase();
    const value = line.slice(colon + 1).trim();
    headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`;
  }
  const code = Number(status[2]);
  const hasClose = /(^|,)\s*close\s*(,|$)/i.test(headers.connection ?? '');
  return {
    status: code,
    headers,
    end: end + END_OF_HEAD.length,
    bodyBytes: bodyBytesOf(code, headers, method),
    keepsAlive: status[1] === '1' && !hasClose,
  };
}

function bodyBytesOf(
  status: number,
  headers: Readonly<Record<string, string>>,
  method: string,
): ResponseHead['bodyBytes'] {
  if (method === 'HEAD' || status === 204 || status === 304) return 0;
  const { 'content-length': length, 'transfer-encoding': coding } = headers;
  if (coding !== undefined) return coding.toLowerCase() === 'chunked' && length === undefined ? 'chunked' : undefined;
  return length !== undefined && /^\d{1,15}$/.test(length) ? Number(length) : undefined;
}

/**
 * How many bytes of the response are still to come, if all of `bytes` belongs to it; at least 1 if unknown, Infinity if its end cannot
 * be detected, negative if there are more bytes than the response has.
 */
export function bytesLeft({ bodyBytes, end }: ResponseHead, bytes: Buffer): number {
  if (bodyBytes === undefined) return Number.POSITIVE_INFINITY;
  return bodyBytes === 'chunked' ? chunksLeft(bytes, end) : bodyBytes - (bytes.length - end);
}

/** Source: RFC 9112, 7.1. */
function chunksLeft(bytes: Buffer, begin: number): number {
  for (let at = begin; ; ) {
    const line = bytes.indexOf('\r\n', at);
    if (line === -1) return 1;
    const size = /^([0-9a-f]{1,8})(?:\s*;.*)?$/i.exec(bytes.toString('latin1', at, line))?.[1];
    if (size === undefined) return Number.POSITIVE_INFINITY;
    const next = line + 2 + Number.parseInt(size, 16) + 2;
    if (next > bytes.length) return next - bytes.length;
    // What follows the last chunk is an empty line, or trailers, which are not worth reading.
    if (bytes.toString('latin1', next - 2, next) !== '\r\n') return Number.POSITIVE_INFINITY;
    if (Number.parseInt(size, 16) === 0) return next - bytes.length;
    at = next;
  }
}
