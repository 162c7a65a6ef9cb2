import type { ClientRequest } from 'node:http';
import { keyOfCookie, keyOfHeader } from '../http/key.js';

/** What `key` takes. */
export type RequestKey = (request: ClientRequest) => string | null | undefined;

/**
 * Requests with the same value of a header go to one pod: `key: headerKey('x-user')`, with `picker: hash()`. Requests
 * without it go where `hash`'s `withoutKey` says. Throws EVENKEEL_OPTION for what is no name.
 */
export const headerKey = (name: string): RequestKey => keyOfHeader(name, headerOf);

/** The same with a cookie: `key: cookieKey('session')`. */
export const cookieKey = (name: string): RequestKey => keyOfCookie(name, headerOf);

function headerOf(request: ClientRequest, name: string): unknown {
  return request.getHeader(name);
}
