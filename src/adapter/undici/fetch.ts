import type { Pool } from 'undici';
import type { Balancer } from '../../index.js';
import { ownProperties } from '../kit/index.js';
import { checkRuntime } from './check-version.js';
import { openDispatcher, type ServiceDispatcher } from './dispatcher.js';
import type { DispatcherOptions } from './options.js';
import { dispatcherWithBody, lastingBodyOf } from './request-body.js';
import { otherOrigin } from './request-options.js';

/** A `fetch` for one Service. */
export interface ServiceFetch extends AsyncDisposable {
  /**
   * Works like the global `fetch`; a URL without an origin (`/v1/orders/42`) refers to the Service. A URL of another origin is rejected
   * with UND_ERR_INVALID_ARG, unless it has a scheme and there is a `fallbackDispatcher`.
   */
  (...arguments_: Parameters<typeof fetch>): ReturnType<typeof fetch>;
  /** The balancer behind this `fetch`: `ready()` waits for a pod, `snapshot()` returns the current state. */
  readonly balancer: Balancer<Pool>;
  /** The dispatcher that sends the requests. `undici.request` and other clients that take a dispatcher may share its connections. */
  readonly dispatcher: ServiceDispatcher;
  /** Lets running requests finish, then closes every connection. */
  close(): Promise<void>;
}

/**
 * Creates a `fetch` that spreads its requests over the pods of one Service. It is Node's global `fetch` with an evenkeel dispatcher, so its
 * Response, Request and FormData are the global ones. Text, bytes and URLSearchParams that are passed as `body` can be sent again. Must be
 * closed.
 *
 * @param target The Service, as for `createDispatcher`.
 * @throws EVENKEEL_OPTION for an invalid target or option.
 * @example const orders = createFetch('http://orders.shop:8080'); const response = await orders('/v1/orders/42'); await
 * orders.close();
 */
export function createFetch(target: string | URL, options: DispatcherOptions = {}): ServiceFetch {
  checkRuntime('createFetch');
  const dispatcher = openDispatcher(target, options);
  const { matcher } = dispatcher;
  const base = new URL(target).href;
  const sent = (resource: Parameters<typeof fetch>[0], init: RequestInit | undefined): Promise<Response> => {
    const own = membersOf(init);
    const body = lastingBodyOf(own.body);
    own.dispatcher = body === undefined ? dispatcher : dispatcherWithBody(dispatcher, body);
    // The types of Node's own undici and of the installed undici differ, but at run time the dispatcher serves both.
    return fetch(resource, own as RequestInit);
  };
  const balanced = async (input: Parameters<typeof fetch>[0], init?: RequestInit): Promise<Response> => {
    const { resource, url, isAbsolute } = resolved(input, base);
    // `fetch` itself rejects text that is not a URL. URLs with other schemes, such as `data:`, reach no host.
    if (!/^https?:$/.test(url?.protocol ?? '') || matcher.matches(url?.origin)) return sent(resource, init);
    const { origin } = url as URL;
    const mayLeave = isAbsolute && ownProperties(options).fallbackDispatcher !== undefined;
    if (mayLeave || (await matcher.matchesInCluster(origin))) return sent(resource, init);
    throw otherOrigin('URL', origin, `${matcher.origin}, the Service of this fetch`);
  };
  return Object.assign(balanced, {
    balancer: dispatcher.balancer,
    dispatcher,
    close: () => dispatcher.close(),
    [Symbol.asyncDispose]: () => dispatcher.close(),
  });
}

/** The members of `init` that `fetch` reads. */
const initNames = [
  'method',
  'headers',
  'body',
  'referrer',
  'referrerPolicy',
  'mode',
  'credentials',
  'cache',
  'redirect',
  'integrity',
  'keepalive',
  'signal',
  'window',
  'duplex',
  'priority',
] as const;

/**
 * Copies the second argument of a `fetch` call. `fetch` also reads members that are inherited, such as all those of a Request in place of
 * `init`.
 */
function membersOf(init: RequestInit | undefined): Record<string, unknown> {
  const members: Record<string, unknown> = { ...init };
  if (typeof init !== 'object' || init === null || Object.getPrototypeOf(init) === Object.prototype) return members;
  const inherited: Readonly<Record<string, unknown>> = init as never;
  for (const name of initNames) if (name in init) members[name] = inherited[name];
  return members;
}

/** The first argument of a `fetch` call, converted once, because the text of an object may change between two conversions. */
interface Resolved {
  readonly resource: URL | Request | string;
  /** The URL of the request; undefined if the argument's text is not a URL. */
  readonly url: URL | undefined;
  /** Whether the URL has a scheme of its own. */
  readonly isAbsolute: boolean;
}

function resolved(input: Parameters<typeof fetch>[0], base: string): Resolved {
  if (input instanceof Request) return { resource: input, url: new URL(input.url), isAbsolute: true };
  const text = `${input}`;
  const from = typeof input === 'string' ? base : undefined;
  const url = URL.canParse(text, from) ? new URL(text, from) : undefined;
  return { resource: url ?? text, url, isAbsolute: URL.canParse(text) };
}
