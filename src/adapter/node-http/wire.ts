import type { ClientRequest } from 'node:http';
import type { Socket } from 'node:net';
import { replace, type SocketTaker } from '../http/node-agent.js';

// A request that may be sent twice is written here, and the head of its response read, with undocumented parts of Node's ClientRequest.

/** A part of a request, as Node holds it back while there is no socket. */
interface Held {
  data: string | Uint8Array;
  encoding?: BufferEncoding | null;
  callback?: ((error?: Error | null) => void) | null;
}

interface Holding {
  readonly outputData?: Held[];
  outputSize: number;
  socket: Socket | null;
}

/** A request as bytes. */
export type RequestBytes = readonly Readonly<Held>[];

/** A request that is complete and has no socket; undefined for any other, or if Node does not show it. */
export function bytesOf(request: ClientRequest): RequestBytes | undefined {
  const { outputData } = request as unknown as Holding;
  if (!request.writableEnded || request.socket != null || !Array.isArray(outputData)) return undefined;
  const [first] = outputData;
  if (typeof first?.data !== 'string' || !first.data.startsWith(`${request.method} `)) return undefined;
  return outputData.map(({ data, encoding }) => ({ data, encoding: encoding ?? null }));
}

/** Writes a request to a socket as Node would. */
export function writeBytes(socket: Socket, bytes: RequestBytes): void {
  socket.cork();
  for (const { data, encoding, callback } of bytes) {
    socket.write(data, encoding ?? undefined, (error) => callback?.(error));
  }
  socket.uncork();
}

/** What Node would call when it has written the request; the first to write it calls it. */
export function takeCallbacks(request: ClientRequest, bytes: RequestBytes): RequestBytes {
  const held = (request as unknown as Holding).outputData ?? [];
  return bytes.map((part, index) => {
    const { callback = null } = held[index] ?? {};
    if (held[index] !== undefined) held[index].callback = null;
    return { ...part, callback };
  });
}

/** The request is written to this socket, as its caller sees it: that is when `socket` comes, and what it tells about itself. */
export function showSocket(request: ClientRequest, socket: Socket, { reusedSocket }: SocketTaker): void {
  request.reusedSocket = reusedSocket;
  (request as unknown as Holding).socket = socket;
  (request as unknown as Holding).outputSize = 0;
  request.emit('socket', socket);
}

/** It is no longer on this socket, which may soon be another request's. */
export function hideSocket(request: ClientRequest, socket: Socket): void {
  if (request.socket === socket) (request as unknown as Holding).socket = null;
}

/** The same request, whose header says that its caller waits this much longer, in ms, unless it says less. */
export function withDeadline(bytes: RequestBytes, header: string, remainingMs: number): RequestBytes {
  const [first, ...rest] = bytes;
  if (typeof first?.data !== 'string') return bytes;
  const end = first.data.indexOf('\r\n\r\n');
  const named = new RegExp(`(\\r\\n${header.replace(/[^\w-]/g, '\\$&')}: *)(\\d+)(?=\\r\\n)`, 'gi');
  const leftMs = Math.max(1, Math.floor(remainingMs));
  const head = first.data.slice(0, end + 2);
  const said = head.replace(named, (_line, name: string, ms: string) => name + Math.min(Number(ms), leftMs));
  return [{ ...first, data: said + first.data.slice(end + 2) }, ...rest];
}

/**
 * Gives a request a socket on which it was sent already, and on which its response waits: it writes nothing, and reads that.
 * The socket must be paused.
 *
 * @param isShown Whether the request has told of this very socket. @param timeoutMs The request's time limit; 0 = none.
 */
export function handOver(
  request: ClientRequest,
  socket: Socket,
  {
    isShown,
    reusedSocket,
    timeoutMs,
  }: { readonly isShown: boolean; readonly reusedSocket: boolean; readonly timeoutMs: number },
): void {
  const holding = request as unknown as Holding;
  const held = holding.outputData ?? [];
  // Nothing is written, not even an empty part: on a connection that the pod has reset by now, that would be an error.
  held.length = 0;
  holding.outputSize = 0;
  // Node keeps the socket once the request is written. It has told its caller so before, on the socket of another pod.
  if (!isShown && socket.writableLength > 0) {
    held.push({ data: '', encoding: 'latin1', callback: () => void request.emit('finish') });
  }
  request.reusedSocket = reusedSocket;
  if (timeoutMs > 0) socket.setTimeout(timeoutMs);
  // In this turn: an end or a reset that follows the response would overtake what was put back, or discard it.
  const flow = (): void => process.nextTick(() => socket.resume());
  if (isShown) {
    const emit = (event: string, ...rest: unknown[]): boolean => {
      restore();
      if (event !== 'socket') return request.emit(event, ...rest);
      flow();
      return true;
    };
    const restore = replace(request, 'emit', emit as ClientRequest['emit']);
  } else request.once('socket', flow);
  // Node keeps the socket of a request that was given up meanwhile, for the next one, which would get this response.
  process.nextTick(() => {
    if (request.destroyed) socket.destroy();
  });
  request.onSocket(socket);
}

/** A socket is idle again after a response with these headers. */
export function giveBack(
  socket: Socket,
  { reusedSocket }: SocketTaker,
  headers: Readonly<Record<string, string>>,
): void {
  Object.assign(socket, { _httpMessage: { shouldKeepAlive: true, reusedSocket, res: { headers } } });
  // Of a caller that was told of it.
  socket.removeAllListeners('timeout');
  socket.emit('free');
}

/** Node's error for a connection that ended without a response. */
export const hangUpError = (): Error => Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' });

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
