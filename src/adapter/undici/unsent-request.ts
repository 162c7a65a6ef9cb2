import { AsyncResource } from 'node:async_hooks';
import { channel } from 'node:diagnostics_channel';
import { stringify } from 'node:querystring';
import { Client, type Dispatcher } from 'undici';
import { asError } from '../kit/index.js';
import { isAboutHandler } from './internals.js';
import { bodyOf } from './request-body.js';

const created = channel('undici:request:create');
const failed = channel('undici:request:error');

/**
 * Returns a function that publishes, on undici's diagnostics channels, a request that failed before undici got it, because there was no
 * pod; otherwise tracing would not show that request. The request is published when it fails, in the async context of this call: published
 * earlier, a request that does get a pod would appear twice. Undefined if the channels have no subscriber.
 */
export function unsentTeller(
  origin: string,
  options: Dispatcher.DispatchOptions,
): ((error: Error) => void) | undefined {
  if (!created.hasSubscribers && !failed.hasSubscribers) return undefined;
  return AsyncResource.bind((error: Error) => {
    const request = published(origin, options);
    created.publish({ request });
    request.aborted = true;
    failed.publish({ request, error });
  });
}

/** A request in the form in which undici publishes it. */
interface PublishedRequest {
  readonly origin: string;
  readonly protocol: string;
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
  readonly upgrade: string | null;
  readonly idempotent: boolean;
  /** The names and values of the headers, alternating. */
  readonly headers: (string | string[])[];
  host: string | null;
  contentLength: number | null;
  contentType: string | null;
  readonly completed: boolean;
  aborted: boolean;
  addHeader(name: string, value: string | string[]): PublishedRequest;
}

function published(origin: string, options: Dispatcher.DispatchOptions): PublishedRequest {
  const { method, path, query, body, upgrade, idempotent, headers } = options;
  const search = query === undefined ? '' : stringify(query as Record<string, string>);
  const request: PublishedRequest = {
    origin,
    protocol: new URL(origin).protocol,
    method,
    path: search === '' ? path : `${path}?${search}`,
    body: body ?? null,
    upgrade: typeof upgrade === 'string' ? upgrade : null,
    idempotent: idempotent ?? (method === 'GET' || method === 'HEAD'),
    headers: [],
    host: null,
    contentLength: null,
    contentType: null,
    completed: false,
    aborted: false,
    addHeader(name, value) {
      const lower = name.toLowerCase();
      if (lower === 'host') request.host = String(value);
      else if (lower === 'content-length') request.contentLength = Number(value);
      else {
        if (lower === 'content-type') request.contentType = String(value);
        request.headers.push(name, value);
      }
      return request;
    },
  };
  const list: readonly unknown[] = Array.isArray(headers) ? headers : Object.entries(headers ?? {}).flat();
  for (let index = 0; index + 1 < list.length; index += 2) {
    const value = list[index + 1] as string | string[] | undefined;
    if (value !== undefined) request.addHeader(String(list[index]), value);
  }
  return request;
}

/**
 * Calls `failed` if the body of a waiting request fails; undici watches a body only once it has the request. Call the result to stop
 * watching.
 */
export function watchBody(options: Dispatcher.DispatchOptions, failed: (error: Error) => void): () => void {
  const body = bodyOf(options);
  body?.on('error', failed);
  return () => body?.off('error', failed);
}

/** A Client that never connects, and so never sends the requests that it checks. */
let validator: Client | undefined;

/** The error with which undici would refuse a request at `dispatch`, for requests that wait and so do not reach undici yet. */
export function validationError(options: Dispatcher.DispatchOptions): Error | undefined {
  validator ??= new Client('http://nobody.invalid', {
    connect: (_options, dialled) => dialled(new Error('none'), null),
  });
  // A stream is left out, because undici would add listeners to it.
  const checked = bodyOf(options) === undefined ? options : { ...options, body: null };
  try {
    validator.dispatch(checked, {});
  } catch (error) {
    const refusal = asError(error);
    return isAboutHandler(refusal) ? undefined : refusal;
  }
  return undefined;
}
