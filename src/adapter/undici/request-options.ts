import * as undici from 'undici';
import { Client, type Dispatcher, errors } from 'undici';
import type { OriginMatcher } from '../http/origin.js';
import { asError, type RetryPolicy } from '../kit/index.js';
import { bodyOf } from './request-body.js';

/**
 * A copy of a request's options that the caller can no longer change. undici reads headers and path at `dispatch`; here they may be read
 * much later, because the request waits or is sent again. Callers reuse one object for many requests, so another user's credentials
 * could be sent.
 *
 * Bodies are not copied, as in undici.
 */
export function ownOptions(options: Dispatcher.DispatchOptions): OwnOptions {
  const own = isPlain(options) ? { ...options } : allOf(options);
  if (own.headers !== undefined) own.headers = ownHeaders(own.headers) as NonNullable<OwnOptions['headers']>;
  if (own.query !== undefined) own.query = ownRecord(own.query) as NonNullable<OwnOptions['query']>;
  if (own.origin instanceof URL) own.origin = new URL(own.origin);
  return own;
}

/** A copy of the options, which evenkeel may change. */
export type OwnOptions = { -readonly [Name in keyof Dispatcher.DispatchOptions]: Dispatcher.DispatchOptions[Name] } & {
  /** The name for TLS; not in undici's types. */
  servername?: string;
};

/**
 * The options with another name for TLS. Not added to `own`: on Node 20, adding a property to a copy made by `{ ...options }`
 * takes longer than all else that is done to it.
 */
export function withServername(own: OwnOptions, servername: string): OwnOptions {
  const named: OwnOptions = { servername, ...own };
  named.servername = servername;
  return named;
}

/**
 * Headers in a form that undici reads like the original: a list of alternating names and values, or an object. undici still refuses
 * invalid ones. Throws what iterating over them throws.
 */
function ownHeaders(headers: unknown): unknown {
  if (Array.isArray(headers)) return headers.map(ownValue);
  if (typeof headers !== 'object' || headers === null) return headers;
  return isIterated(headers) ? ownPairs(headers) : ownRecord(headers);
}

function ownPairs(headers: Iterable<unknown>): unknown {
  const list: unknown[] = [];
  const others: unknown[] = [];
  for (const pair of headers) {
    if (Array.isArray(pair) && pair.length === 2) list.push(ownValue(pair[0]), ownValue(pair[1]));
    else others.push(pair);
  }
  // undici refuses these; it would read a list as names and values.
  return others.length === 0 ? list : new Set(others);
}

function ownRecord(record: unknown): unknown {
  if (typeof record !== 'object' || record === null) return record;
  const own: Record<string, unknown> = { ...record };
  for (const name in own) {
    // Nearly every value is a string. Properties added to Object.prototype are not headers.
    if (typeof own[name] === 'object' && Object.hasOwn(own, name)) own[name] = ownValue(own[name]);
  }
  return own;
}

function ownValue(value: unknown): unknown {
  return Array.isArray(value) ? value.slice() : value;
}

/**
 * Whether undici iterates over headers of this form rather than reading their properties. An iterator added to Object.prototype does
 * not count.
 */
function isIterated(headers: object): headers is Iterable<unknown> {
  if (isPlain(headers) && !Object.hasOwn(headers, Symbol.iterator)) return false;
  return typeof (headers as Partial<Iterable<unknown>>)[Symbol.iterator] === 'function';
}

function isPlain(options: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(options);
  return prototype === Object.prototype || prototype === null;
}

/** The options undici reads. */
const names = [
  'origin',
  'path',
  'method',
  'body',
  'headers',
  'query',
  'idempotent',
  'blocking',
  'upgrade',
  'allowH2',
  'headersTimeout',
  'bodyTimeout',
  'reset',
  'expectContinue',
  'servername',
  'throwOnError',
  'maxRedirections',
  'typeOfService',
  'signal',
] as const;

/** Includes options from a prototype, such as defaults or getters of a class: undici reads those too. */
function allOf(options: Dispatcher.DispatchOptions): OwnOptions {
  const from = options as unknown as Readonly<Record<string, unknown>>;
  const own: Record<string, unknown> = { ...from };
  for (const name in from) own[name] = from[name];
  for (const name of names) if (name in from) own[name] = from[name];
  return own as unknown as OwnOptions;
}

const SLASH = 47;

/**
 * The request of a dispatcher, copied now: a form is encoded, and a path that is a URL is resolved. Throws the error the request is
 * refused with.
 */
export function requestOf(
  options: Dispatcher.DispatchOptions,
  handler: Dispatcher.DispatchHandler,
  matcher: OriginMatcher,
): OwnOptions {
  const copy = ownOptions(options);
  if (copy.body != null) encodeForm(copy);
  const own = copy.body == null || typeof handler.onRequestStart === 'function' ? copy : withOneLength(copy);
  const { origin, path } = own;
  if (typeof path !== 'string' || path.charCodeAt(0) === SLASH) return own;
  // A request without an origin is for the dispatcher's Service.
  return resolvePath({ ...own, origin: origin ?? matcher.origin }, (given, named) =>
    matcher.matches(given) ? matcher.matches(named) : isSameOrigin(given, named),
  );
}

