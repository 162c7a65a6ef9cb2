import * as undici from 'undici';
import { type Dispatcher, errors } from 'undici';
import type { OriginMatcher } from '../http/origin.js';
import type { RetryPolicy } from '../kit/index.js';
import { coreTakesHandlerV1 } from './internals.js';
import { bodyOf } from './request-body.js';
import { validationError } from './unsent-request.js';

/**
 * Copies a request's options, so that the caller can no longer change them. undici reads headers and path at `dispatch`; evenkeel may read
 * them much later, because the request waits or is sent again. Callers reuse one object for many requests, so another user's credentials
 * could be sent.
 *
 * Bodies are not copied, as in undici.
 */
export function ownOptions(options: Dispatcher.DispatchOptions): OwnOptions {
  const optionsCopy = isPlain(options) ? { ...options } : allOf(options);
  if (optionsCopy.headers !== undefined)
    optionsCopy.headers = ownHeaders(optionsCopy.headers) as NonNullable<OwnOptions['headers']>;
  if (optionsCopy.query !== undefined)
    optionsCopy.query = ownRecord(optionsCopy.query) as NonNullable<OwnOptions['query']>;
  if (optionsCopy.origin instanceof URL) optionsCopy.origin = new URL(optionsCopy.origin);
  return optionsCopy;
}

/** The copy of a request's options, which evenkeel may change. */
export type OwnOptions = { -readonly [Name in keyof Dispatcher.DispatchOptions]: Dispatcher.DispatchOptions[Name] } & {
  /** The name for TLS, which undici's types lack. */
  servername?: string;
};

/**
 * Returns the request's options with another name for TLS. The name is not added to `own`: on Node 20, adding a property to a copy made by
 * `{ ...options }` takes longer than everything else that is done to the copy.
 */
export function withServername(own: OwnOptions, servername: string): OwnOptions {
  const named: OwnOptions = { servername, ...own };
  named.servername = servername;
  return named;
}

/**
 * Copies headers into a form that undici reads like the original: a list of alternating names and values, or an object. undici still
 * refuses invalid headers. Throws what iterating over the headers throws.
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
  // undici refuses headers with such entries, while it would read a list as names and values.
  return others.length === 0 ? list : new Set(others);
}

function ownRecord(record: unknown): unknown {
  if (typeof record !== 'object' || record === null) return record;
  const recordCopy: Record<string, unknown> = { ...record };
  for (const name in recordCopy) {
    // Nearly every value is a string. Properties that somebody added to Object.prototype are not headers.
    if (typeof recordCopy[name] === 'object' && Object.hasOwn(recordCopy, name))
      recordCopy[name] = ownValue(recordCopy[name]);
  }
  return recordCopy;
}

function ownValue(value: unknown): unknown {
  return Array.isArray(value) ? value.slice() : value;
}

/**
 * Whether undici iterates over headers of this form rather than reading their properties. An iterator that somebody added to
 * Object.prototype does not count.
 */
function isIterated(headers: object): headers is Iterable<unknown> {
  if (isPlain(headers) && !Object.hasOwn(headers, Symbol.iterator)) return false;
  return typeof (headers as Partial<Iterable<unknown>>)[Symbol.iterator] === 'function';
}

function isPlain(options: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(options);
  return prototype === Object.prototype || prototype === null;
}

/** The request options that undici reads. */
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

/** Copies a request's options, including those from a prototype, such as defaults or getters of a class, because undici reads those too. */
function allOf(options: Dispatcher.DispatchOptions): OwnOptions {
  const from = options as unknown as Readonly<Record<string, unknown>>;
  const optionsCopy: Record<string, unknown> = { ...from };
  for (const name in from) optionsCopy[name] = from[name];
  for (const name of names) if (name in from) optionsCopy[name] = from[name];
  return optionsCopy as unknown as OwnOptions;
}

const SLASH = 47;

/**
 * Copies a request for the dispatcher of a Service: a form is encoded, and a path that is a URL is resolved. Throws the error with which
 * the request is refused.
 */
