import type { Dispatcher } from 'undici';

/**
 * A copy of a request's options that the caller can no longer change. undici reads headers and path at `dispatch`; here a
 * request may be read much later (it waits, it is sent a second time), and callers reuse one object for many requests: another
 * user's credentials would be sent.
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

/** Options that are ours to change. */
export type OwnOptions = { -readonly [Name in keyof Dispatcher.DispatchOptions]: Dispatcher.DispatchOptions[Name] } & {
  /** The name for TLS; not in undici's types. */
  servername?: string;
};

/**
 * In a form undici takes, and reads as the one that was passed: a list for names and values in turn, an object for both.
 * Whatever it refuses it still refuses. Throws what iterating over them throws.
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
  // undici refuses these, and would take a list for names and values.
  return others.length === 0 ? list : new Set(others);
}

function ownRecord(record: unknown): unknown {
  if (typeof record !== 'object' || record === null) return record;
  const own: Record<string, unknown> = { ...record };
  for (const name in own) {
    // Nearly every value is a string. What somebody put on Object.prototype is no header.
    if (typeof own[name] === 'object' && Object.hasOwn(own, name)) own[name] = ownValue(own[name]);
  }
  return own;
}

function ownValue(value: unknown): unknown {
  return Array.isArray(value) ? value.slice() : value;
}

/**
 * Whether undici iterates over headers of this form, and does not take their properties for headers. An iterator that
 * somebody put on Object.prototype makes no difference.
 */
function isIterated(headers: object): headers is Iterable<unknown> {
  if (isPlain(headers) && !Object.hasOwn(headers, Symbol.iterator)) return false;
  return typeof (headers as Partial<Iterable<unknown>>)[Symbol.iterator] === 'function';
}

function isPlain(options: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(options);
  return prototype === Object.prototype || prototype === null;
}

/** What undici reads of options. */
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

/** Options that come from a prototype, such as defaults or the getters of a class, undici reads, too. */
function allOf(options: Dispatcher.DispatchOptions): OwnOptions {
  const from = options as unknown as Readonly<Record<string, unknown>>;
  const own: Record<string, unknown> = { ...from };
  for (const name in from) own[name] = from[name];
  for (const name of names) if (name in from) own[name] = from[name];
  return own as unknown as OwnOptions;
}
