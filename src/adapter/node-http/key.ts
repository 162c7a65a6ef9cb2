import type { ClientRequest } from 'node:http';
import { keyOfCookie, keyOfHeader } from '../http/key.js';
import { type PrefixKey, prefixKeyOf } from '../http/prompt.js';
import { optionError } from '../kit/index.js';

/** What `key` takes. */
export type RequestKey = (request: ClientRequest) => string | null | undefined;

/**
 * Requests with the same value of a header go to one pod: `key: headerKey('x-user')`, with `picker: hash()`. Requests
 * without it go where `hash`'s `withoutKey` says. Throws EVENKEEL_OPTION for an invalid name.
 */
export const headerKey = (name: string): RequestKey => keyOfHeader(name, headerOf);

/** The same with a cookie: `key: cookieKey('session')`. */
export const cookieKey = (name: string): RequestKey => keyOfCookie(name, headerOf);

/**
 * Requests of one conversation go to one pod, which still has what it computed for them: for servers of language models and their
 * prefix caches. The conversation is named by a header, because node:http asks for a connection before there is a body;
 * `promptKey(body)` makes its value from a JSON body. A pod with more than 1.25 times its share of the calls in flight (of all
 * clients, where servers report them) passes calls on to the next one: with it the default picker is
 * `hash({ maxLoadRatio: 1.25, minInFlight: 8 })`. Throws EVENKEEL_OPTION.
 */
export const prefixKey = (options: { readonly header: string }): PrefixKey<ClientRequest> => {
  if (options?.header === undefined) {
    throw optionError('prefixKey.header', 'the name of a header: node:http knows no body yet', options?.header);
  }
  return prefixKeyOf({ header: options.header }, headerOf, () => undefined);
};

function headerOf(request: ClientRequest, name: string): unknown {
  return request.getHeader(name);
}
