import type { Readable } from 'node:stream';
import { type Dispatcher, errors } from 'undici';
import type { RetryPolicy } from '../kit/index.js';

/**
 * A path that is an absolute URL names its origin itself. It must be the one that was given: what is meant for that, the
 * caller's credentials among it, must not reach a host somebody else wrote into the path. Throws undici's error for what
 * is not the same.
 *
 * @param isOne Whether two origins are one.
 */
export function resolvePath(
  options: Dispatcher.DispatchOptions,
  isOne: (given: string | URL, named: string) => boolean = isSameOrigin,
): Dispatcher.DispatchOptions {
  const { origin, path, method } = options;
  if (method === 'CONNECT' || typeof path !== 'string' || !/^https?:\/\//i.test(path)) return options;
  if (!URL.canParse(path)) throw new errors.InvalidArgumentError('invalid request path');
  const url = new URL(path);
  if (origin !== undefined && origin !== null && !isOne(origin, url.origin)) {
    throw new errors.InvalidArgumentError(`the path names ${url.origin}, which is not the origin of the request`);
  }
  return { ...options, origin: url.origin, path: `${url.pathname}${url.search}` };
}

/** Whether `given` and `named` are the same scheme, host and port. */
export function isSameOrigin(given: string | URL, named: string): boolean {
  const text = String(given);
  return URL.canParse(text) && new URL(text).origin === named;
}

/**
 * The fetch of Node 20 and 22 adds its Content-Length to one the caller set, as `3, 3`, which undici from 7 on refuses.
 * A recipient may take a list of the same number for that number (RFC 9110, 8.6).
 */
export function withOneLength(options: Dispatcher.DispatchOptions): Dispatcher.DispatchOptions {
  const { headers } = options;
  if (typeof headers !== 'object' || headers === null || Array.isArray(headers)) return options;
  const length = (headers as Record<string, unknown>)['content-length'];
  if (typeof length !== 'string' || !/^(\d+)(, \1)+$/.test(length)) return options;
  return { ...options, headers: { ...headers, 'content-length': length.slice(0, length.indexOf(',')) } };
}

/** undici 7's functions leave their `dispatcher` in the options, undici 8's core refuses it there. */
export function withoutDispatcher(options: Dispatcher.DispatchOptions): Dispatcher.DispatchOptions {
  if (!('dispatcher' in options)) return options;
  const { dispatcher: _dispatcher, ...rest } = options;
  return rest as Dispatcher.DispatchOptions;
}

/** With a Host header, unless the caller has set one. Headers of a form undici refuses stay as they are. */
export function withHost(options: Dispatcher.DispatchOptions, host: string): Dispatcher.DispatchOptions {
  const headers = options.headers as unknown;
  if (headers === undefined || headers === null) return { ...options, headers: { host } };
  if (typeof headers !== 'object') return options;
  if (Array.isArray(headers)) {
    const names = headers.filter((_entry, index) => index % 2 === 0);
    return names.some(isHost) ? options : { ...options, headers: ['host', host, ...headers] };
  }
  if (Symbol.iterator in headers) {
    const pairs = [...(headers as Iterable<unknown>)];
    // undici refuses these; the iterator may be used up.
    if (!pairs.every((pair) => Array.isArray(pair) && pair.length === 2))
      return { ...options, headers: new Set(pairs) } as never;
    // undici takes an array for names and values in turn.
    return withHost({ ...options, headers: (pairs as [string, string][]).flat() }, host);
  }
  return Object.keys(headers).some(isHost) ? options : ({ ...options, headers: { host, ...headers } } as never);
}

/** The body, if it is a stream. */
export function bodyOf({ body }: Dispatcher.DispatchOptions): Readable | undefined {
  const stream = body as Partial<Readable> | null | undefined;
  const isStream = typeof stream === 'object' && typeof stream?.pipe === 'function' && typeof stream.on === 'function';
  return isStream ? (stream as Readable) : undefined;
}

/** Whether the request may be done twice, and can be: its body is still there once it was sent. */
export function isRepeatable(options: Dispatcher.DispatchOptions, retries: RetryPolicy): boolean {
  const { method, upgrade, idempotent } = options;
  // An upgraded connection belongs to the caller and cannot be replaced by another.
  if (upgrade || method === 'CONNECT') return false;
  return retries.allowsMethod(method) && idempotent !== false && hasLastingBody(options);
}

/** Whether the body is still there once it was sent. */
export function hasLastingBody({ body }: Dispatcher.DispatchOptions): boolean {
  return body === undefined || body === null || typeof body === 'string' || ArrayBuffer.isView(body);
}

function isHost(name: unknown): boolean {
  return String(name).toLowerCase() === 'host';
}
