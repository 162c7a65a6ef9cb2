import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { markCallersError } from './handler.js';

/** The body, if it is a stream. */
export function bodyOf({ body }: Dispatcher.DispatchOptions): Readable | undefined {
  const stream = body as Partial<Readable> | null | undefined;
  const isStream = typeof stream === 'object' && typeof stream?.pipe === 'function' && typeof stream.on === 'function';
  return isStream ? (stream as Readable) : undefined;
}

/** In the options of a request by `createFetch`: the body it was given. `fetch` itself passes on iterators only. */
const callersBody = Symbol('body');

/** `dispatcher` for one request of `fetch`, whose body is still as the caller gave it. */
export function dispatcherKnowing(dispatcher: Dispatcher, body: unknown): Pick<Dispatcher, 'dispatch'> {
  return {
    dispatch: (options, handler) =>
      // Without a body when a redirect made a GET of it.
      dispatcher.dispatch(
        options.body == null ? options : ({ ...options, [callersBody]: body } as typeof options),
        handler,
      ),
    // Asked for by fetch.
    get isMockActive() {
      return (dispatcher as { readonly isMockActive?: boolean }).isMockActive;
    },
  } as Pick<Dispatcher, 'dispatch'>;
}

/** The request as its key sees it: with the body that was given. */
export function withCallersBody(options: Dispatcher.DispatchOptions): Dispatcher.DispatchOptions {
  const body = (options as { readonly [callersBody]?: unknown })[callersBody];
  return body === undefined ? options : { ...options, body: body as never };
}

/**
 * Records what an iterable body (not a stream) throws. undici passes such an error on unchanged, and if the body comes from another
 * connection (in a proxy) it looks like an error of the request. A stream remembers its own error.
 */
export function withWatchedBody(options: Dispatcher.DispatchOptions): Dispatcher.DispatchOptions {
  const body = options.body as Partial<AsyncIterable<unknown>> | null | undefined;
  if (body === null || typeof body !== 'object') return options;
  if (typeof body[Symbol.asyncIterator] !== 'function' || bodyOf(options) !== undefined) return options;
  const parts = body as AsyncIterable<unknown>;
  return { ...options, body: { [Symbol.asyncIterator]: () => watched(parts) } as never };
}

async function* watched(parts: AsyncIterable<unknown>): AsyncGenerator<unknown> {
  try {
    yield* parts;
  } catch (error) {
    markCallersError(error);
    throw error;
  }
}
