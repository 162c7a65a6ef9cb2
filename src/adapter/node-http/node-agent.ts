import { Agent, type ClientRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import type { Socket } from 'node:net';
import { inspect } from 'node:util';
import { afterPendingIo } from '../kit/index.js';

// Undocumented parts of Node's Agent and ClientRequest, all in one place. Agents of other libraries have relied on them for ten years;
// the tests use them on every supported Node.

/** An Agent as `http.request` uses it. */
export interface RequestTaker {
  /** Gives the request a socket, by `request.onSocket`, now or later. */
  addRequest(request: ClientRequest, options: RequestOptions): void;
}

/** What an Agent gives a socket to: a request, as far as an Agent sees it. */
export interface SocketTaker {
  /** Whether the socket carried another request before. The Agent sets it. */
  reusedSocket: boolean;
  onSocket(socket: Socket | null | undefined, error?: Error | null): void;
  once(event: 'close', listener: () => void): unknown;
}

/** The options `http.request` passes to an Agent: those it was given, completed. */
export type { RequestOptions };

/** Replaces a method of an object. Call the result to undo that, unless somebody else has replaced it since. */
export function replace<T extends object, K extends keyof T>(object: T, name: K, method: T[K]): () => void {
  const before = Object.getOwnPropertyDescriptor(object, name);
  object[name] = method;
  return () => {
    if (object[name] !== method) return;
    if (before === undefined) delete object[name];
    else Object.defineProperty(object, name, before);
  };
}

/** Whether `value` can take requests. */
export function takesRequests(value: unknown): value is RequestTaker {
  return typeof (value as Partial<RequestTaker> | null | undefined)?.addRequest === 'function';
}

/** Throws for a Host header that is no text, as Node's own Agents do: a list would be sent as several headers. */
export function checkHost(request: ClientRequest, { servername }: RequestOptions & { servername?: string }): void {
  const host: unknown = request.getHeader('host');
  // They read it for the name of TLS only.
  if (!host || typeof host === 'string' || servername || servername === '') return;
  const message = `The "options.headers.host" property must be of type string. Received ${inspect(host)}`;
  throw Object.assign(new TypeError(message), { code: 'ERR_INVALID_ARG_TYPE' });
}

/** What Node's own Agent does with a request, regardless of overrides in `agent`. */
export function addRequest(agent: Agent, request: SocketTaker, options: RequestOptions): void {
  (Agent.prototype as unknown as RequestTaker).addRequest.call(agent, request as ClientRequest, options);
}

/**
 * Moves the options of an Agent to its prototype. `addRequest` copies own options one by one for every request, which is most of its
 * cost; inherited ones are not copied, and read the same.
 */
export function inheritOptions(agent: Agent): void {
  const own = agent as unknown as { options: object };
  own.options = Object.create(own.options) as object;
}

/**
 * Ends a request that has no socket: it emits the error, or the reason its caller destroyed it with, then `close`. `destroy` alone would
 * leave it hanging forever.
 */
export function endWithoutSocket(request: ClientRequest, error?: Error): void {
  (request.onSocket as unknown as (socket: null, error: Error | undefined) => void).call(request, null, error);
}

/** The response, once its headers arrived. Unlike a listener for `response`, reading this changes nothing. */
export function responseOf(request: ClientRequest): IncomingMessage | undefined {
  return (request as { res?: IncomingMessage | null }).res ?? undefined;
}

interface Limited {
  /** The `timeout` option the request was made with, in ms. Node applies it to the socket the request gets. */
  timeout?: number | undefined;
  /** What Node has added to a socket; if it is set, it adds nothing more. */
  timeoutCb?: (() => void) | null;
}

/** The `timeout` option a request was made with, in ms. */
export function timeoutOf(request: ClientRequest): number | undefined {
  return (request as Limited).timeout;
}

/** Node's `setTimeout` for a request without a socket: what it checks and keeps, but it does not listen on the socket to come. */
export function keepTimeout(
  request: ClientRequest,
  setTimeout: ClientRequest['setTimeout'],
  timeoutMs: number,
  callback?: () => void,
): void {
  const limited = request as Limited;
  const before = limited.timeoutCb ?? null;
  limited.timeoutCb = noTimeout;
  try {
    setTimeout.call(request, timeoutMs, callback);
  } finally {
    limited.timeoutCb = before;
  }
}

/**
 * The time limit of a request once it has a socket, in ms; 0 = none. Undefined if its caller has been told that it timed out: Node tells
 * that once.
 */
export function limitOnSocket(request: ClientRequest, timeoutMs: number | undefined): void {
  const limited = request as Limited;
  if (timeoutMs === undefined) limited.timeoutCb = noTimeout;
  else if (timeoutMs > 0) limited.timeout = timeoutMs;
  else if (limited.timeout !== undefined) limited.timeout = undefined;
}

const noTimeout = (): void => {};

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
  const held = (request as unknown as Holding).outputData ?? [];
  for (const part of held) Object.assign(part, { data: '', encoding: 'latin1' });
  // Node keeps the socket once the request is written. It has told its caller so before, on the socket of another pod.
  const last = held.at(-1);
  if (!isShown && last !== undefined && socket.writableLength > 0) last.callback = () => void request.emit('finish');
  request.reusedSocket = reusedSocket;
  if (timeoutMs > 0) socket.setTimeout(timeoutMs);
  const flow = (): void => afterPendingIo(() => socket.resume());
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