/**
 * A path that is an absolute URL names an origin. It must be the origin of the request: its credentials must not reach a host that
 * somebody else wrote into the path. Throws undici's error if the two differ.
 *
 * @param isOne Whether two origins are the same.
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
 * The fetch of Node 20 and 22 adds its Content-Length to the caller's, as `3, 3`, which undici refuses from 7 on. A recipient may
 * read a list of one repeated number as that number (RFC 9110, 8.6).
 */
export function withOneLength(options: Dispatcher.DispatchOptions): Dispatcher.DispatchOptions {
  const { headers } = options;
  if (typeof headers !== 'object' || headers === null || Array.isArray(headers)) return options;
  const length = (headers as Record<string, unknown>)['content-length'];
  if (typeof length !== 'string' || !/^(\d+)(, \1)+$/.test(length)) return options;
  return { ...options, headers: { ...headers, 'content-length': length.slice(0, length.indexOf(',')) } };
}

/**
 * Encodes a form that `fetch` passes on unencoded, as it does where a mock may answer. Its Content-Type already names a boundary:
 * undici would encode the form with another one, and no pod could read it.
 */
export function encodeForm(own: OwnOptions): void {
  const body: unknown = own.body;
  if (!(body instanceof undici.FormData || body instanceof FormData)) return;
  const headers = own.headers as Record<string, string> | null | undefined;
  if (headers?.['content-type'] === undefined) return;
  const encoded = body instanceof undici.FormData ? new undici.Response(body) : new Response(body);
  own.body = encoded.body as never;
  headers['content-type'] = encoded.headers.get('content-type') as string;
}

/** Whether the request may be sent twice, and can be: sending does not use its body up. */
export function isRepeatable(options: Dispatcher.DispatchOptions, retries: RetryPolicy): boolean {
  const { method, upgrade, idempotent } = options;
  // An upgraded connection belongs to the caller, and cannot be replaced.
  if (upgrade || method === 'CONNECT') return false;
  return retries.methods.has(method) && idempotent !== false && hasLastingBody(options);
}

/** Whether sending does not use the body up. */
export function hasLastingBody({ body }: Dispatcher.DispatchOptions): boolean {
  return body === undefined || body === null || typeof body === 'string' || ArrayBuffer.isView(body);
}

/** Whether a request's body can be sent (again). Even if the pod processed nothing, a body that was sent may be used up. */
export function canBeSent(options: Dispatcher.DispatchOptions, wasSent: boolean): boolean {
  return bodyOf(options)?.destroyed !== true && (!wasSent || hasLastingBody(options));
}

/** undici 7's functions leave their `dispatcher` in the options, where undici 8's core refuses it. */
export function withoutDispatcher(options: Dispatcher.DispatchOptions): Dispatcher.DispatchOptions {
  if (!('dispatcher' in options)) return options;
  const { dispatcher: _dispatcher, ...rest } = options;
  return rest as Dispatcher.DispatchOptions;
}

/** Adds a Host header, unless the caller has set one. Headers in a form that undici refuses stay unchanged. */
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
    // undici refuses these. The iterator may be used up.
    if (!pairs.every((pair) => Array.isArray(pair) && pair.length === 2))
      return { ...options, headers: new Set(pairs) } as never;
    // undici reads an array as alternating names and values.
    return withHost({ ...options, headers: (pairs as [string, string][]).flat() }, host);
  }
  return Object.keys(headers).some(isHost) ? options : ({ ...options, headers: { host, ...headers } } as never);
}

function isHost(name: unknown): boolean {
  return String(name).toLowerCase() === 'host';
}

/** An interceptor that adds the origin to requests without one, so that caches and the like see where they go. */
export function completedWith(origin: string): Dispatcher.DispatcherComposeInterceptor {
  return (dispatch) => (options, handler) => {
    const isComplete = typeof options !== 'object' || options === null || options.origin;
    return dispatch(isComplete ? options : { ...options, origin }, handler);
  };
}

/** A Client that never connects, and so never sends a request. */
let judge: Client | undefined;
/** undici's message for a handler without methods, which it checks last. */
const ofHandler = /^invalid on\w+ method$/;

/** The error undici would refuse a request with at `dispatch`. For requests that wait and so do not reach undici yet. */
export function refusalOf(options: Dispatcher.DispatchOptions): Error | undefined {
  judge ??= new Client('http://nobody.invalid', { connect: (_options, dialled) => dialled(new Error('none'), null) });
  // undici would add listeners to a stream.
  const asked = bodyOf(options) === undefined ? options : { ...options, body: null };
  try {
    judge.dispatch(asked, {});
  } catch (error) {
    const refusal = asError(error);
    return ofHandler.test(refusal.message) ? undefined : refusal;
  }
  return undefined;
}
