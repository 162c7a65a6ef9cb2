import type { Pool } from 'undici';
import type { Balancer } from '../../index.js';
import { checkRuntime } from './check-version.js';
import { createDispatcher, type ServiceDispatcher } from './dispatcher.js';
import type { DispatcherOptions } from './options.js';
import { dispatcherKnowing } from './request-body.js';
import { hasLastingBody } from './request-options.js';

/** A `fetch` for one Service. */
export interface ServiceFetch extends AsyncDisposable {
  /** Like the global `fetch`; a URL without an origin (`/v1/orders/42`) refers to the Service. */
  (...arguments_: Parameters<typeof fetch>): ReturnType<typeof fetch>;
  readonly balancer: Balancer<Pool>;
  readonly dispatcher: ServiceDispatcher;
  /** Lets running requests finish, then closes every connection. */
  close(): Promise<void>;
}

/**
 * Creates a `fetch` that spreads its requests over the pods of one Service. It is Node's global `fetch` with an evenkeel
 * dispatcher, so its Response, Request and FormData are the global ones. Must be closed.
 *
 * @param target As for `createDispatcher`.
 * @throws EVENKEEL_OPTION for an invalid target or option.
 * @example const orders = createFetch('http://orders.shop:8080'); const response = await orders('/v1/orders/42'); await
 * orders.close();
 */
export function createFetch(target: string | URL, options: DispatcherOptions = {}): ServiceFetch {
  checkRuntime('createFetch');
  const dispatcher = createDispatcher(target, options);
  const base = new URL(target).href;
  const balanced = (input: Parameters<typeof fetch>[0], init?: RequestInit): Promise<Response> => {
    // Anything that is not a URL is passed to `fetch`, which rejects with the usual error.
    const resource = typeof input === 'string' && URL.canParse(input, base) ? new URL(input, base) : input;
    const body = options.key === undefined ? undefined : (init?.body ?? undefined);
    const knowing =
      body === undefined || !hasLastingBody({ body } as never) ? dispatcher : dispatcherKnowing(dispatcher, body);
    // The types of Node's own undici and of the installed one differ; at run time the dispatcher serves both.
    return fetch(resource, { ...init, dispatcher: knowing } as unknown as RequestInit);
  };
  return Object.assign(balanced, {
    balancer: dispatcher.balancer,
    dispatcher,
    close: () => dispatcher.close(),
    [Symbol.asyncDispose]: () => dispatcher.close(),
  });
}
