import type { ClientHttp2Session } from 'node:http2';
import type { Socket } from 'node:net';
import * as undici from 'undici';

// Every undocumented part of undici that evenkeel uses. Symbols are found by their descriptions; the tests of test/integration/undici use
// all of them with the oldest and the newest supported versions.

/**
 * Whether the installed undici is 7, whose core takes handlers of both forms; undici 8 takes only the newer form. Seen in 7.30 and 8.13.
 */
export const coreTakesHandlerV1: boolean = !('Dispatcher1Wrapper' in undici);

/** The context that undici passes to handlers of a request to which no interceptor has added anything. Seen in 7.30 and 8.13. */
export const noContext: null | undefined = coreTakesHandlerV1 ? undefined : null;

const symbolNamed = (owner: object, name: string): symbol | undefined =>
  Object.getOwnPropertySymbols(owner).find(({ description }) => description === name);

const fieldsOf = (client: undici.Client): Record<symbol, unknown> => client as unknown as Record<symbol, unknown>;

const busySymbol = symbolNamed(undici.Client.prototype, 'busy');
const connectedSymbol = symbolNamed(undici.Client.prototype, 'connected');

/**
 * Whether a request that is given to `client` now would have to wait. True for an undici without this getter, so that nothing is sent
 * early.
 */
export function isBusy(client: undici.Client): boolean {
  return busySymbol === undefined || fieldsOf(client)[busySymbol] === true;
}

/** Whether `client` has a connection that can be reused. False for an undici without this getter, so that nothing is sent early. */
export function isConnected(client: undici.Client): boolean {
  return connectedSymbol !== undefined && fieldsOf(client)[connectedSymbol] === true;
}

/**
 * The property by which undici's Pool marks a client that has to drain before it gets another request. Undefined for an undici that does
 * this differently; every request then goes through the Pool's own search.
 */
export function needDrainSymbol(pool: undici.Pool): symbol | undefined {
  return symbolNamed(pool, 'needDrain');
}

/**
 * Marks `client` as waiting for its drain, as undici's Pool does with a client that returned false. @param needDrain From
 * `needDrainSymbol`.
 */
export function markNeedsDrain(client: undici.Client, needDrain: symbol): void {
  fieldsOf(client)[needDrain] = true;
}

/**
 * Whether undici has paused the HTTP/1.1 parser of a socket. False for an undici without this symbol, so that the socket's end is not
 * delayed.
 */
export function isParserPaused(socket: Socket): boolean {
  const symbol = symbolNamed(socket, 'parser');
  if (symbol === undefined) return false;
  const parser = Reflect.get(socket, symbol) as { readonly paused?: unknown } | null | undefined;
  return parser?.paused === true;
}

/**
 * Why the HTTP/2 of the installed undici is not used; undefined if it is. Before 8.10, undici endlessly resends a request that a pod keeps
 * rejecting by GOAWAY, which blocks the process. Before 8.5 a POST waits for everything else on the connection, and before 8.4 every
 * request does. 8.0 and 8.1 fail running requests at a GOAWAY.
 *
 * undici does not expose its version. Only the clients of those versions have a field for the PING interval.
 */
export function http2Defect(): string | undefined {
  if (coreTakesHandlerV1) return 'undici 7 (it fails running requests at a GOAWAY';
  const fields = Object.getOwnPropertySymbols(new undici.Client('http://localhost'));
  const isEarly = fields.some(({ description }) => description === 'ping interval');
  return isEarly ? 'undici 8.0 to 8.9 (they send a request without end to a pod that rejects it by GOAWAY' : undefined;
}

/**
 * The HTTP/2 session that undici has created on a socket. In a version without that symbol: undefined, and the number of streams that a pod
 * allows is not known, so requests above it wait in undici.
 */
export function http2SessionOf(socket: Socket): ClientHttp2Session | undefined {
  const symbol = symbolNamed(socket, 'http2Session');
  return symbol && (Reflect.get(socket, symbol) as ClientHttp2Session | undefined);
}

/**
 * Makes `client` send nothing on its next HTTP/2 session before the pod's settings have arrived. undici would send the first request
 * before, and that request would wait in Node's session for as long as the pod allows no streams. The settings replace the value. It is not
 * 0, with which undici 8.10 lets the process end although a request waits. In a version without that symbol the first request is sent.
 */
export function holdUntilSettings(client: undici.Client): void {
  const symbol = symbolNamed(client, 'max concurrent streams');
  if (symbol !== undefined) fieldsOf(client)[symbol] = -1;
}

/** The HTTP/2 error code of a stream that was refused, REFUSED_STREAM (RFC 9113, 7). */
const REFUSED_STREAM = 7;
/** undici's message for a request that a GOAWAY without an error code left unprocessed. */
const GOAWAY = 'HTTP/2: "GOAWAY" frame received with code 0';

/**
 * Whether `error` says that the pod did not process an HTTP/2 request that was sent: it refused the stream (RFC 9113, 8.7), or its GOAWAY
 * names an earlier stream as the last one it processed (6.8). The request may then be sent again, whatever its method. undici 8 resends it
 * once by itself; a request that is refused again, or whose body is used up, fails with this error.
 *
 * The message is compared exactly, because a POST depends on it. From 8.10 on (checked up to 8.12) only requests that were left unprocessed
 * fail with UND_ERR_INFO.
 */
export function isRefusedError(error: Error): boolean {
  const { code, message, http2ErrorCode } = error as Error & { code?: unknown; http2ErrorCode?: unknown };
  if (code === 'ERR_HTTP2_STREAM_ERROR') return http2ErrorCode === REFUSED_STREAM;
  return code === 'UND_ERR_INFO' && message === GOAWAY;
}

/**
 * The bytes that undici's parser could not read, one character each. Undefined for an undici that does not keep them; messages then say
 * less.
 */
export function unparsedOf(error: Error): string | undefined {
  const { data } = error as { readonly data?: unknown };
  return typeof data === 'string' ? data : undefined;
}

/**
 * Whether `error` says that a server opens no WebSockets over HTTP/2 (RFC 8441), which has no error code of its own. Without this, pods
 * would be blamed.
 */
export function isNoExtendedConnect(error: Error): boolean {
  const { code, message } = error as Error & { readonly code?: unknown };
  return code === 'UND_ERR_INFO' && message === 'HTTP/2: Extended CONNECT protocol not supported by server';
}

/**
 * Whether an error of `dispatch` is about a handler without methods, which undici checks last. Without this, evenkeel could not check a
 * request without sending it.
 */
export function isAboutHandler({ message }: Error): boolean {
  return /^invalid on\w+ method$/.test(message);
}

/**
 * Whether undici's `fetch` takes a dispatcher for a mock. Without this, `fetch` would give a mock a stream instead of the body that the
 * mock has to match.
 */
export function isMockActive(dispatcher: object | undefined): boolean {
  return (dispatcher as { readonly isMockActive?: unknown } | undefined)?.isMockActive === true;
}
