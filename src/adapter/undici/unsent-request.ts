import { AsyncResource } from 'node:async_hooks';
import { channel } from 'node:diagnostics_channel';
import { stringify } from 'node:querystring';
import type { Dispatcher } from 'undici';

const created = channel('undici:request:create');
const failed = channel('undici:request:error');

/**
 * Tells the channels on which undici tells of requests of one that fails before undici gets to see it, since there was no
 * pod for it: tracing would show nothing of it. It is told when it fails, in the async context of now: had it been
 * before, a request that then gets a pod would be told twice. Undefined where nobody listens.
 */
export function unsentTeller(
  origin: string,
  options: Dispatcher.DispatchOptions,
): ((error: Error) => void) | undefined {
  if (!created.hasSubscribers && !failed.hasSubscribers) return undefined;
  return AsyncResource.bind((error: Error) => {
    const request = new UnsentRequest(origin, options);
    created.publish({ request });
    request.aborted = true;
    failed.publish({ request, error });
  });
}

/** What undici shows of a request. */
class UnsentRequest {
  readonly origin: string;
  readonly protocol: string;
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
  readonly upgrade: string | null;
  readonly idempotent: boolean;
  /** Names and values in turn. */
  readonly headers: (string | string[])[] = [];
  host: string | null = null;
  contentLength: number | null = null;
  contentType: string | null = null;
  completed = false;
  aborted = false;

  constructor(origin: string, options: Dispatcher.DispatchOptions) {
    const { method, path, query, body, upgrade, idempotent, headers } = options;
    this.origin = origin;
    this.protocol = new URL(origin).protocol;
    this.method = method;
    const search = query === undefined ? '' : stringify(query as Record<string, string>);
    this.path = search === '' ? path : `${path}?${search}`;
    this.body = body ?? null;
    this.upgrade = typeof upgrade === 'string' ? upgrade : null;
    this.idempotent = idempotent ?? (method === 'GET' || method === 'HEAD');
    const list: readonly unknown[] = Array.isArray(headers) ? headers : Object.entries(headers ?? {}).flat();
    for (let index = 0; index + 1 < list.length; index += 2) {
      const value = list[index + 1] as string | string[] | undefined;
      if (value !== undefined) this.addHeader(String(list[index]), value);
    }
  }

  addHeader(name: string, value: string | string[]): this {
    const lower = name.toLowerCase();
    if (lower === 'host') this.host = String(value);
    else if (lower === 'content-length') this.contentLength = Number(value);
    else {
      if (lower === 'content-type') this.contentType = String(value);
      this.headers.push(name, value);
    }
    return this;
  }
}
