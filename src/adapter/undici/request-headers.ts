import type { Dispatcher } from 'undici';
import type { Priority } from '../../index.js';
import type { RequestDeadline } from '../http/request-deadline.js';
import { formatDeadline, loadReportFormatHeader, type Propagation, parseDeadline } from '../kit/index.js';
import type { OwnOptions } from './request-options.js';

/**
 * Sets the deadline header of a request: how long the caller will still wait, but never longer than the caller's own header says. The
 * headers are a copy that evenkeel may change, and are changed again for each attempt.
 */
export function sayDeadline(own: OwnOptions, { deadlineHeader: name }: Propagation, deadline: RequestDeadline): void {
  if (name === undefined || takesConnection(own)) return;
  const { remainingMs } = deadline;
  const present = headerOf(own, name);
  const callersMs = parseDeadline(present);
  if (callersMs === undefined || remainingMs < callersMs) setHeader(own, name, formatDeadline(remainingMs));
}

/** Sets the priority header of a request, unless its priority is `default` or the caller has set the header. */
export function sayPriority(own: OwnOptions, { priorityHeader }: Propagation, priority: Priority): void {
  if (priority === 'default' || priorityHeader === undefined || takesConnection(own)) return;
  if (headerOf(own, priorityHeader) === undefined) setHeader(own, priorityHeader, priority);
}

/**
 * Returns the options of a request with the header that asks its pod for a load report, unless the caller has set that header, or the
 * headers have a form that undici refuses. The options are copied, because another attempt may go to a pod that is not asked.
 */
export function askForReport(options: Dispatcher.DispatchOptions): Dispatcher.DispatchOptions {
  const own: OwnOptions = options;
  const headers: unknown = own.headers ?? {};
  if (takesConnection(own) || headerOf(own, loadReportFormatHeader) !== undefined) return options;
  if (Array.isArray(headers) && headers.length % 2 === 0) {
    return withHeaders(own, [...headers, loadReportFormatHeader, 'TEXT']);
  }
  return isRecord(headers) ? withHeaders(own, { ...headers, [loadReportFormatHeader]: 'TEXT' }) : options;
}

/**
 * Returns a copy of the options with these headers. The copy is built with the property `headers` in first place: on Node 20, undici reads
 * options three times as slowly if a property was added to a copy later.
 */
function withHeaders(own: OwnOptions, headers: unknown): OwnOptions {
  const copy: OwnOptions = { headers: null, ...own };
  copy.headers = headers as NonNullable<OwnOptions['headers']>;
  return copy;
}

/**
 * Returns a function that sets headers of a request for traces; undefined for a request that takes over its connection (an upgrade,
 * CONNECT).
 */
export function headerSetter(own: OwnOptions): ((name: string, value: string) => void) | undefined {
  if (takesConnection(own)) return undefined;
  return (name, value) => setHeader(own, name.toLowerCase(), value);
}

/** Whether the request's connection becomes the caller's own. */
function takesConnection({ upgrade, method }: OwnOptions): boolean {
  return Boolean(upgrade) || method === 'CONNECT';
}

/** The value of a header, by its name in lower case; the first value of a list. Undefined for headers of a form that undici refuses. */
function headerOf(own: OwnOptions, wanted: string): unknown {
  const headers: unknown = own.headers;
  let found: unknown;
  if (Array.isArray(headers)) {
    for (let index = 0; index + 1 < headers.length; index += 2) {
      if (isName(headers[index], wanted)) found ??= headers[index + 1];
    }
  } else if (isRecord(headers)) {
    for (const name in headers) if (isName(name, wanted)) found ??= headers[name];
  }
  if (Array.isArray(found)) [found] = found;
  return Buffer.isBuffer(found) ? found.toString('latin1') : found;
}

/** Sets a header of a request, by its name in lower case. */
function setHeader(own: OwnOptions, wanted: string, value: string): void {
  const headers: unknown = own.headers;
  if (headers === undefined || headers === null) {
    own.headers = { [wanted]: value };
    return;
  }
  if (Array.isArray(headers) && headers.length % 2 === 0) {
    for (let index = headers.length - 2; index >= 0; index -= 2) {
      if (isName(headers[index], wanted)) headers.splice(index, 2);
    }
  } else if (isRecord(headers)) {
    for (const name in headers) if (isName(name, wanted)) delete headers[name];
  }
  addHeader(headers, wanted, value);
}

/** Adds a header to a request. Headers of a form that undici refuses stay unchanged. */
function addHeader(headers: unknown, name: string, value: string): void {
  if (isRecord(headers)) headers[name] = value;
  else if (Array.isArray(headers) && headers.length % 2 === 0) headers.push(name, value);
}

function isRecord(headers: unknown): headers is Record<string, unknown> {
  return typeof headers === 'object' && headers !== null && !(Symbol.iterator in headers);
}

function isName(name: unknown, wanted: string): boolean {
  if (typeof name !== 'string') return Buffer.isBuffer(name) && isName(name.toString('latin1'), wanted);
  return name.length === wanted.length && name.toLowerCase() === wanted;
}

/** Adds a Host header to a request, unless the caller has set one. Headers of a form that undici refuses stay unchanged. */
export function withHost(options: Dispatcher.DispatchOptions, host: string): Dispatcher.DispatchOptions {
  const headers = options.headers as unknown;
  if (headers === undefined || headers === null) return { ...options, headers: { host } };
  if (typeof headers !== 'object') return options;
  if (Array.isArray(headers)) {
    const names = headers.filter((_entry, index) => index % 2 === 0);
    return names.some((name) => isName(String(name), 'host'))
      ? options
      : { ...options, headers: ['host', host, ...headers] };
  }
  if (Symbol.iterator in headers) {
    const pairs = [...(headers as Iterable<unknown>)];
    // undici refuses headers with such entries. They are returned as a Set, because the iterator may be used up.
    if (!pairs.every((pair) => Array.isArray(pair) && pair.length === 2))
      return { ...options, headers: new Set(pairs) } as never;
    // undici reads an array as alternating names and values.
    return withHost({ ...options, headers: (pairs as [string, string][]).flat() }, host);
  }
  const isThere = Object.keys(headers).some((name) => isName(name, 'host'));
  return isThere ? options : ({ ...options, headers: { host, ...headers } } as never);
}
