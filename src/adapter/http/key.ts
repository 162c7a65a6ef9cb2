import { checkString } from '../kit/index.js';

/** Reads a request header by its lower-case name; a list if it is repeated. */
export type RequestHeader<R> = (request: R, name: string) => unknown;

/** A `key` for hash pickers: the value of a request header; undefined if there is none. Throws EVENKEEL_OPTION. */
export function keyOfHeader<R>(name: string, header: RequestHeader<R>): (request: R) => string | undefined {
  const wanted = checkString('headerKey()', name).toLowerCase();
  return (request) => textOf(header(request, wanted), ', ');
}

/** The same for a cookie. Its name is case-sensitive; its value is used unchanged, without surrounding quotes. */
export function keyOfCookie<R>(name: string, header: RequestHeader<R>): (request: R) => string | undefined {
  const wanted = checkString('cookieKey()', name);
  return (request) => {
    const cookies = textOf(header(request, 'cookie'), '; ');
    return cookies === undefined ? undefined : cookieOf(wanted, cookies);
  };
}

function cookieOf(name: string, cookies: string): string | undefined {
  for (const cookie of cookies.split(';')) {
    const equals = cookie.indexOf('=');
    if (equals === -1 || cookie.slice(0, equals).trim() !== name) continue;
    return cookie
      .slice(equals + 1)
      .trim()
      .replace(/^"(.*)"$/, '$1');
  }
  return undefined;
}

function textOf(value: unknown, separator: string): string | undefined {
  if (value === undefined || value === null) return undefined;
  return Array.isArray(value) ? value.join(separator) : String(value);
}