export function requestOf(
  options: Dispatcher.DispatchOptions,
  handler: Dispatcher.DispatchHandler,
  matcher: OriginMatcher,
): OwnOptions {
  const copy = ownOptions(options);
  if (copy.body != null) encodeForm(copy);
  const repaired = copy.body == null || typeof handler.onRequestStart === 'function' ? copy : withOneLength(copy);
  const { origin, path } = repaired;
  if (typeof path !== 'string' || path.charCodeAt(0) === SLASH) return repaired;
  // A request without an origin is for the dispatcher's Service.
  return resolvePath({ ...repaired, origin: origin || matcher.origin }, (requested, named) =>
    matcher.matches(requested) ? matcher.matches(named) : isSameOrigin(requested, named),
  );
}

/**
 * Resolves a path that is an absolute URL. Its origin must be the request's origin, because the request's credentials must not reach a host
 * that somebody else wrote into the path. Throws undici's error if the two differ.
 *
 * @param isOne Returns whether two origins are the same.
 */
export function resolvePath(
  options: Dispatcher.DispatchOptions,
  isOne: (requested: string | URL, named: string) => boolean = isSameOrigin,
): Dispatcher.DispatchOptions {
  const { origin, path, method } = options;
  if (method === 'CONNECT' || typeof path !== 'string' || !/^https?:\/\//i.test(path)) return options;
  if (!URL.canParse(path)) throw new errors.InvalidArgumentError('invalid request path');
  const url = new URL(path);
  if (origin !== undefined && origin !== null && !isOne(origin, url.origin)) {
    throw otherOrigin('path', url.origin, 'the origin of the request');
  }
  return { ...options, origin: url.origin, path: `${url.pathname}${url.search}` };
}

/** The error for a request whose path or URL would leave its origin. */
export function otherOrigin(what: string, named: string, expected: string): Error {
  return new errors.InvalidArgumentError(`the ${what} names ${named}, which is not ${expected}`);
}

/** Whether two origins have the same scheme, host and port. */
function isSameOrigin(requested: string | URL, named: string): boolean {
  const text = String(requested);
  return URL.canParse(text) && new URL(text).origin === named;
}

/**
 * Repairs the Content-Length of a request by the `fetch` of Node 20 and 22, which adds its own to the caller's, as `3, 3`. undici refuses
 * that from 7 on. A recipient may read a list of one repeated number as that number (RFC 9110, 8.6).
 */
export function withOneLength(options: Dispatcher.DispatchOptions): Dispatcher.DispatchOptions {
  const { headers } = options;
  if (typeof headers !== 'object' || headers === null || Array.isArray(headers)) return options;
  const length = (headers as Record<string, unknown>)['content-length'];
  if (typeof length !== 'string' || !/^(\d+)(, \1)+$/.test(length)) return options;
  return { ...options, headers: { ...headers, 'content-length': length.slice(0, length.indexOf(',')) } };
}

/**
 * Encodes a form that `fetch` passes on unencoded, as it does where a mock may answer. The Content-Type already names a boundary: undici
 * would encode the form with another one, and no pod could read it.
 */
function encodeForm(own: OwnOptions): void {
  const body: unknown = own.body;
  if (!(body instanceof undici.FormData || body instanceof FormData)) return;
  const headers = own.headers as Record<string, string> | null | undefined;
  if (headers?.['content-type'] === undefined) return;
  const encoded = body instanceof undici.FormData ? new undici.Response(body) : new Response(body);
  own.body = encoded.body as never;
  headers['content-type'] = encoded.headers.get('content-type') as string;
}

/** Whether the request may be sent twice without harm, and can be, because sending does not use its body up. */
export function isRepeatable(options: Dispatcher.DispatchOptions, retries: RetryPolicy): boolean {
  const { method, upgrade, idempotent } = options;
  // An upgraded connection belongs to the caller, and cannot be replaced.
  if (upgrade || method === 'CONNECT') return false;
  return retries.methods.has(method) && idempotent !== false && hasLastingBody(options);
}

/** Whether sending the request does not use its body up. */
function hasLastingBody({ body }: Dispatcher.DispatchOptions): boolean {
  return body === undefined || body === null || typeof body === 'string' || ArrayBuffer.isView(body);
}

/** Whether the request's body can be sent (again). A body that was sent may be used up even if the pod processed nothing. */
export function canBeSent(options: Dispatcher.DispatchOptions, wasSent: boolean): boolean {
  return bodyOf(options)?.destroyed !== true && (!wasSent || hasLastingBody(options));
}

/** Removes the option `dispatcher`, which functions of undici 7 leave in the options and undici 8's core refuses. */
export function withoutDispatcher(options: Dispatcher.DispatchOptions): Dispatcher.DispatchOptions {
  if (!('dispatcher' in options)) return options;
  const { dispatcher: _dispatcher, ...rest } = options;
  return rest as Dispatcher.DispatchOptions;
}

/** An interceptor that adds the origin to requests without one, because interceptors such as caches need it. */
export function completedWith(origin: string): Dispatcher.DispatcherComposeInterceptor {
  return (dispatch) => (options, handler) => {
    const isComplete = typeof options !== 'object' || options === null || options.origin;
    return dispatch(isComplete ? options : { ...options, origin }, handler);
  };
}

/**
 * Checks the arguments of `dispatch` as undici's own dispatchers do; those only see evenkeel's handler, which has every method. Returns the
 * error to pass to the caller's handler; throws if there is no handler.
 */
export function argumentError(
  options: Dispatcher.DispatchOptions,
  handler: Dispatcher.DispatchHandler,
): Error | undefined {
  if (typeof handler !== 'object' || handler === null) {
    throw new errors.InvalidArgumentError('handler must be an object');
  }
  if (typeof options !== 'object' || options === null)
    return new errors.InvalidArgumentError('opts must be an object.');
  const upgrades = options.upgrade || options.method === 'CONNECT';
  const missing =
    typeof handler.onRequestStart === 'function' ? missingInV2(handler, upgrades) : missingInV1(handler, upgrades);
  if (missing === undefined) return undefined;
  // undici checks the options before the handler, so an error about them comes first.
  return validationError(options) ?? new errors.InvalidArgumentError(`invalid ${missing} method`);
}

function missingInV2(handler: Dispatcher.DispatchHandler, upgrades: unknown): string | undefined {
  // undici 7 checks none of these methods.
  if (!coreTakesHandlerV1) {
    if (typeof handler.onResponseError !== 'function') return 'onResponseError';
    const missing = wrongOf(handler, 'onBodySent') ?? wrongOf(handler, 'onRequestSent');
    if (missing !== undefined) return missing;
  }
  // A connection that is upgraded for a handler without `onRequestUpgrade` would have no owner, and stay open.
  if (upgrades) return typeof handler.onRequestUpgrade === 'function' ? undefined : 'onRequestUpgrade';
  if (coreTakesHandlerV1) return undefined;
  if (typeof handler.onResponseStart !== 'function') return 'onResponseStart';
  if (typeof handler.onResponseData !== 'function') return 'onResponseData';
  return typeof handler.onResponseEnd === 'function' ? undefined : 'onResponseEnd';
}

function missingInV1(handler: Dispatcher.DispatchHandler, upgrades: unknown): string | undefined {
  if (typeof handler.onConnect !== 'function') return coreTakesHandlerV1 ? 'onConnect' : 'onRequestStart';
  if (typeof handler.onError !== 'function') return 'onError';
  if (wrongOf(handler, 'onBodySent')) return 'onBodySent';
  if (upgrades) return typeof handler.onUpgrade === 'function' ? undefined : 'onUpgrade';
  if (typeof handler.onHeaders !== 'function') return 'onHeaders';
  if (typeof handler.onData !== 'function') return 'onData';
  return typeof handler.onComplete === 'function' ? undefined : 'onComplete';
}

/** Returns `name` if the handler has a property of that name that is no function. */
function wrongOf(handler: object, name: string): string | undefined {
  const method: unknown = Reflect.get(handler, name);
  return method === undefined || typeof method === 'function' ? undefined : name;
}
