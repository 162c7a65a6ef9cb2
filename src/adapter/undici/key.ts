import type { Dispatcher } from 'undici';
import { keyOfCookie, keyOfHeader } from '../http/key.js';

/** What `key` takes. */
export type RequestKey = (options: Dispatcher.DispatchOptions) => string | null | undefined;

/**
 * Requests with the same value of a header go to one pod: `key: headerKey('x-user')`, with `picker: hash()`. Requests
 * without it go where `hash`'s `withoutKey` says. Throws EVENKEEL_OPTION for what is no name.
 */
export const headerKey = (name: string): RequestKey => keyOfHeader(name, headerOf);

/** The same with a cookie: `key: cookieKey('session')`. */
export const cookieKey = (name: string): RequestKey => keyOfCookie(name, headerOf);

/** One header, in whatever form the request brings them. */
function headerOf({ headers }: Dispatcher.DispatchOptions, name: string): unknown {
  if (typeof headers !== 'object' || headers === null) return undefined;
  const found: unknown[] = [];
  for (const [key, value] of pairsOf(headers)) {
    if (String(key).toLowerCase() === name && value !== undefined && value !== null) found.push(value);
  }
  return found.length === 0 ? undefined : found.flat();
}

function* pairsOf(headers: object): Iterable<readonly [unknown, unknown]> {
  if (Array.isArray(headers)) {
    for (let index = 0; index + 1 < headers.length; index += 2) yield [headers[index], headers[index + 1]];
  } else if (Symbol.iterator in headers) yield* headers as Iterable<readonly [unknown, unknown]>;
  else yield* Object.entries(headers);
}
